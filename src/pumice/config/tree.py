"""A configuration before it is understood: mappings, lists and scalars with their places, read from YAML or data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import yaml

from pumice import yamls
from pumice.config.problems import Problem, nearest
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
    """The start of the text, if the file contains it literally."""


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
    """A description of *tree* for a message: ``a list``, ``the text 'x'``, ``the number 5``."""
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


MAX_VALUES: Final = 100_000
"""Aliases may repeat parts of a conf, but not make it grow beyond this many values."""


class _Mark(Protocol):
    line: int
    column: int


def parse_yaml(text: str) -> tuple[Tree, list[TreeError], Position | None]:
    """The first document of *text*; what is wrong inside it (repeated keys); where a second document begins.

    An empty text is an empty scalar.
    :raises TreeError: not YAML, nested too deeply, or growing without end through its aliases.
    """
    try:
        yamls.check(text)
        loader = yamls.Loader(text)
        try:
            root = loader.get_node() if loader.check_node() else None
            second = _next_document(loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        detail = ", ".join(part for part in (error.context, error.problem) if part)
        raise TreeError("yaml", f"not YAML: {detail}", position=_position(mark) if mark else None) from error
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise TreeError("yaml", f"not YAML: {' '.join(str(error).split())}") from error
    if root is None:
        return Scalar(None, ""), [], second
    reader = _Reader(text.split("\n"))
    return reader.read(root, ""), reader.errors, second


def _next_document(loader: yamls.Loader) -> Position | None:
    node = loader.get_node() if loader.check_node() else None
    return _position(node.start_mark) if node is not None else None


def _position(mark: _Mark) -> Position:
    return Position(mark.line + 1, mark.column + 1)


class _Reader:
    """Turns PyYAML's nodes into a tree and collects what is wrong on the way."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.errors: list[TreeError] = []
        self.count = 0
        self.open: set[int] = set()

    def read(self, node: yaml.Node, path: str) -> Tree:
        position = _position(node.start_mark)
        self.count += 1
        if self.count > MAX_VALUES or id(node) in self.open:
            raise TreeError("yaml", "its aliases make it grow without end", path, position)
        self.open.add(id(node))
        tree: Tree
        if isinstance(node, yaml.ScalarNode):
            tree = self._scalar(node, path, position)
        elif isinstance(node, yaml.SequenceNode):
            items = tuple(self.read(item, join(path, index)) for index, item in enumerate(node.value))
            tree = Sequence(items, position)
        elif isinstance(node, yaml.MappingNode):
            tree = ConfTable(self._entries(node, path), position)
        else:
            raise TreeError("yaml", f"unexpected {type(node).__name__}", path, position)
        self.open.discard(id(node))
        return tree

    def _scalar(self, node: yaml.ScalarNode, path: str, position: Position) -> Scalar:
        text: str = node.value
        quote = 1 if node.style in ("'", '"') else 0
        column = node.start_mark.column + quote
        verbatim = node.start_mark.line < len(self.lines) and self.lines[node.start_mark.line].startswith(text, column)
        where = Position(position.line, column + 1) if verbatim else None
        try:
            return Scalar(yamls.scalar(node.tag, text), text, position, where)
        except ValueError as error:
            self.errors.append(TreeError("yaml", str(error), path, position))
            return Scalar(None, text, position, where)

    def _entries(self, node: yaml.MappingNode, path: str) -> dict[str, ConfEntry]:
        entries: dict[str, ConfEntry] = {}
        merged: dict[str, ConfEntry] = {}
        for key_node, value_node in node.value:
            position = _position(key_node.start_mark)
            if key_node.tag == yamls.TAG + "merge":
                self._merge(merged, self.read(value_node, path), path)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.errors.append(TreeError("wrong-type", "a key must be text", path, position))
                continue
            key = key_node.value
            value = self.read(value_node, join(path, key))
            if key in entries:
                message = f"the key {key!r} stands here a second time"
                self.errors.append(TreeError("duplicate-key", message, join(path, key), position))
                continue
            entries[key] = ConfEntry(value, position)
        return {**merged, **entries}  # a written value wins over a merged one

    def _merge(self, merged: dict[str, ConfEntry], tree: Tree, path: str) -> None:
        for table in tree.items if isinstance(tree, Sequence) else (tree,):
            if not isinstance(table, ConfTable):
                self.errors.append(TreeError("wrong-type", "'<<' needs a mapping to merge", path, table.position))
                continue
            for key, entry in table.entries.items():
                merged.setdefault(key, entry)


