"""Typed access to a tree that notes every problem and goes on, instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pumice.config.problems import Problem, nearest
from pumice.config.schema import Position
from pumice.config.tree import ConfTable, Scalar, Sequence, Tree, join, kind


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
