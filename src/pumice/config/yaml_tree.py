"""YAML text -> tree, as Volcano's decoder reads it, with what a decoder folds away: positions, texts, repeated keys.

Scalars follow YAML 1.1 with its booleans (``yes``, ``off``), but ``10:00`` and ``2024-01-01`` are text.
"""

from __future__ import annotations

from typing import Final, Protocol

import yaml

from pumice import yamls
from pumice.config.schema import Position
from pumice.config.tree import ConfEntry, ConfTable, Scalar, Sequence, Tree, TreeError, join

MAX_VALUES: Final = 100_000
"""Aliases may repeat parts of a conf, but not make it grow beyond this many values."""


class _Mark(Protocol):
    line: int
    column: int


def parse(text: str) -> tuple[Tree, list[TreeError], Position | None]:
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
        return {**merged, **entries}  # what is written beats what is merged in

    def _merge(self, merged: dict[str, ConfEntry], tree: Tree, path: str) -> None:
        for table in tree.items if isinstance(tree, Sequence) else (tree,):
            if not isinstance(table, ConfTable):
                self.errors.append(TreeError("wrong-type", "'<<' needs a mapping to merge", path, table.position))
                continue
            for key, entry in table.entries.items():
                merged.setdefault(key, entry)
