"""The arguments that a configuration gives a plugin or an action, read as what they should be."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput, shown
from pumice.framework.compat import Compat

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class WrongArgument(InvalidInput):
    """An argument is not of the kind that the plugin reads it as; *key* is its name."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


class Arguments(Mapping[str, Any]):
    """A plugin's arguments: a mapping with typed getters.

    Numbers and truth values are accepted as YAML scalars and as strings; anything else is an error that names the
    argument. *typed*: as Volcano reads them, so a number is no text, and what is of another type leaves the default.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, owner: str = "", *, typed: bool = False) -> None:
        self._values = dict(values or {})
        self._owner = owner
        self._typed = typed

    @property
    def typed(self) -> bool:
        """Are they read as Volcano reads them?"""
        return self._typed

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Arguments({self._values!r})"

    def _wrong(self, key: str, want: str) -> InvalidInput:
        owner = f"{self._owner}: " if self._owner else ""
        return WrongArgument(key, f"{owner}argument {key}: must be {want}, got {shown(self._values[key])}")

    def int(self, key: str, default: int) -> int:
        """A whole number."""
        value = self._values.get(key, default)
        if self._typed:
            return value if type(value) is builtins.int else default
        if isinstance(value, bool):
            raise self._wrong(key, "a whole number")
        if isinstance(value, int):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        try:
            return int(value) if isinstance(value, str) else self._raise(key, "a whole number")
        except ValueError:
            raise self._wrong(key, "a whole number") from None

    def float(self, key: str, default: float) -> float:
        """A number."""
        value = self._values.get(key, default)
        if self._typed and type(value) not in (builtins.int, builtins.float):
            return default
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            number = float(value)
        else:
            try:
                number = float(value) if isinstance(value, str) else self._raise(key, "a number")
            except ValueError:
                raise self._wrong(key, "a number") from None
        if number != number or number in (float("inf"), float("-inf")):
            raise self._wrong(key, "a finite number")
        return number

    def bool(self, key: str, default: bool) -> bool:
        """A truth value."""
        value = self._values.get(key, default)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value in _TRUE | _FALSE:
            return value in _TRUE
        if self._typed:
            return default
        if value in (0, 1):
            return bool(value)
        raise self._wrong(key, "true or false")

    def str(self, key: builtins.str, default: builtins.str) -> builtins.str:
        """Text."""
        value = self._values.get(key, default)
        if isinstance(value, str):
            return value
        if self._typed:
            return default
        raise self._wrong(key, "text")

    def seconds(self, key: builtins.str, default: builtins.float) -> builtins.float:
        """A duration in seconds, written as text: ``500ms``, ``1m30s``."""
        value = self._values.get(key)
        if key not in self._values or (self._typed and not isinstance(value, str)):
            return default
        if not isinstance(value, str):
            raise self._wrong(key, "a text such as 500ms or 1m30s")
        try:
            return parse_duration(value) / SECOND
        except InvalidInput as error:
            if self._typed:
                return default
            owner = f"{self._owner}: " if self._owner else ""
            raise WrongArgument(key, f"{owner}argument {key}: {error}") from None

    def names(self, key: builtins.str) -> builtins.list[builtins.str]:
        """Names in one text with commas; a YAML list too, where arguments are not typed."""
        if self._typed and not isinstance(self._values.get(key), str):
            return []
        return self.list(key)

    def list(self, key: builtins.str, default: Sequence[builtins.str] = ()) -> list[builtins.str]:
        """A list of text: a YAML list, or one string with commas."""
        value = self._values.get(key, default)
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
            return [*value]
        raise self._wrong(key, "a list of texts or a text with commas")

    def _raise(self, key: builtins.str, want: builtins.str) -> Any:
        raise self._wrong(key, want)


def arguments_of(values: Mapping[str, Any], owner: str, compat: Compat) -> Arguments:
    """Arguments of something that comes with Pumice, read as the switches say."""
    return Arguments(values, owner, typed=compat.typed_arguments)
