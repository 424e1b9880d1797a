"""Reading a scenario file: typed getters over YAML that know where everything stands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, TypeVar

from pumice.config.durations import SECOND, parse_duration
from pumice.config.problems import nearest
from pumice.config.schema import Position
from pumice.config.tree import ConfTable, Scalar, Sequence, Tree, TreeError, from_plain, join, kind, parse_yaml, plain
from pumice.errors import InvalidInput
from pumice.model import quantity

T = TypeVar("T")


class ScenarioError(InvalidInput):
    """A scenario file breaks a rule; says where: ``day.yaml:12:5: cluster.nodes[0].gpus: …``."""

    def __init__(self, source: str, position: Position | None, path: str, rule: str) -> None:
        place = f"{source}:{position}" if position is not None else source
        super().__init__(f"{place}: {path}: {rule}" if path else f"{place}: {rule}")


MOST: Final = 1_000_000
"""So large a whole number may be where nothing else is said: of pods, of jobs that come, of users."""


class Value:
    """A value of the file and its place."""

    def __init__(self, tree: Tree, path: str, source: str) -> None:
        self.tree, self.path, self.source = tree, path, source

    def error(self, rule: str) -> ScenarioError:
        """The error that this value breaks a rule."""
        return ScenarioError(self.source, self.tree.position, self.path, rule)

    def wrong(self, want: str) -> ScenarioError:
        """The error that this value is not what is wanted."""
        return self.error(f"must be {want}, got {kind(self.tree)}")

    @property
    def line(self) -> int:
        """The line it stands on."""
        return self.tree.position.line if self.tree.position is not None else 0

    @property
    def is_section(self) -> bool:
        return isinstance(self.tree, ConfTable)

    @property
    def is_list(self) -> bool:
        return isinstance(self.tree, Sequence)

    def plain(self) -> object:
        """The value as ordinary dicts, lists and scalars."""
        return plain(self.tree)

    def text(self) -> str:
        """A text; numbers are taken as written."""
        if not isinstance(self.tree, Scalar) or self.tree.value is None:
            raise self.wrong("text")
        return self.tree.text

    def number(self, least: float = 0.0, *, above: bool = False, most: float = math.inf) -> float:
        """A number of at least *least*, or above it, and at most *most*."""
        value = self.tree.value if isinstance(self.tree, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.wrong("a number")
        if not value >= least or (above and value == least):
            raise self.wrong(f"a number {'above' if above else 'of at least'} {least:g}")
        if value > most:
            raise self.wrong(f"a number of at most {most:g}")
        return float(value)

    def integer(self, least: int = 0, most: int = MOST) -> int:
        """A whole number of at least *least*, and at most *most*."""
        value = self.tree.value if isinstance(self.tree, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(f"a whole number of at least {least}")
        if value > most:
            raise self.wrong(f"a whole number of at most {most}")
        return value

    def boolean(self) -> bool:
        """True or false."""
        value = self.tree.value if isinstance(self.tree, Scalar) else None
        if not isinstance(value, bool):
            raise self.wrong("true or false")
        return value

    def duration(self, *, above: bool = False) -> float:
        """Seconds: a number, or a text such as ``1h30m`` or ``2d``."""
        value = self.tree.value if isinstance(self.tree, Scalar) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.number(above=above)
        if not isinstance(value, str):
            raise self.wrong("a duration such as 90s, 1h30m or 2d")
        try:
            seconds = parse_duration(value, days=True) / SECOND
        except InvalidInput as exc:
            raise self.error(str(exc)) from exc
        if seconds < 0 or (above and seconds == 0):
            raise self.wrong(f"a duration {'above' if above else 'of at least'} 0")
        return seconds

    def milli(self) -> int:
        """A quantity in thousandths: ``500m``, ``4``."""
        return self._quantity(quantity.milli)

    def units(self) -> int:
        """A quantity in whole units: ``4Gi``."""
        return self._quantity(quantity.value)

    def _quantity(self, read: object) -> int:
        try:
            amount = read(self.text())  # type: ignore[operator]
        except InvalidInput as exc:
            raise self.error(str(exc)) from exc
        if amount < 0:
            raise self.wrong("a quantity of at least 0")
        return int(amount)

    def one_of(self, known: Iterable[str]) -> str:
        """A text that is one of those known."""
        listed, value = list(known), self.text()
        if value not in listed:
            meant = nearest(value, listed)
            hint = f"; did you mean {meant!r}?" if meant else ""
            raise self.error(f"must be one of {', '.join(listed)}, got {value!r}{hint}")
        return value

    def items(self) -> list[Value]:
        """The values of a list."""
        if not isinstance(self.tree, Sequence):
            raise self.wrong("a list")
        return [Value(item, join(self.path, n), self.source) for n, item in enumerate(self.tree.items)]

    def pairs(self) -> list[tuple[str, Value]]:
        """The keys and values of a mapping."""
        if not isinstance(self.tree, ConfTable):
            raise self.wrong("a mapping")
        return [(key, Value(e.value, join(self.path, key), self.source)) for key, e in self.tree.entries.items()]

    def key(self, key: str) -> Value:
        """A key of a mapping, read as a value that stands where the key stands."""
        written = read_tree(key, self.source).tree
        entry = self.tree.entries.get(key) if isinstance(self.tree, ConfTable) else None
        if entry is not None and isinstance(written, Scalar):
            written = replace(written, position=entry.key_position)
        return Value(written, join(self.path, key), self.source)

    def texts(self) -> list[str]:
        """A list of texts; one text stands for a list of one."""
        return [item.text() for item in self.items()] if self.is_list else [self.text()]

    def section(self) -> Section:
        """A mapping with known keys."""
        if not isinstance(self.tree, ConfTable):
            raise self.wrong("a mapping")
        return Section(self.tree, self.path, self.source)


class Section:
    """A mapping whose keys are known. Leaving the block refuses every key that nobody asked for."""

    def __init__(self, table: ConfTable, path: str, source: str) -> None:
        self._table, self._path, self._source = table, path, source
        self._known: list[str] = []

    def __enter__(self) -> Section:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return
        for key, entry in self._table.entries.items():
            if key not in self._known:
                raise self._unknown(key, entry.key_position)

    def _unknown(self, key: str, position: Position | None) -> ScenarioError:
        meant = nearest(key, self._known)
        hint = f"; did you mean {meant!r}?" if meant else f"; known are {', '.join(dict.fromkeys(self._known))}"
        return ScenarioError(self._source, position, join(self._path, key), f"unknown key {key!r}{hint}")

    @property
    def value(self) -> Value:
        """The whole section as one value."""
        return Value(self._table, self._path, self._source)

    def get(self, key: str) -> Value | None:
        """The value of a key; None where it is left out or empty."""
        self._known.append(key)
        entry = self._table.entries.get(key)
        if entry is None or (isinstance(entry.value, Scalar) and entry.value.value is None):
            return None
        return Value(entry.value, join(self._path, key), self._source)

    def need(self, key: str) -> Value:
        """The value of a key that must be there."""
        found = self.get(key)
        if found is None:
            for written, entry in self._table.entries.items():
                if written not in self._known and nearest(written, [key]) is not None:
                    raise self._unknown(written, entry.key_position)
            raise self.value.error(f"needs the key {key!r}")
        return found

    def text(self, key: str, default: str = "") -> str:
        found = self.get(key)
        return default if found is None else found.text()

    def number(self, key: str, default: float, least: float = 0.0) -> float:
        found = self.get(key)
        return default if found is None else found.number(least)

    def integer(self, key: str, default: int, least: int = 0, most: int = MOST) -> int:
        found = self.get(key)
        return default if found is None else found.integer(least, most)

    def boolean(self, key: str, default: bool) -> bool:
        found = self.get(key)
        return default if found is None else found.boolean()

    def duration(self, key: str, default: float) -> float:
        found = self.get(key)
        return default if found is None else found.duration()

    def milli(self, key: str, default: int = 0) -> int:
        found = self.get(key)
        return default if found is None else found.milli()

    def units(self, key: str, default: int = 0) -> int:
        found = self.get(key)
        return default if found is None else found.units()

    def texts(self, key: str) -> list[str]:
        found = self.get(key)
        return [] if found is None else found.texts()

    def text_map(self, key: str) -> dict[str, str]:
        found = self.get(key)
        return {} if found is None else {name: value.text() for name, value in found.pairs()}


def read_tree(text: str, source: str) -> Value:
    """The first document of a YAML text.

    :raises ScenarioError: it is not YAML, or a key stands in it twice.
    """
    try:
        tree, errors, _ = parse_yaml(text)
    except TreeError as exc:
        raise ScenarioError(source, exc.position, exc.path, exc.message) from exc
    for error in errors:
        raise ScenarioError(source, error.position, error.path, error.message)
    return Value(tree, "", source)


def value_of(data: Mapping[str, Any], source: str) -> Value:
    """The value of ordinary dicts, lists and scalars; without positions.

    :raises ScenarioError: it holds something else.
    """
    try:
        return Value(from_plain(data), "", source)
    except TreeError as exc:
        raise ScenarioError(source, exc.position, exc.path, exc.message) from exc
