"""Compactors of users: found by file, module and entry point, built by what they ask for, wrong in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compactctl.compactors._user import load_compactor
from compactctl.contract import Guard, check_compactor
from compactctl.errors import MissingPathError, UnknownNameError, UsageError
from compactctl.meters.bytes4 import Bytes4
from compactctl.model import ASSISTANT, SYSTEM, USER, Message, Session, Tier
from compactctl.ports import CompactorSpec, HistoryMode, Ports
from compactctl.replay import replay
from compactctl.summarizers.stub import StubSummarizer
from tests.compactors.scenes import Says, step, task

EXAMPLE = Path(__file__).with_name("example_pi.py")
README = Path(__file__).parents[2] / "README.md"
SESSION = [
    Message(SYSTEM, "s"),
    task(400),
    *[m for i in range(12) for m in step(f"c{i}", 400)],
    Message(ASSISTANT, "x"),
]
PORTS = Ports(Says("sum"), None, Bytes4(), 1000)


def written(tmp_path: Path, source: str) -> str:
    """Write a module and give the path to name a class in it with."""
    path = tmp_path / "mine.py"
    path.write_text("from compactctl import Message\n" + source)
    return str(path)


def built(spec: CompactorSpec, **options: Any) -> Any:
    """Build a compactor with its defaults."""
    return spec.make({option.name: option.default for option in spec.options} | options, None, PORTS)


# -- the example of the README ---------------------------------------------------------------------------------------


def test_the_example_works() -> None:
    """Twenty lines with one method are a compactor: with its options, its history and its records."""
    spec = load_compactor(f"{EXAMPLE}:Pi")
    turns = list(replay(SESSION, built(spec, reserve=200, keep_recent=300), spec.history))
    acted = [turn.record for turn in turns if turn.record.tier]

    assert [(option.name, option.default, option.type) for option in spec.options] == [
        ("reserve", 16_384, int),
        ("keep_recent", 20_000, int),
    ]
    assert spec.uses_summarizer
    assert spec.needs_window
    assert spec.history is HistoryMode.WRITE_BACK
    assert [record.tier for record in acted] == [Tier.FULL]
    assert acted[0].tokens_before > 800 >= acted[0].tokens_after


def test_the_example_keeps_the_contract() -> None:
    """Its author can run the package's own checks; the one exception is known by name."""
    spec = load_compactor(f"{EXAMPLE}:Pi")

    check_compactor(lambda: built(spec, reserve=200, keep_recent=300), allow={Guard.NO_ORPHAN}, examples=15)


def test_the_example_is_short() -> None:
    """What the README calls twenty lines has no more of them that are code."""
    lines = [line for line in EXAMPLE.read_text().splitlines() if line.strip() and '"""' not in line]

    assert len(lines) <= 20


def test_the_readme_shows_the_example() -> None:
    """The class in the README is the one that these tests run."""
    if "class Pi" not in README.read_text():
        pytest.skip("the README does not show it yet")

    assert EXAMPLE.read_text() in README.read_text()


# -- where they are found --------------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the name of a module in the working directory."""
    (tmp_path / "my_compactors.py").write_text(
        "class Same:\n    def compact(self, messages):\n        return messages\n"
    )
    monkeypatch.chdir(tmp_path)
    yield "my_compactors"
    sys.modules.pop("my_compactors", None)


def test_a_module_in_the_working_directory_is_found(module: str) -> None:
    """``module:Class`` works where the module lies, and the path of Python is as it was afterwards."""
    before = list(sys.path)
    spec = load_compactor(f"{module}:Same")

    assert built(spec).compact(SESSION) == SESSION
    assert sys.path == before


def test_an_installed_package_gives_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """A compactor in the entry point group is asked for by its name alone."""
    info = tmp_path / "mine-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[compactctl.compactors]\nsame = {module}:Same\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert built(load_compactor("same")).compact(SESSION) == SESSION


def test_a_shipped_name_is_the_shipped_one() -> None:
    """Names of the package come first."""
    assert load_compactor("dsh").name == "dsh"


