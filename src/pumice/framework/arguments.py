"""Arguments of plugins and actions: declared by their classes, given by a configuration, checked and read."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar, overload

from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput, shown
from pumice.framework.compat import Compat

T = TypeVar("T")

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class WrongArgument(InvalidInput):
    """A configuration gives an argument a value that its owner does not accept; *key* is the argument's name."""

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
        """Report whether they are read as Volcano reads them."""
        return self._typed

    @property
    def owner(self) -> builtins.str:
        """The name of the plugin or action that the arguments are for."""
        return self._owner

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

    def names(self, key: builtins.str, default: Sequence[builtins.str] = ()) -> builtins.list[builtins.str]:
        """Names in one text with commas; a YAML list too, if arguments are not typed."""
        if self._typed and not isinstance(self._values.get(key), str):
            return [*default]
        return self.list(key, default)

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


# -- declarations -----------------------------------------------------------------------------------------------------
class Argument(Generic[T]):
    """An argument that a plugin or an action declares, as an attribute of its class.

    The attribute of an object is the value: what the configuration gives, or the default. The type of the default says
    how a value is read; *read* reads anything else, such as ``Arguments.seconds`` or ``Arguments.names``. A value
    outside of *minimum*, *maximum* and *choices* is an error; if *lenient*, the default is used and a warning says so,
    as Volcano does without one. ``*name*`` is what a configuration writes, else the name of the attribute. *values* and
    *unit* are words for the documentation.
    """

    def __init__(
        self,
        default: T,
        doc: str,
        *,
        name: str = "",
        minimum: float | None = None,
        maximum: float | None = None,
        choices: Sequence[str] = (),
        unit: str = "",
        values: str = "",
        lenient: bool = False,
        read: Callable[[Arguments, str, T], T] | None = None,
    ) -> None:
        self.default, self.doc, self.name = default, doc, name
        self.minimum, self.maximum, self.choices, self.lenient = minimum, maximum, tuple(choices), lenient
        self.unit, self._values, self._attribute = unit, values, name
        self._read: Callable[[Arguments, str, Any], Any] = read or _reader(default)

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.name, self._attribute = self.name or attribute, attribute

    @overload
    def __get__(self, owner: None, cls: type) -> Self: ...
    @overload
    def __get__(self, owner: object, cls: type) -> T: ...
    def __get__(self, owner: object | None, cls: type) -> Self | T:
        if owner is None:
            return self
        arguments = getattr(owner, "arguments", None)
        if not isinstance(arguments, Arguments):
            text = f"{cls.__name__}.{self._attribute}: has no value before super().__init__(arguments) was called"
            raise AttributeError(text)
        value = vars(owner)[self._attribute] = self.of(arguments)
        return value

    @property
    def prefix(self) -> str:
        """The prefix of the names of an `ArgumentMap`; empty for any other argument."""
        return ""

    def of(self, arguments: Arguments) -> T:
        """The value among *arguments*, or the default.

        :raises WrongArgument: it is not of the kind, or outside of the bounds.
        """
        value = self._one(arguments, self.name)
        return self.default if self._outside(arguments, self.name, value) else value

    def ignored(self, arguments: Arguments) -> list[tuple[str, str]]:
        """The given values in the place of which the default is used: the name of each, and a sentence about it."""
        return self._ignored(arguments, self.name)

    def _one(self, arguments: Arguments, key: str) -> T:
        try:
            value: T = self._read(arguments, key, self.default)
        except WrongArgument:
            raise
        except InvalidInput as exc:
            raise WrongArgument(key, str(exc)) from exc
        return value

    def _ignored(self, arguments: Arguments, key: str) -> list[tuple[str, str]]:
        outside = self._outside(arguments, key, self._one(arguments, key))
        return [(key, f"{outside}; {_written(self.default)} is used")] if outside else []

    def _outside(self, arguments: Arguments, key: str, value: Any) -> str:
        """Which bound a value breaks, in words; nothing if it breaks none.

        :raises WrongArgument: it breaks one, and the argument is not lenient.
        """
        if key not in arguments or value == self.default:
            return ""
        rule = ""
        if self.choices and value not in self.choices:
            rule = " or ".join(choice for choice in self.choices if choice)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            if self.minimum is not None and value < self.minimum:
                rule = f"at least {self.minimum:g}"
            elif self.maximum is not None and value > self.maximum:
                rule = f"at most {self.maximum:g}"
        if not rule:
            return ""
        owner = f"{arguments.owner}: " if arguments.owner else ""
        text = f"{owner}argument {key}: must be {rule}, got {shown(arguments[key])}"
        if not self.lenient:
            raise WrongArgument(key, text)
        return text

    @property
    def kind(self) -> str:
        """The description of a value: ``whole number, at least 0``."""
        if self.choices:
            return " or ".join(f"`{choice}`" for choice in self.choices if choice)
        kinds = _KINDS.get(self._read, "") if self._values == "" else self._values
        bounds = [f"at least {self.minimum:g}"] if self.minimum is not None else []
        bounds += [f"at most {self.maximum:g}"] if self.maximum is not None else []
        bounds += ["else the default"] if self.lenient else []
        return ", ".join([f"{kinds} ({self.unit})" if self.unit else kinds, *bounds])

    @property
    def written_default(self) -> str:
        """The default as a configuration would write it; nothing if it is empty or no plain value."""
        if self.kind.startswith("duration") and isinstance(self.default, (int, float)):
            return _duration(self.default)
        return _written(self.default)


