"""``inspect``, ``convert``, ``list`` and ``config show``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

FIELDS = {
    "path", "format", "session_id", "model", "window", "window_source", "messages", "model_calls", "tool_calls",
    "tool_results", "recorded_compactions", "peak_prompt_tokens", "lines", "lines_used", "lines_recovered",
    "lines_ignored", "lines_skipped", "lines_blank",
}  # fmt: skip


def test_inspect_accounts_for_every_line(command: Command, samples: Path) -> None:
    """Lines = used + recovered + ignored + skipped + blank, for each sample, damaged ones too."""
    ran = command("inspect", samples, "--format", "json")

    assert ran.status == 0
    for session in ran.json()["sessions"]:
        assert session.keys() >= FIELDS
        parts = ("used", "recovered", "ignored", "skipped", "blank")
        assert session["lines"] == sum(session[f"lines_{part}"] for part in parts), session["path"]


def test_inspect_shows_a_recorded_compaction(command: Command, samples: Path) -> None:
    """Kind, the transcript's own trigger, where it happened, and its tokens."""
    ran = command("inspect", samples / "claude-code-automatic-compaction.jsonl")

    assert "full (auto) before model call 36" in ran.out


def test_inspect_names_the_skipped_lines(command: Command, samples: Path) -> None:
    """A damaged line is told by its number and the reason."""
    ran = command("inspect", samples / "claude-code-torn-glued-and-nul.jsonl")

    assert ran.status == 0
    assert "skipped" in ran.out
    assert "line " in ran.out


def test_a_foreign_format_under_a_directory_is_named(command: Command, tmp_path: Path) -> None:
    """Files that no loader reads are left out, and what they are is said as for a named file."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.json").write_text('{"projectHash": "1", "messages": []}')
    told = command("inspect", tmp_path / "in")

    assert "left out: 1 no transcript (a Gemini CLI session)" in told.err


def test_help_promises_only_what_inspect_does(command: Command) -> None:
    """It replays nothing and shows no compaction of its own."""
    told = command("inspect", "--help").out

    assert "eplayed" not in told
    assert "Show each compaction" not in told


def test_several_models_are_named_with_their_calls(command: Command, tmp_path: Path) -> None:
    """A session that changed its model says so: one name would hide what its prices and its window rest on."""
    rows = ['{"role": "user", "content": "go"}']
    rows += [f'{{"role": "assistant", "content": "so", "model": "{model}"}}' for model in ("gpt-5", "gpt-5", "o3")]
    (tmp_path / "two.jsonl").write_text("\n".join(rows) + "\n")

    assert "gpt-5 (2 calls), o3 (1 call)" in command("inspect", tmp_path / "two.jsonl").out


def test_convert_writes_what_loads_to_the_same(command: Command, samples: Path) -> None:
    """The neutral format holds all that a replay needs: the figures stay."""
    for name in ("claude-code-automatic-compaction.jsonl", "codex-compacted-at-its-window.jsonl"):
        assert command("convert", samples / name, "-o", "neutral.jsonl").status == 0
        first = command("replay", samples / name, "-n", "--format", "json", "--measures", "none").json()["sessions"][0]
        second = command("replay", "neutral.jsonl", "-n", "--format", "json", "--measures", "none").json()
        again = second["sessions"][0]

        for key in ("session_id", "turns", "tokens", "real_peak_tokens", "recorded_compactions", "compactions"):
            assert again[key] == first[key], key


def test_convert_of_many_asks_for_one(command: Command, tmp_path: Path) -> None:
    """A file of several sessions is not converted by guess."""
    path = tmp_path / "many.jsonl"
    one = '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n'
    path.write_text(one * 3)
    ran = command("convert", path)

    assert ran.status == 2
    assert "holds 3 sessions" in ran.err
    name = ran.err.split("one of: ")[1].split(",")[0]
    assert command("convert", path, "--session", name).status == 0


@pytest.mark.parametrize("what", ["compactors", "formats", "summarizers", "meters", "measures", "findings", "reports"])
def test_list_names_what_there_is(command: Command, what: str) -> None:
    """Every kind can be listed for people and for programs, and the two name the same things."""
    shown = command("list", what)
    rows = command("list", what, "--json").json()[what]

    assert shown.status == 0
    assert len(rows) > 1
    for row in rows:
        assert row["name"] in shown.out
        assert row["help"]


def test_config_show_says_where_each_value_is_from(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flag, environment, file or default."""
    Path("compactctl.toml").write_text("reserve = 4000\n[set]\nsoft = 0.71\n")
    monkeypatch.setenv("COMPACTCTL_WINDOW", "128k")
    settings = command("config", "show", "--json").json()["settings"]

    assert settings["window"] == {"value": 128_000, "origin": "COMPACTCTL_WINDOW"}
    assert settings["reserve"]["value"] == 4000
    assert settings["reserve"]["origin"].endswith("compactctl.toml")
    assert settings["set.soft_threshold"]["value"] == 0.71
    assert settings["jobs"] == {"value": 1, "origin": "default"}


@pytest.mark.parametrize(
    "content",
    [
        'meter = "bytes5"',
        'measures = ["m1", "m99"]',
        'measures = ["none", "m1"]',
        'summarizer = "stud"',
        "[prices]\ngpt-5-mini = 5",
        "[prices.gpt-5-mini]\ninput = 1",
    ],
)
def test_config_show_refuses_what_replay_refuses(command: Command, samples: Path, tmp_path: Path, content: str) -> None:
    """A settings file that is shown without a complaint is one that works."""
    file = tmp_path / "compactctl.toml"
    file.write_text(content)

    shown = command("config", "show", "--config", file)
    replayed = command("replay", "--config", file, "--dry-run", next(samples.glob("*.jsonl")))

    assert (shown.status, replayed.status) == (2, 2)
    assert shown.err == replayed.err


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "1e9", "soon"])
@pytest.mark.parametrize("name", ["replay", "verify", "gc"])
def test_a_wait_is_a_number_of_seconds(command: Command, name: str, wait: str) -> None:
    """What is no time to wait is refused before anything is done."""
    assert command(name, f"--wait={wait}").status == 2
