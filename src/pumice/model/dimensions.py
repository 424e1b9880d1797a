"""Resource names as small integers, each a column in the tables of nodes; unused integers are given back.

Names that code and configuration know have their number for the life of the process (`dim`). A name that an object
brought (`asked_dim`, `offered_dim`) has it while one of its `Dimension` objects is alive: they are the keys of every
vector, so a vector that mentions the name holds it. The number is used for another name only after `give_back`, which
is called between two cycles.
"""

from __future__ import annotations

import weakref
from typing import Final

from pumice.errors import InvalidInput, shown

CPU: Final = 0
MEMORY: Final = 1
PODS: Final = 2

MOST_UNOFFERED: Final = 128
"""So many names that are asked for and that no node offers are known: who may make a pod may make up names."""
MOST_OFFERED: Final = 512
"""So many names are known beside them: each is a column for every node. A node that offers further ones is invalid."""
_SOME: Final = 32
"""From so many on it is worth looking which of them nobody asks for any more."""


class TooManyNames(InvalidInput):
    """A resource beyond those that are known."""


class _Use:
    """The mark that a name is in use; it ends with the last dimension that mentions it."""

    __slots__ = ("__weakref__",)


class Dimension(int):
    """The number of a name that an object brought, and a part in keeping it."""

    use: _Use


_NAMES: list[str] = ["cpu", "memory", "pods"]
_INDEX: dict[str, int] = {name: number for number, name in enumerate(_NAMES)}
_UNIT: list[int] = [1000, 1, 1]
_uses: dict[str, weakref.ref[_Use]] = {}
"""Names that are given back when nobody uses them; the others stay."""
_unoffered: set[str] = set()
_unused: list[int] = []
"""Numbers without a name."""
_ended: set[str] = set()
"""Names whose last use ended, and perhaps began again."""


def dim(name: str) -> int:
    """The dimension of a name that code or configuration knows, from now on. Its number never decides anything."""
    known = _INDEX.get(name)
    if known is None:
        known = _number(name)
    if _uses.pop(name, None) is not None:
        _unoffered.discard(name)
    return known


def asked_dim(name: str) -> int:
    """The dimension of a name that anybody may have written.

    :raises TooManyNames: no node offers it, and so many others are asked for already.
    """
    known = _INDEX.get(name)
    if known is None:
        if len(_unoffered) >= MOST_UNOFFERED:
            raise TooManyNames(
                f"resource {shown(name)}: no node offers it, and {MOST_UNOFFERED} others that none offers are asked for"
            )
        known = _number(name)
        _unoffered.add(name)
    elif name not in _uses:
        return known
    return _used(name, known)


def offered_dim(name: str) -> int:
    """The dimension of a name that a node offers.

    :raises TooManyNames: there are `MOST_OFFERED` others.
    """
    known = _INDEX.get(name)
    if known is None:
        if len(_INDEX) >= MOST_OFFERED + MOST_UNOFFERED:
            raise TooManyNames(f"resource {shown(name)}: nodes offer {MOST_OFFERED} others, the most that are known")
        known = _number(name)
    elif name not in _uses:
        return known
    _unoffered.discard(name)
    return _used(name, known)


def _number(name: str) -> int:
    if _unused:
        number = _unused.pop()
        _NAMES[number] = name
        _UNIT[number] = unit_of(name)
    else:
        number = len(_NAMES)
        _NAMES.append(name)
        _UNIT.append(unit_of(name))
    _INDEX[name] = number
    return number


def _used(name: str, number: int) -> Dimension:
    known = _uses.get(name)
    use = known() if known is not None else None
    if use is None:
        use = _Use()
        _uses[name] = weakref.ref(use, lambda _, name=name: _ended.add(name))  # type: ignore[misc]
    found = Dimension(number)
    found.use = use
    return found


def worth_a_look() -> bool:
    """May there be names that nobody uses?"""
    return bool(_ended) or len(_unoffered) >= _SOME


def give_back() -> list[str]:
    """The numbers of names that nobody uses are for others from now on; returns these names. Between two cycles."""
    _ended.clear()
    gone = [name for name, use in _uses.items() if use() is None]
    for name in gone:
        number = _INDEX.pop(name)
        del _uses[name]
        _unoffered.discard(name)
        _NAMES[number] = ""
        _unused.append(number)
    _unused.sort(reverse=True)
    return gone


def dim_name(dimension: int) -> str:
    """The resource name of a dimension."""
    return _NAMES[dimension]


def known_dim(name: str) -> int | None:
    """The dimension of a name, if it has one now."""
    return _INDEX.get(name)


def dim_count() -> int:
    """How many columns a table needs for every name to have its own."""
    return len(_NAMES)


def unit(dimension: int) -> int:
    """How many ledger units make one unit as written in a manifest (1000 for cpu, 1 for memory)."""
    return _UNIT[dimension]


def unit_of(name: str) -> int:
    """The same by name."""
    in_bytes = name in ("memory", "ephemeral-storage", "storage") or name.startswith("hugepages-")
    return 1 if in_bytes or name == "pods" else 1000
