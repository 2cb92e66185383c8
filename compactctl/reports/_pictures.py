"""Pictures as matplotlib figures: readable in black and white, the same bytes on every run, no global state.

Each function draws on axes that it is given or makes a figure; ``picture`` turns a figure into bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from compactctl.model import Tier
from compactctl.reports._effects import effects
from compactctl.reports._overview import real_source, tier_rows, worst_first
from compactctl.reports._safe import safe
from compactctl.reports._session_table import short_names
from compactctl.reports._stored import StoredSession
from compactctl.reports._svg import THRESHOLDS, spread
from compactctl.reports._timeline import Point
from compactctl.reports._titles import finding_of, title_of_all
from compactctl.reports._words import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Session = Mapping[str, Any]

# Each tier by colour, hatch and letter, so that it is told apart in print too. All have 3:1 or more against white.
TIER_COLOURS = ("#8a8f98", "#b07400", "#2a8fbd", "#1f4e9c", "#c0261c")
TIER_HATCHES = ("", "//", "..", "xx", "")
_LETTERS = " wsFE"
_EFFECTS = (
    ("left", "#3b3f46", ""),
    ("taken by offloading", "#b07400", "//"),
    ("taken by a summary", "#7fb2d8", ".."),
    ("taken by truncation", "#c0261c", "xx"),
)
_PARTS = ("#1f4e9c", "#b07400", "#2f7d4f", "#9a3b8a", "#2a8fbd", "#7a4b2b", "#6d737d", "#c0261c")
_PART_HATCHES = ("", "//", "..", "xx", "\\\\", "--", "", "++")
_DASHES = ("-", "--", ":", "-.")
_MOST_PARTS = 7
_MOST_SESSIONS = 30
_MOST_COMPACTIONS = 80
_LEGEND = 28


def picture(figure: Figure, format: str) -> bytes:
    """Give a figure as ``png`` or ``svg``, with no date and no random ids."""
    out = io.BytesIO()
    metadata = {"Software": None} if format == "png" else {"Date": None, "Creator": None}
    with _style():
        figure.savefig(out, format=format, dpi=144, metadata=metadata)
    return out.getvalue()


def figure_of(document: Mapping[str, Any]) -> Figure:
    """Give the picture of a report: one session in three panels, or tiers and reductions over all."""
    sessions, details = document["sessions"], document.get("details", ())
    if len(sessions) == 1 and details:
        return session_figure(sessions[0], details[0])
    return tiers_figure(sessions)


def session_figure(session: Session, detail: StoredSession) -> Figure:
    """Draw one session: occupancy over turns, what fills it, and what each compaction took away."""
    with _figure(9, 10.5) as figure:
        top, strip, middle, bottom = figure.subplots(4, 1, height_ratios=(4, 0.35, 3, 3))
        occupancy(top, session, detail)
        tier_strip(strip, detail.timeline.points)
        top.sharex(strip)
        composition(middle, detail)
        waterfall(bottom, session)
        title = f"{label(session['session_id'])}\n{label(finding_of(session))}"
        figure.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def tiers_figure(sessions: Sequence[Session]) -> Figure:
    """Draw all sessions: turns by tier, worst first, and the reduction of each compaction by tier."""
    shown = [sessions[place] for place in worst_first(sessions)][:_MOST_SESSIONS]
    with _figure(10, max(3.4, 1.6 + 0.24 * len(shown))) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        _turns_by_tier(left, shown, len(sessions))
        _reductions(right, sessions)
        figure.suptitle(label(title_of_all(sessions)), fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def curves_figure(
    title: str,
    x_label: str,
    y_label: str,
    named: Mapping[str, Sequence[tuple[float, float]]],
    mark: tuple[str, float] | None = None,
) -> Figure:
    """Draw named curves of (x, y) over one another, as the command ``compare`` needs them; one point is a mark.

    ``mark`` is a named height that a line is drawn at.
    """
    with _figure(8, 4.2) as figure:
        axes = figure.subplots()
        for number, (name, points) in enumerate(named.items()):
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                label=label(name, _LEGEND),
                color=_PARTS[number % len(_PARTS)],
                linestyle=_DASHES[number % len(_DASHES)],
                marker="o" if len(points) == 1 else "",
            )
        if mark is not None:
            axes.axhline(mark[1], color="#111111", linewidth=1.2)
            across = axes.get_yaxis_transform()
            axes.text(0.005, mark[1], label(mark[0], _LEGEND), va="bottom", fontsize=8, transform=across)
        axes.set_xlabel(label(x_label))
        axes.set_ylabel(label(y_label))
        if named:
            axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", alpha=0.3)
        figure.suptitle(label(title), fontsize=11, fontweight="bold", x=0.01, ha="left")
    return figure


def occupancy(axes: Axes, session: Session, detail: StoredSession) -> None:
    """Draw tokens over turns as a share of the window: given, sent and recorded, over the bands of the tiers."""
    points, window = detail.timeline.points, session["window"]
    if not points or not window:
        _nothing(axes, "occupancy: no turns stored")
        return
    turns = [point.first for point in points]
    given = [point.before / window * 100 for point in points]
    sent = [point.tokens / window * 100 for point in points]
    top = max(100.0, *given, *sent)
    same = all(point.real in (None, point.tokens) for point in points)
    axes.plot(turns, given, color="#6d737d", linestyle=":", label=f"given to the compactor ({session['meter']} tokens)")
    axes.plot(turns, sent, color="#111111", linewidth=1.8, label=f"sent ({session['meter']} tokens)")
    if not same:
        real = [(point.real or 0) / window * 100 for point in points]
        top = max(top, *real)
        axes.plot(
            turns, real, color="#9a3b8a", linestyle="--", label=f"sent (real tokens: {label(real_source(session))})"
        )
    recorded = [(point.first, point.recorded / window * 100) for point in points if point.recorded is not None]
    if recorded:
        top = max(top, *(share for _, share in recorded))
        axes.plot(*zip(*recorded, strict=True), color="#2f7d4f", linestyle="-.", label="recorded (real tokens)")
    if _bands(axes, detail, top) and (recorded or not same):
        # Two counts in one picture: what the bands are of must be said beside the lines that are of the other.
        axes.plot([], [], " ", label="bands: the tiers, by decision tokens")
    axes.axhline(100, color="#111111", linewidth=0.8)
    axes.set_ylim(0, top * 1.06)
    axes.set_ylabel("share of the window in %")
    axes.tick_params(labelbottom=False)
    axes.text(0.005, 100, "window", va="bottom", fontsize=8, transform=axes.get_yaxis_transform())
    # Above the axes, where no curve can run under it.
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, borderaxespad=0.2)


def _bands(axes: Axes, detail: StoredSession, top: float) -> bool:
    """Draw the bands of the tiers; False where the compactor has none."""
    options = detail.settings.get("options") or {}
    marks = [float(options[name]) * 100 for name in THRESHOLDS if name in options]
    if len(marks) != len(THRESHOLDS):
        return False
    ends = [min(high, top * 1.06) for high in (*marks[1:], top * 1.06)]
    middles = [(low + high) / 2 for low, high in zip(marks, ends, strict=True)]
    for tier, low, high, at in zip(list(Tier)[1:], marks, ends, spread(middles, top * 0.05), strict=True):
        colour = TIER_COLOURS[tier]
        axes.axhspan(low, high, color=colour, alpha=0.12, linewidth=0)
        across = axes.get_yaxis_transform()
        axes.text(1.005, at, tier.label, color=colour, fontsize=8, transform=across, va="center")
    return True


def tier_strip(axes: Axes, points: Sequence[Point]) -> None:
    """Draw the tier of each turn as a strip below the curve, with the letter of each run of turns."""
    axes.set_yticks([])
    axes.set_ylim(0, 1)
    axes.set_xlabel("turn (model calls made before it)")
    axes.margins(x=0.01)
    if points:
        axes.set_xlim(points[0].first - 0.5, points[-1].last + 0.5)
    for first, last, tier in runs_of(points):
        if tier == Tier.NONE:
            continue
        axes.barh(
            0.5,
            last - first + 1,
            left=first - 0.5,
            height=1,
            color=TIER_COLOURS[tier],
            hatch=TIER_HATCHES[tier],
            edgecolor="white",
            linewidth=0,
        )
        if last - first >= (points[-1].last - points[0].first) / 40:
            axes.text(
                (first + last) / 2,
                0.48,
                _LETTERS[tier],
                ha="center",
                va="center",
                fontsize=8,
                fontweight="bold",
                color="white",
                bbox={"facecolor": TIER_COLOURS[tier], "edgecolor": "none", "pad": 0.8},
            )


def runs_of(points: Sequence[Point]) -> Iterator[tuple[int, int, int]]:
    """Give first turn, last turn and tier of each run of turns at one tier."""
    start = 0
    for i in range(1, len(points) + 1):
        if i == len(points) or points[i].tier != points[start].tier:
            yield points[start].first, points[i - 1].last, points[start].tier
            start = i


def composition(axes: Axes, detail: StoredSession) -> None:
    """Draw what the views were made of over turns, by role and tool."""
    points = detail.timeline.points
    parts = detail.timeline.parts()
    if not points or not parts:
        _nothing(axes, "what fills the context: no turns stored")
        return
    shown = parts[:_MOST_PARTS]
    series = [[point.parts.get(part, 0) / 1000 for point in points] for part in shown]
    if len(parts) > len(shown):
        rest = [sum(point.parts.get(part, 0) for part in parts[_MOST_PARTS:]) / 1000 for point in points]
        series.append(rest)
        shown = [*shown, f"{len(parts) - len(shown)} more"]
    stacks = axes.stackplot(
        [point.first for point in points],
        series,
        labels=[label(part, _LEGEND) for part in shown],
        colors=_PARTS,
        alpha=0.85,
        step="mid",
        edgecolor="white",
        linewidth=0.3,
    )
    for stack, hatch in zip(stacks, _PART_HATCHES, strict=False):
        stack.set_hatch(hatch)
    axes.margins(x=0.01)
    axes.set_xlim(points[0].first - 0.5, points[-1].last + 0.5)
    axes.set_ylabel("decision tokens in thousands")
    axes.set_xlabel("turn")
    axes.set_title(label(f"most of what is sent: {parts[0]}", 60), loc="left", fontsize=10)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="upper left", bbox_to_anchor=(1.005, 1), borderaxespad=0)


def waterfall(axes: Axes, session: Session) -> None:
    """Draw each compaction: what was left, and what offloading, a summary and truncation took away."""
    rows = [row for row in session["compactions"] if row["changed"]]
    if not rows:
        _nothing(axes, "no compaction")
        return
    shown = rows[:_MOST_COMPACTIONS]
    split = [effects(row) for row in shown]
    base = [0.0] * len(shown)
    for number, (name, colour, hatch) in enumerate(_EFFECTS):
        heights = [each[number] / 1000 for each in split]
        if number == 0 or any(heights):
            axes.bar(
                range(len(shown)),
                heights,
                bottom=base,
                label=name,
                color=colour,
                hatch=hatch,
                width=0.85,
                edgecolor="white",
                linewidth=0.2,
            )
        base = [low + height for low, height in zip(base, heights, strict=True)]
    step = -(-len(shown) // 20)
    places = list(range(0, len(shown), step))
    named = [str(shown[i]["turn"] if shown[i]["turn"] is not None else i + 1) for i in places]
    axes.set_xticks(places, named)
    axes.set_xlabel("compaction at turn" if shown[0]["turn"] is not None else "record")
    axes.set_ylabel("decision tokens in thousands")
    means = {name: sum(each[i] for each in split) for i, (name, _, _) in enumerate(_EFFECTS) if i}
    most = max(means, key=lambda name: means[name])
    taken = sum(means.values())
    of = f" (first {len(shown)} of {len(rows)} compactions)" if len(shown) < len(rows) else ""
    words = f"{percent(means[most] / taken)} of what went away was {most}{of}" if taken else f"nothing went away{of}"
    axes.set_title(words, loc="left", fontsize=10)
    axes.legend(loc="upper left", bbox_to_anchor=(1.005, 1), borderaxespad=0)


def _turns_by_tier(axes: Axes, shown: Sequence[Session], of: int) -> None:
    names = [label(name, _LEGEND) for name in short_names([session["session_id"] for session in shown], 80)]
    left = [0.0] * len(shown)
    for tier in Tier:
        counts = [
            (session["turns_by_tier"] or session["compactions_by_tier"]).get(tier.name.lower(), 0) for session in shown
        ]
        sums = [sum((session["turns_by_tier"] or session["compactions_by_tier"]).values()) or 1 for session in shown]
        widths = [count / total * 100 for count, total in zip(counts, sums, strict=True)]
        axes.barh(
            range(len(shown)),
            widths,
            left=left,
            label=tier.label,
            hatch=TIER_HATCHES[tier],
            edgecolor="white",
            color="#dfe2e6" if tier is Tier.NONE else TIER_COLOURS[tier],
            linewidth=0.2,
        )
        left = [low + width for low, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(shown)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xlabel("share of turns in %")
    listed = f"worst {len(shown)} of {of} sessions" if of > len(shown) else "sessions, worst first"
    axes.set_title(f"turns by tier: {listed}", loc="left", fontsize=10)
    # Below the whole picture, where the layout keeps a place for it: under the axes is their own label.
    axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=5)


def _reductions(axes: Axes, sessions: Sequence[Session]) -> None:
    rows = [row for row in tier_rows(sessions) if row.tier is not Tier.NONE]
    for place, row in enumerate(rows):
        if not row.reductions:
            continue
        # Neighbours are put side by side in a fixed order, so that equal values do not hide one another.
        offsets = [((i * 7) % 11 - 5) / 18 for i in range(len(row.reductions))]
        axes.scatter(
            [place + offset for offset in offsets],
            [r * 100 for r in row.reductions],
            s=12,
            alpha=0.6,
            color=TIER_COLOURS[row.tier],
            marker=" ^soD"[row.tier],
            linewidths=0,
        )
        median = (row.quantile(0.5) or 0.0) * 100
        axes.hlines(median, place - 0.38, place + 0.38, color="#111111", linewidth=1.6)
        axes.annotate(
            f"{median:.0f}%",
            (place, median),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
        )
    axes.set_xticks(range(len(rows)), [f"{row.tier.label}\n{row.compactions}" for row in rows])
    axes.set_xlim(-0.6, len(rows) - 0.2)
    lowest = min((row.reductions[0] for row in rows if row.reductions), default=0.0)
    axes.set_ylim(min(0.0, lowest * 100 - 5), 110)
    axes.set_ylabel("reduction of one compaction in %")
    axes.set_title("reductions by tier; line: median", loc="left", fontsize=10)
    axes.grid(axis="y", alpha=0.3)


def _nothing(axes: Axes, words: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, ha="center", va="center", transform=axes.transAxes, color="#4a4f57")


def label(text: str, most: int = 100) -> str:
    r"""Give foreign text as a label: no mathtext, letters that the font lacks as escapes, cut to ``most`` characters.

    >>> label("cost $x$"), label("库存"), label("a very long name", 6)
    ('cost \\$x\\$', '\\u5e93\\u5b58', 'a ver…')
    """
    shown = "".join(c if ord(c) < 0x500 or c in "…–—’“”€" else c.encode("unicode_escape").decode() for c in safe(text))
    # A longer one would leave no room for the axes.
    shown = shown if len(shown) <= most else shown[: most - 1] + "…"
    return shown.replace("$", r"\$")


@contextmanager
def _figure(width: float, height: float) -> Iterator[Figure]:
    from matplotlib.figure import Figure

    with _style():
        yield Figure(figsize=(width, height), layout="constrained")


@contextmanager
def _style() -> Iterator[None]:
    """Draw with the library's own defaults, whatever the user's matplotlibrc says."""
    from matplotlib import style

    chosen = {
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "hatch.linewidth": 0.5,
        "svg.hashsalt": "compactctl",
        "svg.fonttype": "none",
    }
    with style.context(["default", chosen]):
        yield
