"""Gets out of a damaged line what is whole in it (trust.md 2d, P2 to P7)."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

BOM = b"\xef\xbb\xbf"
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_TRIES = 4096  # places of one line at which a whole object is looked for
_SPACE = " \t\r\n\0\ufeff"  # what may stand around objects: runs of NUL are left by a crash of the file system


def deeper_than(value: object, limit: int) -> bool:
    """Say whether containers are nested more than ``limit`` deep; takes no stack, whatever the depth.

    >>> deeper_than([[[]]], 3), deeper_than([[[]]], 2)
    (False, True)
    """
    level = [value] if isinstance(value, (dict, list)) else []
    depth = 0
    while level:
        depth += 1
        if depth > limit:
            return True
        below = []
        for container in level:
            for item in container.values() if isinstance(container, dict) else container:
                if item.__class__ is dict or item.__class__ is list:
                    below.append(item)
        level = below
    return False


def recover(line: bytes, *, torn: bool, depth: int) -> tuple[list[dict[str, Any]], str]:
    """Give the objects that are whole in a line which is no JSON by itself, and the reason why it is not.

    ``torn`` says that the line is the last one and has no newline. Objects that are nested deeper than ``depth`` are
    left out.
    """
    text = line.decode("utf-8", "replace")
    body = text.strip(_SPACE)
    if not body:
        return [], "nul_padding"
    reason = "torn_tail" if torn else "not_json"
    if "\0" in body:
        reason = "nul_padding"
    try:
        found, clean = _objects(body)
    except RecursionError:
        return [], "too_deep"
    if not found and not clean:
        return [], reason
    objects = [_no_surrogates(item) for item in found if isinstance(item, dict) and not deeper_than(item, depth)]
    if objects:
        return objects, ""
    if any(isinstance(item, dict) for item in found):
        return [], "too_deep"
    return [], "not_object" if found and clean else reason


def document(text: str) -> Any:
    """Decode a whole document that orjson refused; raises ValueError or RecursionError where it is no JSON."""
    value, end = _DECODER.raw_decode(text.strip(_SPACE))
    if end != len(text.strip(_SPACE)):
        raise ValueError("more than one document")
    return _no_surrogates(value)


def torn_array(text: str) -> list[Any]:
    """Give the elements of a JSON array that ends in the middle, as far as they are whole."""
    items: list[Any] = []
    at = text.find("[") + 1
    while at:
        while at < len(text) and (text[at] in _SPACE or text[at] == ","):
            at += 1
        try:
            item, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        items.append(_no_surrogates(item))
    return items


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is out of range")
    return value


# The standard library's decoder takes what orjson refuses: lone surrogates, and several objects on one line.
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def _objects(text: str) -> tuple[list[Any], bool]:
    """Read objects one after another; whether everything was read is the second value."""
    found, at, _ = _run(text, 0)
    if at == len(text):
        return found, True
    if found:  # whole objects, then a torn one, behind which others may be glued
        return found + _behind_a_stub(text, at), False
    return _behind_a_stub(text, 0), False


def _run(text: str, at: int) -> tuple[list[Any], int, int]:
    """Read objects one after another; give them, the place behind the last, and how far was looked."""
    found: list[Any] = []
    while at < len(text):
        try:
            item, end = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            return found, at, max(error.pos, at)
        except ValueError:
            return found, at, len(text)
        found.append(item)
        at = end
        while at < len(text) and text[at] in _SPACE:
            at += 1
    return found, at, at


def _behind_a_stub(text: str, at: int) -> list[Any]:
    """Find the first place behind a torn stub from which whole objects reach to the end of the line.

    An inner object of the stub never does. The work is bounded: a hostile line may hold very many braces.
    """
    if text[-1] not in "}]":
        return []
    budget = 4 * len(text) + (1 << 20)
    counted = 0
    at = text.find('{"', at + 1)
    for _ in range(_MOST_TRIES):
        if at < 0 or budget < 0:
            break
        found, reached, looked = _run(text, at)
        if reached == len(text):
            return found
        budget -= looked - at
        # An error of the decoder counts the line breaks of all that stands before it. Cutting off what is done with
        # costs a copy, so it is done once that counting has cost as much.
        counted += looked
        if counted > len(text):
            text, at, counted = text[at:], 0, 0
        at = text.find('{"', at + 1)
    return []


def _no_surrogates(value: Any) -> Any:
    """Replace halves of surrogate pairs, which no UTF-8 file can hold, by U+FFFD; changes containers in place."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    todo = [value]
    while todo:
        container = todo.pop()
        if isinstance(container, dict):
            if any(_SURROGATE.search(key) for key in container):
                items = {_SURROGATE.sub("\ufffd", key): item for key, item in container.items()}
                container.clear()
                container.update(items)
            pairs = list(container.items())
        elif isinstance(container, list):
            pairs = list(enumerate(container))
        else:
            continue
        for key, item in pairs:
            if isinstance(item, str):
                if _SURROGATE.search(item):
                    container[key] = _SURROGATE.sub("\ufffd", item)
            elif isinstance(item, (dict, list)):
                todo.append(item)
    return value
