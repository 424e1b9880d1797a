"""A conf before it is understood: mappings, lists and scalars that know where they stand and how they were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pumice.config.problems import Problem
from pumice.config.schema import Position
from pumice.errors import shown

MAX_DEPTH: Final = 100


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value and the text it was written as (without quotes)."""

    value: bool | int | float | str | None
    text: str
    position: Position | None = None
    text_position: Position | None = None
    """Where the text begins, if it stands in the file letter by letter."""


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Tree, ...]
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class ConfTable:
    """A mapping; keys are text."""

    entries: Mapping[str, ConfEntry]
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class ConfEntry:
    value: Tree
    key_position: Position | None = None


Tree: TypeAlias = Scalar | Sequence | ConfTable


class TreeError(Exception):
    """The text or data has no tree; ``path`` and ``position`` say where."""

    def __init__(self, code: str, message: str, path: str = "", position: Position | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.path, self.position = code, message, path, position

    def as_problem(self, source: str) -> Problem:
        """The same for the reader of the conf called *source*."""
        return Problem(self.code, self.message, self.path, self.position, source)


def join(path: str, key: str | int) -> str:
    """*path* one step further: ``tiers``, ``tiers[1]``, ``tiers[1].plugins``."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def plain(tree: Tree) -> object:
    """The tree as ordinary dicts, lists and scalars."""
    if isinstance(tree, Scalar):
        return tree.value
    if isinstance(tree, Sequence):
        return [plain(item) for item in tree.items]
    return {key: plain(entry.value) for key, entry in tree.entries.items()}


def kind(tree: Tree) -> str:
    """What *tree* is, for a message: ``a list``, ``the text 'x'``, ``the number 5``."""
    if isinstance(tree, Sequence):
        return "a list"
    if isinstance(tree, ConfTable):
        return "a mapping"
    if tree.value is None:
        return "nothing"
    if isinstance(tree.value, bool):
        return f"the boolean {tree.text}"
    if isinstance(tree.value, str):
        return f"the text {shown(tree.value)}"
    return f"the number {tree.text}"


def from_plain(data: object, path: str = "", depth: int = 0) -> Tree:
    """The tree of JSON values (None, bool, int, float, str, list, tuple, mapping); it has no positions.

    :raises TreeError: another type, or a nesting without end.
    """
    if depth > MAX_DEPTH:
        raise TreeError("wrong-type", f"nested more than {MAX_DEPTH} levels deep", path)
    if data is None:
        return Scalar(None, "")
    if isinstance(data, bool):
        return Scalar(data, "true" if data else "false")
    if isinstance(data, (int, float, str)):
        return Scalar(data, str(data))
    if isinstance(data, (list, tuple)):
        return Sequence(tuple(from_plain(item, join(path, index), depth + 1) for index, item in enumerate(data)))
    if isinstance(data, Mapping):
        return ConfTable({str(k): ConfEntry(from_plain(v, join(path, str(k)), depth + 1)) for k, v in data.items()})
    raise TreeError("wrong-type", f"{type(data).__name__} is no JSON value", path)