def test_an_unknown_name_lists_what_there_is() -> None:
    """A name that nothing has says which there are, and how to name one's own."""
    with pytest.raises(UnknownNameError, match=r"Did you mean 'truncate'\?.*module:Class.*progressive-safe"):
        load_compactor("trunkate")


# -- how they are built ----------------------------------------------------------------------------------------------


def test_a_class_gets_what_it_asks_for(tmp_path: Path) -> None:
    """Window, summarizer, meter, offloader, session and its id, by the names of the constructor."""
    source = """
class Asks:
    history = "view"

    def __init__(self, context_window, session_id, meter, *, share=0.5, mode="fast", seen=None):
        self.got = (context_window, session_id, meter.name, share, mode, seen)

    def compact(self, messages):
        return [*messages[:1], Message("user", repr(self.got))]
"""
    spec = load_compactor(f"{written(tmp_path, source)}:Asks")
    compactor = spec.make({"share": 0.25, "mode": "slow"}, Session("s1", ()), PORTS)

    assert [option.name for option in spec.options] == ["share", "mode"]
    assert spec.history is HistoryMode.VIEW
    assert compactor.compact(SESSION)[1].content == "(1000, 's1', 'bytes4', 0.25, 'slow', None)"  # type: ignore[attr-defined]  # a plain compactor


def test_a_record_of_the_users_own_is_kept(tmp_path: Path) -> None:
    """An object with ``compact_with_record`` says itself what it did; the turn is filled in."""
    source = """
from compactctl import CompactionRecord, Tier

class Tells:
    def compact_with_record(self, messages):
        return messages[:1] + messages[-1:], CompactionRecord(Tier.SOFT, 9, 1, len(messages), 2, notes=("mine",))
"""
    spec = load_compactor(f"{written(tmp_path, source)}:Tells")
    last = list(replay([Message(SYSTEM, "s"), *[Message(USER, "u"), Message(ASSISTANT, "a")] * 2], built(spec)))[-1]

    assert (last.record.tier, last.record.notes, last.record.turn) == (Tier.SOFT, ("mine",), 1)


def test_a_step_compactor_is_driven_as_it_is(tmp_path: Path) -> None:
    """A class with the step face gets the view, and its step is what the replay sees."""
    source = """
from compactctl.compactors.truncate import TruncateCompactor

def make(context_window):
    return TruncateCompactor(context_window // 2)
"""
    spec = load_compactor(f"{written(tmp_path, source)}:make")
    last = list(replay(SESSION, built(spec)))[-1]

    assert last.record.tokens_after <= 500


def test_a_file_may_hold_dataclasses(tmp_path: Path) -> None:
    """A file is a module like any other: a dataclass of text annotations, which looks its own module up, works."""
    source = """
from dataclasses import dataclass, field

@dataclass
class Mine:
    context_window: int
    keep: int = 2
    seen: list[Message] = field(default_factory=list)

    def compact(self, messages):
        return messages[: self.keep]
"""
    path = tmp_path / "mine.py"
    path.write_text("from __future__ import annotations\nfrom compactctl import Message\n" + source)
    spec = load_compactor(f"{path}:Mine")

    assert [option.name for option in spec.options] == ["keep"]
    assert len(built(spec, keep=3).compact(SESSION)) == 3


def test_two_files_of_one_name_are_two_modules(tmp_path: Path) -> None:
    """What is in one user's file stays as it is when another file of that name is loaded."""
    before, specs = set(sys.modules), []
    for folder, keep in (("one", 3), ("two", 4)):
        (tmp_path / folder).mkdir()
        source = f"KEEP = {keep}\n\nclass Mine:\n    def compact(self, messages): return messages[:KEEP]\n"
        specs.append(load_compactor(f"{written(tmp_path / folder, source)}:Mine"))

    assert [len(built(spec).compact(SESSION)) for spec in specs] == [3, 4]
    assert len(set(sys.modules) - before) >= 2


KEEPS = """
class Keeps:
    "Keep {keep}."
    def compact(self, messages): return messages[-{keep}:]
"""


