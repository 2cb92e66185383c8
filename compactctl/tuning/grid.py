"""The settings that are tried: ranges and lists, in decimal, and a seeded sample of them where they are too many."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from compactctl.errors import SettingsError, nearest
from compactctl.ports import CompactorSpec, Option
from compactctl.settings import option_value
from compactctl.tuning.dice import Dice

MOST_VALUES = 10_000
MOST_POINTS = 100_000
_DIGITS = 12  # after the point
_LARGEST_EXPONENT = 12


@dataclass(frozen=True, slots=True)
class Axis:
    """One option of a compactor and the values that are tried, in the order written.

    ``short`` says that a range ends before the end that was written, if it does.
    """

    option: Option
    values: tuple[Any, ...]
    short: str = ""

    @property
    def name(self) -> str:
        """The option's full name."""
        return self.option.name


@dataclass(frozen=True, slots=True)
class Grid:
    """The points that are replayed, each the values of the axes in their order; ``impossible`` were left out.

    ``places`` are the positions of the values on the axes, so that neighbours are known. ``of`` is how many points the
    axes span; ``sampled`` says that only a seeded part of them was looked at. ``why`` is what is wrong with the first
    impossible one.
    """

    axes: tuple[Axis, ...]
    points: tuple[tuple[Any, ...], ...]
    places: tuple[tuple[int, ...], ...]
    impossible: int
    of: int
    sampled: bool = False
    why: str = ""

    def options(self, number: int) -> dict[str, Any]:
        """Give the options that a point sets."""
        return {axis.name: value for axis, value in zip(self.axes, self.points[number], strict=True)}


def parse_axis(written: str, spec: CompactorSpec) -> Axis:
    """Read ``NAME=FIRST:LAST:STEP`` (both ends are in it) or ``NAME=VALUE,VALUE,...``; raises SettingsError.

    A range is counted in decimal, so that 0.60:0.80:0.02 has 11 values and 0.80 is one of them. One whose steps do not
    reach LAST ends before it.
    """
    name, separator, values = written.partition("=")
    where = f"--grid {written}"
    if not separator or not name.strip() or not values.strip():
        raise SettingsError(f"{where}: write NAME=FIRST:LAST:STEP or NAME=VALUE,VALUE")
    option = spec.option(name)
    if option is None:
        known = nearest(name.strip(), spec.option_names())
        raise SettingsError(f"{where}: {spec.name} has no option {name.strip()!r}.{known}")
    short = ""
    if ":" in values:
        parts, short = _range(values, option, where)
    else:
        parts = [part.strip() for part in values.split(",")]
    read = [option_value(option, part, f"{where}: {spec.name}") for part in parts]
    distinct = tuple(dict.fromkeys(read))
    return Axis(option, distinct, f"{where}: {short}" if short else "")


def parse_axes(written: Sequence[str], spec: CompactorSpec) -> tuple[Axis, ...]:
    """Read several axes; one option twice is an error. Raises SettingsError."""
    axes = tuple(parse_axis(one, spec) for one in written)
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"--grid: {name} is given twice; write all its values in one list")
    return axes


def full_grid(axes: Sequence[Axis], spec: CompactorSpec, fixed: Mapping[str, Any]) -> Grid:
    """Give every possible point of the axes; ``fixed`` are the other options. Raises SettingsError where none is."""
    of = math.prod(len(axis.values) for axis in axes)
    if of > MOST_POINTS:
        raise SettingsError(f"--grid: {of:,} points are more than {MOST_POINTS:,}; take larger steps or --trials N")
    return _kept(axes, spec, fixed, iter(range(of)), of, of)