class ArgumentMap(Argument[T]):
    """Arguments of one kind whose names begin alike, ``binpack.resources.<name>``.

    The attribute of an object is a mapping from the rest of each given name to the value; the default is that of a name
    which is not in it.
    """

    @overload  # type: ignore[override]  # a mapping in the place of one value
    def __get__(self, owner: None, cls: type) -> Self: ...
    @overload
    def __get__(self, owner: object, cls: type) -> Mapping[str, T]: ...
    def __get__(self, owner: object | None, cls: type) -> Any:
        return super().__get__(owner, cls)

    @property
    def prefix(self) -> str:
        """The prefix of the names."""
        return self.name.partition("<")[0]

    def of(self, arguments: Arguments) -> Any:
        """The given values by the rest of their names.

        :raises WrongArgument: one is not of the kind, or outside of the bounds.
        """
        found = {}
        for key in self._given(arguments):
            value = self._one(arguments, key)
            found[key.removeprefix(self.prefix)] = self.default if self._outside(arguments, key, value) else value
        return found

    def ignored(self, arguments: Arguments) -> list[tuple[str, str]]:
        """The given values in the place of which the default is used."""
        return [line for key in self._given(arguments) for line in self._ignored(arguments, key)]

    def _given(self, arguments: Arguments) -> list[str]:
        return [key for key in arguments if key.startswith(self.prefix) and key != self.prefix]


def declared_by(cls: Any) -> tuple[Argument[Any], ...]:
    """The arguments that a class and its bases declare, those of the bases first: attributes, and tuples of them."""
    found: dict[str, Argument[Any]] = {}
    for base in reversed(cls.__mro__ if isinstance(cls, type) else ()):
        for value in vars(base).values():
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, Argument):
                    found[one.name] = one
    return tuple(found.values())


_READERS: dict[type, Callable[[Arguments, str, Any], Any]] = {
    bool: Arguments.bool,
    int: Arguments.int,
    float: Arguments.float,
    str: Arguments.str,
    list: Arguments.list,
    tuple: Arguments.list,
}
_KINDS: dict[Any, str] = {
    Arguments.bool: "true or false",
    Arguments.int: "whole number",
    Arguments.float: "number",
    Arguments.str: "text",
    Arguments.list: "list of texts",
    Arguments.names: "list of texts",
    Arguments.seconds: "duration",
    Arguments.get: "anything",
}


def _reader(default: object) -> Callable[[Arguments, str, Any], Any]:
    try:
        return _READERS[type(default)]
    except KeyError:
        raise TypeError(f"Argument: a default such as {shown(default)} needs read=, which reads a value") from None


def _written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, (int, float)):
        return f"{default:g}"
    if isinstance(default, (list, tuple)) and all(isinstance(part, str) for part in default):
        return ", ".join(default)
    return default if isinstance(default, str) else ""


def _duration(seconds: float) -> str:
    """Seconds as Go writes a duration, without what is nothing: ``5m``, ``1h30m``."""
    whole, parts = int(seconds), []
    if whole != seconds:
        return f"{seconds:g}s"
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"
