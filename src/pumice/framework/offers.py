"""The offers of installed packages by name, loaded on demand: a program starts with the names of its conf."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from importlib.metadata import EntryPoint
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")
Load: TypeAlias = Callable[[str, EntryPoint], T | None]
"""The object for a name and its entry point; None if it cannot be loaded."""


class _Offer:
    """Something that was not asked for yet. Its entry point may be of any library that reads packages' metadata."""

    __slots__ = ("entry",)

    def __init__(self, entry: EntryPoint) -> None:
        self.entry = entry


class Offers(MutableMapping[str, T], Generic[T]):
    """Things by name, in the order in which they were offered. One that cannot be loaded is not among them.

    A lookup of a name, or whether it exists, loads that one; an iteration loads all of them.
    """

    def __init__(self, load: Load[T]) -> None:
        self._load = load
        self._held: dict[str, T | _Offer] = {}

    def offer(self, name: str, entry: EntryPoint) -> None:
        """Name something that is loaded when it is asked for."""
        self._held[name] = _Offer(entry)

    def copied(self, load: Load[T]) -> Offers[T]:
        """The same offers; what was not asked for yet is loaded by *load*."""
        other = Offers(load)
        other._held = dict(self._held)
        return other

    def __getitem__(self, name: str) -> T:
        found = self._held[name]
        if not isinstance(found, _Offer):
            return found
        loaded = self._load(name, found.entry)
        if loaded is None:
            del self._held[name]
            raise KeyError(name)
        self._held[name] = loaded
        return loaded

    def __setitem__(self, name: str, thing: T) -> None:
        self._held[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in list(self._held) if name in self])

    def __len__(self) -> int:
        return sum(1 for _ in self)
