"""YAML from anybody, as Go's decoders read it: bounded in depth, and in what its aliases make of it.

Scalars follow YAML 1.1 with its booleans (``yes``, ``off``), but ``10:00`` and ``2024-01-01`` are text. The composer of
libyaml is recursive and overflows the C stack on deeply nested text. A reader that follows an alias again and again
never ends. So a text is looked through before it is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from pumice.errors import InvalidInput, shown

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML without libyaml: slower, the same nodes
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

MAX_DEPTH: Final = 100
"""Levels of nesting; Kubernetes objects have about twenty."""
MAX_REPEATED: Final = 100_000
"""Values that aliases may stand for, all together."""

TAG: Final = "tag:yaml.org,2002:"
TRUE: Final = frozenset(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"))
FALSE: Final = frozenset(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"))
NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
INT: Final = re.compile(r"[-+]?(?:0b[01][01_]*|0x[0-9a-fA-F][0-9a-fA-F_]*|0o?[0-7][0-7_]*|0|[1-9][0-9_]*)")
FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
SPECIAL: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_FAR_IN: Final = re.compile(rf"^[ \t?:-]{{{MAX_DEPTH // 2},}}", re.MULTILINE)
_MOST_DIGITS: Final = 4000


class Loader(_SafeLoader):
    """PyYAML's parser with the scalar types of Go's decoders in place of its own."""

    yaml_implicit_resolvers = {}

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: tuple[bool, bool]) -> str:
        if kind is not yaml.ScalarNode or not implicit[0] or value is None:
            return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        return TAG + tag_of(value)


def tag_of(value: str) -> str:
    """The type of a scalar without quotes: ``null``, ``bool``, ``int``, ``float``, ``merge`` or ``str``."""
    if value in NULL:
        return "null"
    if value in TRUE or value in FALSE:
        return "bool"
    if INT.fullmatch(value):
        return "int"
    if FLOAT.fullmatch(value) or SPECIAL.fullmatch(value):
        return "float"
    return "merge" if value == "<<" else "str"


def _bool(_loader: Loader, node: yaml.ScalarNode) -> bool:
    return scalar(node.tag, node.value) is True


def _number(_loader: Loader, node: yaml.ScalarNode) -> Any:
    try:
        return finite(scalar(node.tag, node.value), node.value)
    except ValueError as exc:
        raise yaml.constructor.ConstructorError(None, None, str(exc), node.start_mark) from exc


Loader.add_constructor(TAG + "bool", _bool)
Loader.add_constructor(TAG + "int", _number)
Loader.add_constructor(TAG + "float", _number)


def scalar(tag: str, text: str) -> bool | int | float | str | None:
    """The value of a scalar with this resolved or written tag.

    :raises ValueError: the text does not fit the tag, or the tag is none of YAML's plain ones.
    """
    name = tag.removeprefix(TAG)
    if name == "null":
        return None
    if name == "bool" and (text in TRUE or text in FALSE):
        return text in TRUE
    if name in ("int", "float") and len(text) > _MOST_DIGITS:
        raise ValueError(f"a number must have at most {_MOST_DIGITS} digits")
    if name == "int" and INT.fullmatch(text):
        return _integer(text)
    if name == "float" and (FLOAT.fullmatch(text) or INT.fullmatch(text)):
        return float(text.replace("_", ""))
    if name == "float" and SPECIAL.fullmatch(text):
        return float(text.replace(".", "").lower())
    if name in ("str", "merge"):
        return text
    if name in ("bool", "int", "float"):
        raise ValueError(f"{text!r} is no {name}")
    raise ValueError(f"the tag {tag!r} is not supported")


def finite(value: Any, text: str) -> Any:
    """The number that a text of data stands for.

    :raises ValueError: it is infinite or none: JSON, into which an API server turns all that it is sent, has no such.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a number must be finite, got {shown(text)}")
    return value


def _integer(text: str) -> int:
    digits = text.replace("_", "").lstrip("+-")
    for prefix, base in (("0b", 2), ("0x", 16), ("0o", 8), ("0", 8)):
        if digits.startswith(prefix) and digits != "0":
            value = int(digits.removeprefix(prefix), base)
            break
    else:
        value = int(digits)
    return -value if text.startswith("-") else value


class Document(NamedTuple):
    """One document of a text: what it says, and its node, which knows where everything stands."""

    data: Any
    node: yaml.Node


def documents(text: str, source: str) -> Iterator[Document]:
    """The documents of a text, one after the other; *source* names it in messages.

    :raises InvalidInput: it is not YAML, or breaks a bound; names the line.
    """
    try:
        check(text)
        loader = Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                assert node is not None
                yield Document(loader.construct_document(node), node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise InvalidInput(f"{place}: not YAML: {exc.problem or exc.context or 'cannot be read'}") from exc
    except (yaml.YAMLError, UnicodeEncodeError) as exc:
        raise InvalidInput(f"{source}: not YAML: {' '.join(str(exc).split())}") from exc


def load(text: str, source: str) -> Any:
    """The first document of a text; None without one.

    :raises InvalidInput: as in `documents`.
    """
    return next((document.data for document in documents(text, source)), None)


def check(text: str) -> None:
    """Look through a text for what would be too much.

    :raises yaml.MarkedYAMLError: it is not YAML, is nested too deeply, or its aliases stand for too much.
    """
    if "&" not in text and text.count("[") + text.count("{") <= MAX_DEPTH and not _FAR_IN.search(text):
        return  # cannot be: no aliases, and no room for so many levels
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    repeated = 0
    for event in yaml.parse(text, Loader=Loader):
        size = 1
        if isinstance(event, yaml.CollectionStartEvent):
            if len(open_) >= MAX_DEPTH:
                told = f"nested more than {MAX_DEPTH} levels deep"
                raise yaml.MarkedYAMLError(problem=told, problem_mark=_mark(event))
            open_.append((event.anchor, 1))
            if event.anchor is not None:
                sizes[event.anchor] = MAX_REPEATED + 1  # who repeats itself has no end
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_.pop()
            if anchor is not None:
                sizes[anchor] = size
        elif isinstance(event, yaml.AliasEvent):
            size = sizes.get(event.anchor or "", 1)
            repeated += size
            if repeated > MAX_REPEATED:
                told = f"its aliases make it grow without end, beyond {MAX_REPEATED} values"
                raise yaml.MarkedYAMLError(problem=told, problem_mark=_mark(event))
        elif not isinstance(event, yaml.ScalarEvent):
            continue
        if open_:
            anchor, so_far = open_[-1]
            open_[-1] = anchor, so_far + size


def _mark(event: yaml.Event) -> Any:
    return event.start_mark
