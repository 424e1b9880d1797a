"""Plain data that keeps its types in JSON, for what plugins remember."""

from __future__ import annotations

import math
import sys
from collections import namedtuple
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from pumice.errors import InvalidInput, shown, words_of

_TAGS: Final = frozenset({"$float", "$tuple", "$named", "$set", "$frozenset", "$dict"})


def pack(value: Any) -> Any:
    """A value as JSON-like data from which `unpack` makes an equal one.

    :raises TypeError: it is not made of plain values, lists, tuples, sets and dicts.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"$float": str(value)}
        case list():
            return [pack(v) for v in value]
        case tuple() if hasattr(value, "_fields"):
            kind = type(value)
            parts = {field: pack(v) for field, v in zip(value._fields, value, strict=True)}
            return {"$named": [kind.__module__, kind.__qualname__, parts]}
        case tuple():
            return {"$tuple": [pack(v) for v in value]}
        case set() | frozenset():
            return {f"${type(value).__name__}": sorted((pack(v) for v in value), key=msgspec.json.encode)}
        case dict() if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: pack(v) for k, v in value.items()}
        case dict():
            return {"$dict": [[pack(k), pack(v)] for k, v in value.items()]}
    raise TypeError(f"a {type(value).__name__} cannot be saved")


def unpack(data: Any, what: str = "memory") -> Any:
    """The value that `pack` was given; *what* names it in messages.

    :raises InvalidInput: `pack` made no such data.
    """
    try:
        return _unpack(data)
    except (TypeError, ValueError, RecursionError, OverflowError) as exc:
        raise InvalidInput(f"saved cycle: {what}: {exc}") from exc


def _unpack(data: Any) -> Any:
    if isinstance(data, list):
        return [_unpack(v) for v in data]
    if not isinstance(data, dict):
        return data
    if not any(k.startswith("$") for k in data):
        return {k: _unpack(v) for k, v in data.items()}
    [(tag, inside)] = data.items() if len(data) == 1 else [("", None)]
    match tag, inside:
        case "$float", "nan" | "inf" | "-inf":
            return float(inside)
        case "$tuple", list():
            return tuple(_unpack(v) for v in inside)
        case "$named", [str(module), str(name), dict(parts)]:
            kind = _named(module, name, tuple(parts))
            return tuple.__new__(kind, [_unpack(v) for v in parts.values()])
        case "$set", list():
            return {_unpack(v) for v in inside}
        case "$frozenset", list():
            return frozenset(_unpack(v) for v in inside)
        case "$dict", list():
            return {_unpack(k): _unpack(v) for k, v in map(_pair, inside)}
    raise ValueError(
        f"must be plain data, or one of {', '.join(sorted(_TAGS))} with what belongs there, got {_said(data)}"
    )


def _pair(data: Any) -> Sequence[Any]:
    if not isinstance(data, list) or len(data) != 2:
        raise ValueError(f"$dict must hold pairs, got {_said(data)}")
    return data


def _said(data: Any) -> str:
    return shown(msgspec.json.encode(data).decode())


def _named(module: str, name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """The class of a named tuple: the plugin's own if it is loaded here, else one with the same fields.

    Nothing is imported: a file may come from a stranger.
    """
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    own = isinstance(found, type) and issubclass(found, tuple) and getattr(found, "_fields", None) == fields
    return found if own else _stand_in(name.rpartition(".")[2], fields)


@lru_cache(maxsize=64)
def _stand_in(name: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    return namedtuple(name, fields)  # names that are none are a ValueError


def pack_memory(memory: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """What plugins keep between sessions, packed, and the entries that were left out.

    What begins with an underscore is a cache: left out without a word, its plugin makes it anew.
    """
    packed: dict[str, Any] = {}
    left_out: list[str] = []
    for plugin, entries in memory.items():
        if plugin.startswith("_"):
            continue
        mine: dict[Any, Any] = {}
        for key, value in entries.items():
            if isinstance(key, str) and key.startswith("_"):
                continue
            try:
                msgspec.json.encode(pack({key: value}))  # also what is plain may be too great, or no text for a file
                mine[key] = value
            except Exception:
                left_out.append(f"{plugin}: {words_of(key)}")
        if mine:
            packed[plugin] = pack(mine)
    return packed, left_out


def unpack_memory(packed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What plugins kept between sessions.

    :raises InvalidInput: `pack_memory` made no such data.
    """
    found: dict[str, dict[str, Any]] = {}
    for plugin, entries in packed.items():
        mine = unpack(entries, f"memory of plugin {plugin!r}")
        if not isinstance(mine, dict):
            raise InvalidInput(f"saved cycle: memory of plugin {plugin!r}: must be a mapping, got {_said(entries)}")
        found[plugin] = mine
    return found