def test_a_file_is_run_as_it_is_now(tmp_path: Path) -> None:
    """An edit counts at once, also within the second and as long as before; nothing is left beside the file."""
    path = tmp_path / "mine.py"
    for keep in (3, 5):
        path.write_text(KEEPS.format(keep=keep))
        os.utime(path, (1_700_000_000, 1_700_000_000))
        assert load_compactor(f"{path}:Keeps").help == f"Keep {keep}."
    assert [left.name for left in tmp_path.iterdir()] == ["mine.py"]


def test_a_file_that_failed_leaves_no_module_behind(tmp_path: Path) -> None:
    """Half a module is not what a later import finds."""
    before = set(sys.modules)
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        load_compactor(f"{written(tmp_path, '1 / 0')}:Mine")

    assert not [name for name in set(sys.modules) - before if name.startswith("compactctl_user")]


# -- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("class Bad: pass", "has no method compact"),
        ("Bad = 3", "this is no compactor but int"),
        ("class Good: pass", "there is no 'Bad' in it"),
        ("1 / 0", "could not be imported: ZeroDivisionError"),
        ("def (", "could not be imported: SyntaxError"),
        (
            "class Bad:\n    def __init__(self, knob): pass\n    def compact(self, messages): return messages",
            "asks for knob",
        ),
    ],
)
def test_what_is_no_compactor_is_refused(tmp_path: Path, source: str, words: str) -> None:
    """One line that names the file and says what is wrong; no traceback for a user's mistake."""
    with pytest.raises(UsageError, match=words) as caught:
        load_compactor(f"{written(tmp_path, source)}:Bad")

    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named() -> None:
    """A path that does not exist is a missing path."""
    with pytest.raises(MissingPathError, match=r"no such file: 'nowhere/mine\.py'"):
        load_compactor("nowhere/mine.py:Mine")


def test_a_module_that_is_not_there_is_named() -> None:
    """A module that cannot be found is a mistake in the command line."""
    with pytest.raises(UsageError, match="'no_such_module' could not be imported"):
        load_compactor("no_such_module:Mine")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise KeyError('x')", "failed at turn 0: KeyError"),
        ("raise SystemExit(3)", "failed at turn 0: SystemExit: 3"),
        ("raise GeneratorExit", "failed at turn 0: GeneratorExit"),
        ("return None", "must give a list of compactctl.Message, it gave NoneType"),
        ("return [{'role': 'user'}]", "must give a list of compactctl.Message"),
    ],
)
def test_what_fails_in_a_replay_names_the_turn(tmp_path: Path, body: str, words: str) -> None:
    """A user's compactor that raises, or gives something else than messages, ends the command with one line."""
    source = f"class Bad:\n    def compact(self, messages):\n        {body}\n"
    compactor = built(load_compactor(f"{written(tmp_path, source)}:Bad"))

    with pytest.raises(UsageError, match=words):
        list(replay(SESSION, compactor))


def test_a_constructor_that_fails_is_told(tmp_path: Path) -> None:
    """An error while it is built names the class."""
    source = (
        "class Bad:\n    def __init__(self): raise ValueError('no')\n    def compact(self, messages): return messages"
    )
    spec = load_compactor(f"{written(tmp_path, source)}:Bad")

    with pytest.raises(UsageError, match="Bad could not be built: ValueError: no"):
        built(spec)


def test_what_the_summarizer_took_is_in_the_record() -> None:
    """A summary that a user's compactor asked for is counted, and its anchors are known, though it gives no record."""
    spec = load_compactor(f"{EXAMPLE}:Pi")
    made = spec.make(
        {option.name: option.default for option in spec.options} | {"reserve": 300, "keep_recent": 400},
        Session("s", tuple(SESSION)),
        Ports(StubSummarizer(), None, Bytes4(), 1500),
    )
    records = [turn.record for turn in replay(SESSION, made) if turn.record.tier is not Tier.NONE]

    assert records
    assert all(record.summary_input_tokens and record.summary_output_tokens for record in records)
    assert all(len(record.anchors) == 5 for record in records)
    assert all("## Anchors" in record.summary_text for record in records)
