"""The OpenAPI document of a server: its verbs in the documented dialect, from the table of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pumice.extender import answers as a
from pumice.extender.answers import Answer
from pumice.extender.dialects.messages import SHAPES, SnapshotMessage
from pumice.extender.protocol import PREEMPT, VERBS, MessagePart, PartKind, Verb
from pumice.model.api import Taint

Schema = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _ref(name: str) -> Schema:
    return {"$ref": _REF.format(name=name)}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_TEXT: Final[Schema] = {"type": "string"}
_SCORES: Final = _map({"type": "number"})


def _schemas() -> dict[str, Schema]:
    """The objects of questions, from the very types by which they are read, but for the fields that Volcano has.

    A task is named Task, not TaskMessage.
    """
    shapes = {kind.value: shape for kind, shape in SHAPES.items()} | {PartKind.SNAPSHOT.value: SnapshotMessage}
    _, found = msgspec.json.schema_components([*shapes.values(), Taint], ref_template=_REF)
    text = msgspec.json.encode({shape.__name__: found[shape.__name__] for shape in (*shapes.values(), Taint)})
    schemas: dict[str, Schema] = msgspec.json.decode(text.replace(b'Message"', b'"'))
    for name, schema in schemas.items():
        schema["title"] = name
        schema["properties"] = {key: one for key, one in schema["properties"].items() if not key[0].isupper()}
        if "name" in schema["properties"]:
            schema["required"] = ["name"]  # a job with a UID alone is understood, but nobody need know
    schemas["Error"] = _object(("errorMessage",), errorMessage=_TEXT)
    return schemas


_FIELDS: Final[Mapping[Any, Schema]] = {
    str: _TEXT,
    a.Why: _TEXT,
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    a.Numbers: _SCORES,
    a.MaybeNumbers: _SCORES,
}
"""A field of an answer, by its type; texts that are left out where they are empty, and scores, need not be there."""
_ANSWERS: Final[Mapping[type[Answer], Schema]] = {
    a.NodeRefusals: _object(("errors", "code"), errors=_map(_TEXT), code=_map(_FIELDS[int])),
    a.Victims: _object(("status",), status=_FIELDS[int], victims=_list(_object((), uid=_TEXT))),
}
"""Answers that are more than their fields."""


def _answer(answer: type[Answer]) -> Schema:
    if answer in _ANSWERS:
        return _ANSWERS[answer]
    fields = a.fields_of(answer)
    required = tuple(one.encode_name for one in fields if one.type not in (a.Why, a.MaybeNumbers))
    return _object(required, **{one.encode_name: _FIELDS[one.type] for one in fields})


_ERRORS: Final = {
    "400": "The question cannot be read, or an object in it breaks a rule.",
    "401": "The bearer token is missing or wrong.",
    "408": "The question did not come whole in time.",
    "409": "The policy read something that neither the call nor a snapshot holds.",
    "413": "The question is too large.",
    "500": "The policy failed.",
    "503": "Too much at one time; come again.",
}


def document(paths: Mapping[str, Verb[Any]], title: str, *, token: bool) -> dict[str, Any]:
    """The document for a server that answers *paths*. kube-scheduler's own verb (preempt) is left out."""
    described = {
        f"/{path}": {"post": _operation(path, verb)} for path, verb in sorted(paths.items()) if verb is not PREEMPT
    }
    components: dict[str, Any] = {"schemas": _schemas()}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1", "description": "A Volcano extender, in the documented dialect."},
        "paths": described,
        "components": components,
    }
    if token:
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"bearer": []}]
    return found


def _operation(path: str, verb: Verb[Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": _ref("Error")}}
    answer = {"description": (verb.answer.__doc__ or "").splitlines()[0], "content": _json(_answer(verb.answer))}
    return {
        "operationId": path,
        "summary": verb.question,
        "requestBody": {"required": bool(verb.parts), "content": _json(_question(verb))},
        "responses": {
            "200": answer,
            **{status: {"description": text, "content": error} for status, text in _ERRORS.items()},
        },
    }


def _question(verb: Verb[Any]) -> Schema:
    """The schema of a question; lists and tables may be missing or null, as in Go."""
    required = tuple(part.name for part in verb.parts if not part.many and part.kind not in _OPTIONAL)
    schema = _object(required, **{part.name: _part(part) for part in verb.parts})
    return schema if verb.parts else _or_null(schema)


_OPTIONAL: Final = (PartKind.SCORES, PartKind.SNAPSHOT)


def _part(part: MessagePart) -> Schema:
    schema = _SCORES if part.kind is PartKind.SCORES else _ref(part.kind.value)
    if part.many:
        return _or_null(_list(schema))
    return _or_null(schema) if part.kind in _OPTIONAL else schema


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def all_paths(renamed: Mapping[str, str]) -> dict[str, Verb[Any]]:
    """Path -> verb: each under its own name, or under the one that it was given instead."""
    return {renamed.get(name, name).strip("/"): verb for name, verb in VERBS.items()}
