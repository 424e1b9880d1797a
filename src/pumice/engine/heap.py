"""The one ordered queue: a binary heap with Go's algorithm, so that ties and changed keys come out as in Volcano."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class GoHeap(Generic[T]):
    """Pops the element that *less* puts first. Compares when pushing and popping only, with what holds then."""

    __slots__ = ("_items", "_less")

    def __init__(self, less: Callable[[T, T], bool], items: Iterable[T] = ()) -> None:
        self._less = less
        self._items: list[T] = []
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._items)

    def __bool__(self) -> bool:
        return bool(self._items)

    def push(self, item: T) -> None:
        """Add an element."""
        items, less = self._items, self._less
        items.append(item)
        child = len(items) - 1
        while child > 0:
            parent = (child - 1) // 2
            if not less(items[child], items[parent]):
                break
            items[child], items[parent] = items[parent], items[child]
            child = parent

    def pop(self) -> T:
        """Remove and return the first element."""
        items, less = self._items, self._less
        last = len(items) - 1
        items[0], items[last] = items[last], items[0]
        parent = 0
        while True:
            left = 2 * parent + 1
            if left >= last:
                break
            child = left
            if left + 1 < last and less(items[left + 1], items[left]):
                child = left + 1
            if not less(items[child], items[parent]):
                break
            items[parent], items[child] = items[child], items[parent]
            parent = child
        return items.pop()

    def clone(self) -> GoHeap[T]:
        """A copy with the same elements in the same places."""
        other: GoHeap[T] = GoHeap(self._less)
        other._items = list(self._items)
        return other

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)
