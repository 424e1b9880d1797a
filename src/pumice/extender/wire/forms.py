"""The machine behind the dialects that send whole objects: how a request becomes JSON and comes back.

A request type names its parts (``task``, ``nodes``, …). A ``Form`` says how one kind of part looks in a dialect; the
rest is the same for every verb. Decoders are built once, when the dialect is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar, get_args, get_origin

import msgspec

from pumice.errors import InvalidInput
from pumice.extender.wire import answers, gojson
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.objects import Wire
from pumice.extender.wire.reading import read
from pumice.extender.wire.verbs import Verb

N = TypeVar("N")
W = TypeVar("W")
Req = TypeVar("Req", bound=Wire)
Resp = TypeVar("Resp", bound=Wire)


@dataclass(frozen=True, slots=True)
class Form(Generic[N, W]):
    """How a neutral value of type ``N`` looks in a dialect: *shape* when read, what ``write`` gives when written."""

    shape: type[W]
    read: Callable[[W], N]
    write: Callable[[N], object]
    inline: bool = False
    """The value is the whole message, not a part under a name."""


Forms: TypeAlias = Mapping[type, Form[Any, Any]]
"""How each kind of neutral value looks in a dialect."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One field of a request."""

    attribute: str
    name: str
    shape: Any
    read: Callable[[Any], object]
    write: Callable[[Any], object]
    required: bool
    inline: bool
    kind: type | None = None
    many: bool = False


class ObjectDialect:
    """Encodes and decodes the messages of its verbs; see ``dialects.Dialect`` for the contract."""

    def __init__(
        self,
        name: str,
        verbs: Iterable[Verb[Any, Any]],
        forms: Forms,
        answer: Callable[[Wire], object],
        *,
        no_items: object,
    ) -> None:
        """*answer* gives the JSON value of a response; *no_items* is written for an empty list of objects."""
        self.name: Final = name
        self.verbs: Final[frozenset[Verb[Any, Any]]] = frozenset(verbs)
        self._answer = answer
        self._forms = forms
        self._objects: dict[type, msgspec.json.Decoder[Any]] = {}
        self._parts = {verb: _parts(verb, forms, no_items) for verb in self.verbs}
        self._decoders = {verb: _decoder(verb, parts) for verb, parts in self._parts.items()}

    def encode_request(self, verb: Verb[Req, Resp], request: Req) -> bytes:
        parts = self._parts_of(verb)
        try:
            if parts and parts[0].inline:
                return gojson.encode(parts[0].write(getattr(request, parts[0].attribute)))
            return gojson.encode({part.name: part.write(getattr(request, part.attribute)) for part in parts})
        except InvalidInput as error:
            raise WireError(verb.name, f"request: {error}") from error

    def encode_object(self, value: Wire) -> bytes:
        """One task, node, job or queue, to be put into several requests with ``encode_parts``.

        :raises WireError: as ``encode_request``.
        """
        try:
            return gojson.encode(self._forms[type(value)].write(value))
        except InvalidInput as error:
            raise WireError(type(value).__name__, f"request: {error}") from error

    def encode_parts(self, verb: Verb[Any, Any], **parts: bytes | Sequence[bytes]) -> bytes:
        """As ``encode_request``, from objects that are JSON already."""
        said = []
        for part in self._parts_of(verb):
            given = parts[part.attribute]
            if not isinstance(given, bytes):
                given = b"[%b]" % b",".join(given) if given else gojson.encode(part.write([]))
            said.append(b'"%b":%b' % (part.name.encode(), given))
        return b"{%b}" % b",".join(said)

    def decode_request(self, verb: Verb[Req, Resp], body: bytes) -> Req:
        parts = self._parts_of(verb)
        message = read(verb.name, "request", body, self._decoders[verb])
        try:
            if parts and parts[0].inline:
                return verb.request(**{parts[0].attribute: parts[0].read(message)})
            return verb.request(**{part.attribute: part.read(getattr(message, part.name)) for part in parts})
        except (InvalidInput, msgspec.ValidationError) as error:
            raise WireError(verb.name, f"request: {error}") from error

    def decode_object(self, kind: type[W], body: bytes | msgspec.Raw) -> W:
        """One task, node, job or queue of a request.

        :raises WireError: as ``decode_request``.
        """
        form = self._forms[kind]
        decoder = self._objects.get(kind)
        if decoder is None:
            decoder = self._objects[kind] = msgspec.json.Decoder(form.shape)
        try:
            found: W = form.read(decoder.decode(body))
        except (InvalidInput, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WireError(kind.__name__, f"request: {error}") from error
        return found

    def kinds(self, verb: Verb[Any, Any]) -> dict[str, tuple[type, bool]] | None:
        """Name of each part of a request -> its kind, and whether it is a list of them.

        ``None`` where a request is not made of such parts alone.
        """
        parts = self._parts_of(verb)
        if any(part.kind is None or part.inline for part in parts):
            return None
        return {part.name: (part.kind, part.many) for part in parts if part.kind is not None}

    def encode_response(self, verb: Verb[Req, Resp], response: Resp) -> bytes:
        self._parts_of(verb)
        try:
            return gojson.encode(self._answer(response))
        except InvalidInput as error:
            raise WireError(verb.name, f"answer: {error}") from error

    def decode_response(self, verb: Verb[Req, Resp], body: bytes) -> Resp:
        self._parts_of(verb)
        return answers.decode(verb, body)

    def _parts_of(self, verb: Verb[Any, Any]) -> tuple[_Part, ...]:
        parts = self._parts.get(verb)
        if parts is None:
            raise WireError(verb.name, f"the {self.name} dialect does not carry this verb")
        return parts


def _parts(verb: Verb[Any, Any], forms: Forms, no_items: object) -> tuple[_Part, ...]:
    fields = [field for field in msgspec.structs.fields(verb.request) if field.type is not bool]  # names_only
    return tuple(_part(field, forms, no_items) for field in fields)


def _part(field: msgspec.structs.FieldInfo, forms: Forms, no_items: object) -> _Part:
    name, kind = field.encode_name, field.type
    if get_origin(kind) is dict:
        return _Part(field.name, name, kind | None, _read_table, gojson.numbers, field.required, False)
    if get_origin(kind) is list:
        form = forms[get_args(kind)[0]]
        shape = list[form.shape] | None  # type: ignore[name-defined]
        return _Part(
            field.name,
            name,
            shape,
            _reader(form),
            _writer(form, no_items),
            field.required,
            False,
            get_args(kind)[0],
            True,
        )
    form = forms[kind]
    return _Part(field.name, name, form.shape, form.read, form.write, field.required, form.inline, kind)


def _decoder(verb: Verb[Any, Any], parts: tuple[_Part, ...]) -> msgspec.json.Decoder[Any]:
    if parts and parts[0].inline:
        return msgspec.json.Decoder(parts[0].shape)
    fields: list[Any] = [(part.name, part.shape) if part.required else (part.name, part.shape, None) for part in parts]
    return msgspec.json.Decoder(msgspec.defstruct(verb.name, fields, kw_only=True))


def _read_table(table: dict[str, float] | None) -> dict[str, float]:
    return table or {}


def _reader(form: Form[Any, Any]) -> Callable[[list[Any] | None], list[Any]]:
    one = form.read
    return lambda items: [one(item) for item in items or ()]


def _writer(form: Form[Any, Any], no_items: object) -> Callable[[list[Any]], object]:
    one = form.write
    return lambda items: [one(item) for item in items] if items else no_items
