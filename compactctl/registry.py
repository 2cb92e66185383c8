"""Finds the plug-ins of a package: one file each, ending in one typed constant.

A plug-in named ``clear-tool-uses`` lives in ``clear_tool_uses.py``; files that begin with ``_`` hold what several
plug-ins share. Asking for one name imports that one file only.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from typing import Any, Protocol, TypeVar

from compactctl.errors import CompactctlError, UnknownNameError, nearest


class Named(Protocol):
    """What every plug-in's constant has."""

    @property
    def name(self) -> str:
        """The name that users write."""


Spec = TypeVar("Spec", bound=Named)


@cache
def module_names(package: str) -> tuple[str, ...]:
    """List the modules of a package that hold a plug-in, sorted; the folder is read once a process."""
    path = importlib.import_module(package).__path__
    return tuple(sorted(info.name for info in pkgutil.iter_modules(path) if not info.name.startswith("_")))


def names(package: str) -> list[str]:
    """List the names of a package's plug-ins without importing them."""
    return [name.replace("_", "-") for name in module_names(package)]


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Make the error for a name that nothing has: it offers the nearest and lists the known."""
    return UnknownNameError(f"unknown {kind} {name!r}.{nearest(name, known)}")


def plugins(package: str, spec: type[Spec]) -> dict[str, Spec]:
    """Import every plug-in of a package and give them by name, sorted.

    Raises CompactctlError where a file holds no constant of that type or more than one, or one of another name.
    """
    found: list[Spec] = [_constant(package, module, spec) for module in module_names(package)]
    return {constant.name: constant for constant in sorted(found, key=lambda constant: constant.name)}


def plugin(package: str, spec: type[Spec], name: str, kind: str) -> Spec:
    """Give the plug-in of that name; an unknown name raises UnknownNameError, which lists the known ones.

    A name with an underscore of its own (``o200k_base``) may be written with a hyphen, not the other way round.
    """
    module = name.replace("-", "_")
    found: Spec | None = _constant(package, module, spec) if module in module_names(package) else None
    if found is None or ("_" in name and found.name != name):
        raise unknown(kind, name, names(package))
    return found


@cache
def _constant(package: str, module: str, spec: type[Any]) -> Any:
    loaded = importlib.import_module(f"{package}.{module}")
    constants = [value for value in vars(loaded).values() if isinstance(value, spec)]
    if len(constants) != 1:
        raise CompactctlError(f"{package}.{module} must end in one {spec.__name__}, it has {len(constants)}")
    if constants[0].name.replace("-", "_") != module:
        raise CompactctlError(f"{package}.{module} names its plug-in {constants[0].name!r}; file and name must agree")
    return constants[0]
