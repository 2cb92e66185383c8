"""The house: floors, plug-ins, and what may be touched where. Read off the imports, so that it cannot drift."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import compactctl
from compactctl import registry
from compactctl.errors import CompactctlError, UnknownNameError
from compactctl.ports import CompactorSpec

ROOT = Path(compactctl.__file__).parent
FLOORS = [
    {"model", "errors"},
    {"context"},
    {"ports"},
    {"registry", "settings"},
    {"meters"},
    {"compactors", "measures"},
    {"replay"},
    {"findings", "budgets"},
    {"bound", "tally"},
    {"runs", "contract"},
    {"tuning"},
    {"transcripts", "summarizers", "store", "reports", "tables"},
    {"cli"},
]
PLUGIN_ROOMS = {"meters", "compactors", "measures", "transcripts", "summarizers", "reports"}
# What reaches outside: below `transcripts` nothing may import it.
OUTSIDE = {
    "os", "io", "pathlib", "shutil", "tempfile", "socket", "ssl", "http", "urllib", "random", "secrets", "time",
    "datetime", "subprocess", "rich", "typer", "sqlite3", "openai", "anthropic", "threading",
}  # fmt: skip


def floor(room: str) -> int:
    """Give the floor of a room, from below."""
    return next(number for number, rooms in enumerate(FLOORS) if room in rooms)


def files() -> Iterator[tuple[Path, str]]:
    """Give every file of the package that belongs to a room, and the room."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] not in ("__init__", "__main__"):
            yield path, parts[0]


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Give the modules that a file imports, and whether only for types; with ``from x import y`` both x and x.y."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in for_types
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, id(node) in for_types
            for alias in node.names:
                yield f"{node.module}.{alias.name}", id(node) in for_types


def rooms_used(path: Path) -> set[str]:
    """Give the rooms of the package that a file imports from."""
    used = set()
    for module, _ in imports(path):
        parts = module.split(".")
        if parts[0] == "compactctl" and len(parts) > 1 and not parts[1].startswith("_"):
            used.add(parts[1])
    return used & {room for rooms in FLOORS for room in rooms}


def test_every_room_has_a_floor() -> None:
    """A new room says on which floor it lies before it is used."""
    known = {room for rooms in FLOORS for room in rooms}

    assert {room for _, room in files()} <= known


def test_a_file_imports_lower_floors_only() -> None:
    """Nothing imports from its own height or above but files of the same room."""
    faults = [
        f"{path.relative_to(ROOT)} imports {used}"
        for path, room in files()
        for used in sorted(rooms_used(path) - {room})
        if floor(used) >= floor(room)
    ]

    assert faults == []


def test_below_the_transcripts_nothing_touches_the_outside() -> None:
    """Disk, clock, network, chance and terminal are handed in, so that a replay is the same everywhere."""
    faults = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path, room in files()
        if floor(room) < floor("transcripts")
        for module, for_types in imports(path)
        if not for_types and module.split(".")[0] in OUTSIDE
    ]

    assert faults == []


@pytest.mark.parametrize("room", sorted(PLUGIN_ROOMS))
def test_plugins_never_import_one_another(room: str) -> None:
    """What two plug-ins share lies in a file with an underscore; so any of them can be taken away."""
    plugins = set(registry.module_names(f"compactctl.{room}"))
    for name in plugins:
        path = ROOT / room / f"{name}.py"
        if not path.exists():
            continue
        others = {f"compactctl.{room}.{other}" for other in plugins - {name}}

        assert not others & {module for module, _ in imports(path)}, path


def test_there_are_no_cycles() -> None:
    """Any file can be imported first."""
    named = {
        "compactctl." + ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path, _ in files()
    }
    graph: dict[str, set[str]] = {}
    for name, path in named.items():
        found = {module for module, _ in imports(path) if module in named and module != name}
        # `from room import file` imports the file; the room's own __init__ gathers names and is no step of a cycle.
        rooms = {module for module in found if any(other.startswith(f"{module}.") for other in found)}
        graph[name] = found - rooms
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name in done:
            return
        for other in graph[name]:
            visit(other, (*trail, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_public_names_are_all_there() -> None:
    """Everything in ``__all__`` can be imported from the package itself."""
    for name in compactctl.__all__:
        assert getattr(compactctl, name) is not None


def test_importing_the_package_imports_nothing_heavy() -> None:
    """``import compactctl`` is free: what is heavy comes with what needs it."""
    heavy = ("pandas", "matplotlib", "tiktoken", "typer", "rich")
    code = f"import sys, compactctl; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert shown.strip() == "[]"


def test_an_unknown_plugin_lists_the_known_ones() -> None:
    """A mistyped name is answered with the nearest and with all."""
    with pytest.raises(UnknownNameError, match=r"'progresive'.*Did you mean 'progressive'.*harness9"):
        registry.plugin("compactctl.compactors", CompactorSpec, "progresive", "compactor")


def test_a_plugin_file_without_its_constant_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that lies in a room of plug-ins and names none is a fault, not a silent gap."""
    package = tmp_path / "room"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "empty.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(CompactctlError, match="must end in one CompactorSpec"):
        registry.plugins("room", CompactorSpec)


def test_two_plugins_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in's file and name agree, so that two can never have one name."""
    package = tmp_path / "doubles"
    package.mkdir()
    (package / "__init__.py").touch()
    source = (
        "from compactctl.compactors.none import COMPACTOR as C\nimport dataclasses\nD = dataclasses.replace(C)\ndel C\n"
    )
    (package / "first.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(CompactctlError, match="file and name must agree"):
        registry.plugins("doubles", CompactorSpec)


def test_every_test_says_what_a_user_may_rely_on() -> None:
    """Each test has a docstring whose first line is a sentence."""
    bare = [
        f"{path.name}: {node.name}"
        for path in sorted(Path(__file__).parent.rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert bare == []