def sampled_grid(axes: Sequence[Axis], spec: CompactorSpec, fixed: Mapping[str, Any], trials: int, seed: int) -> Grid:
    """Give ``trials`` possible points of the axes, drawn with a seed and without any twice.

    Raises SettingsError where no point is possible.
    """
    of = math.prod(len(axis.values) for axis in axes)
    if of <= MOST_POINTS:
        drawn: Iterator[int] = iter(Dice(seed).shuffled(of))
    else:
        drawn = _draws(axes, Dice(seed), 100 * trials)
    return _kept(axes, spec, fixed, drawn, of, trials)


def _draws(axes: Sequence[Axis], dice: Dice, most: int) -> Iterator[int]:
    """Give numbers of points, none twice. Each axis is drawn by itself: all together may have more than dice reach."""
    seen: set[int] = set()
    for _ in range(most):
        number = 0
        for axis in axes:
            number = number * len(axis.values) + dice.below(len(axis.values))
        if number not in seen:
            seen.add(number)
            yield number


def _kept(
    axes: Sequence[Axis],
    spec: CompactorSpec,
    fixed: Mapping[str, Any],
    numbers: Iterator[int],
    of: int,
    most: int,
) -> Grid:
    kept: list[tuple[int, tuple[int, ...]]] = []
    impossible = 0
    example = ""
    for number in numbers:
        places = _places(axes, number)
        values = {axis.name: axis.values[at] for axis, at in zip(axes, places, strict=True)}
        problem = next(iter(spec.check({**fixed, **values})), "")
        if problem:
            impossible += 1
            example = example or problem
            continue
        kept.append((number, places))
        if len(kept) == most:
            break
    if not kept:
        if impossible < of:
            drawn = f"none of {impossible:,} points drawn of its {of:,} is possible; draw more with --trials"
            raise SettingsError(f"--grid: {drawn}; for example: {example}")
        raise SettingsError(f"--grid: none of its {of:,} points is possible, for example: {example}")
    # A sample is shown in the order of the grid: the order of the draws says nothing.
    chosen = [places for _, places in sorted(kept)]
    points = tuple(tuple(axis.values[at] for axis, at in zip(axes, places, strict=True)) for places in chosen)
    # Trials that were enough for all possible points leave nothing to chance.
    return Grid(tuple(axes), points, tuple(chosen), impossible, of, len(kept) + impossible < of, example)


def _places(axes: Sequence[Axis], number: int) -> tuple[int, ...]:
    """Give the positions on the axes of a point by its number; the last axis runs fastest."""
    places: list[int] = []
    for axis in reversed(axes):
        number, at = divmod(number, len(axis.values))
        places.append(at)
    return tuple(reversed(places))


def _range(written: str, option: Option, where: str) -> tuple[list[str], str]:
    """Give the values of a range, and in words where it ends if its steps do not reach its last."""
    parts = written.split(":")
    if option.type not in (int, float) or len(parts) != 3:
        raise SettingsError(f"{where}: a range is FIRST:LAST:STEP, for options that are numbers")
    try:
        first, last, step = (Decimal(part.strip().replace("_", "")) for part in parts)
    except InvalidOperation:
        raise SettingsError(f"{where}: FIRST, LAST and STEP must be decimal numbers") from None
    if not (first.is_finite() and last.is_finite() and step.is_finite()) or step <= 0 or last < first:
        raise SettingsError(f"{where}: LAST must not be below FIRST, and STEP must be above 0")
    # Told by their exponents: arithmetic with some of these would be an error of its own.
    if max(first.adjusted(), last.adjusted()) > _LARGEST_EXPONENT or step.adjusted() < -_DIGITS:
        raise SettingsError(
            f"{where}: a range ends below 1e{_LARGEST_EXPONENT + 1}, in steps of {_DIGITS} digits at most"
        )
    steps, rest = divmod(last - first, step)
    count = int(steps) + 1
    if count > MOST_VALUES:
        raise SettingsError(f"{where}: {count:,} values are more than {MOST_VALUES:,}; take a larger STEP")
    short = f"steps of {step} from {first} end at {first + step * steps:f}, not at {last}" if rest else ""
    return [f"{first + step * number:f}" for number in range(count)], short