@dataclass(slots=True)
class Reading:
    """One conf being read: what was found wrong so far, and where everything stands.

    After a wrong type the accessors return something empty, so that the rest is still read.
    """

    source: str
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    positions: dict[str, Position] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Path -> the path that the reader of the file knows, where an object of another form became the conf."""

    def error(
        self, code: str, message: str, path: str, position: Position | None, value: str = "", known: Iterable[str] = ()
    ) -> None:
        """Note what makes the conf unusable; *value* was written where one of *known* was expected."""
        self.errors.append(self._problem(code, message, path, position, value, known))

    def warn(
        self, code: str, message: str, path: str, position: Position | None, value: str = "", known: Iterable[str] = ()
    ) -> None:
        """Note what is written in vain."""
        self.warnings.append(self._problem(code, message, path, position, value, known))

    def _problem(
        self, code: str, message: str, path: str, position: Position | None, value: str, known: Iterable[str]
    ) -> Problem:
        near = nearest(value, known) if value else None
        return Problem(code, message, self._named(path), position, self.source, value, near)

    def _named(self, path: str) -> str:
        known = max((key for key in self.names if path == key or path.startswith((f"{key}.", f"{key}["))), default="")
        return self.names[known] + path[len(known) :].removesuffix(".name") if known else path

    def wrong_type(self, tree: Tree, path: str, wanted: str) -> None:
        """Note that *tree* is not what was *wanted*."""
        self.error("wrong-type", f"must be {wanted}, got {kind(tree)}", path, tree.position)

    def table(self, tree: Tree | None, path: str) -> ConfTable:
        """*tree* as a mapping; nothing is an empty one."""
        if tree is None or (isinstance(tree, Scalar) and tree.value is None):
            return ConfTable({})
        if not isinstance(tree, ConfTable):
            self.wrong_type(tree, path, "a mapping")
            return ConfTable({})
        for key, entry in tree.entries.items():
            if entry.key_position is not None:
                self.positions[join(path, key)] = entry.key_position
        return tree

    def items(self, tree: Tree | None, path: str) -> tuple[Tree, ...]:
        """*tree* as a list; nothing is an empty one."""
        if tree is None or (isinstance(tree, Scalar) and tree.value is None):
            return ()
        if not isinstance(tree, Sequence):
            self.wrong_type(tree, path, "a list")
            return ()
        for index, item in enumerate(tree.items):
            if item.position is not None:
                self.positions[join(path, index)] = item.position
        return tree.items

    def text(self, tree: Tree | None, path: str, wanted: str = "text") -> str:
        """A scalar as it was written; a number or a boolean is text here, as in Volcano, and nothing is ``""``."""
        if tree is None or (isinstance(tree, Scalar) and tree.value is None):
            return ""
        if not isinstance(tree, Scalar):
            self.wrong_type(tree, path, wanted)
            return ""
        return tree.text

    def warn_of_unknown_keys(self, table: ConfTable, path: str, known: Iterable[str]) -> None:
        """Warn of every key of *table* that is not among *known*."""
        for key, entry in table.entries.items():
            if key not in known:
                self.warn("unknown-key", f"unknown key {key!r}", join(path, key), entry.key_position, key, known)


def in_file_order(problems: Iterable[Problem]) -> list[Problem]:
    """*problems* by position; those without one stand in front, in the order they came."""
    return sorted(problems, key=lambda problem: problem.position or Position(0, 0))
