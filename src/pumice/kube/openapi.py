"""The OpenAPI document of the answers, made from the table of questions."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pumice.answers.questions import QUESTIONS, Question

VERSION: Final = "v1"
"""Of what is asked and answered: fields may be added, none is taken away or changes its meaning."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """There is no answer, and why."""

    error: str


_FAILURES: Final = {
    "401": "No token, or one that the API server does not know.",
    "403": "A right is missing; says which.",
    "404": "There is no such job or queue.",
    "413": "Larger than 8 MiB.",
    "422": "What is asked breaks a rule; says which.",
    "429": "Too many questions of this user are open.",
    "503": "No scheduler answers now; Retry-After says when to ask again.",
}


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    types = [*dict.fromkeys(t for q in QUESTIONS for t in (q.answer, q.body) if t is not None), Failure]
    _, schemas = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    return {
        "openapi": "3.1.0",
        "info": {"title": "Answers of the Pumice scheduler", "version": VERSION},
        "security": [{"token": []}],
        "paths": {f"/{VERSION}/{question.name}": _path(question) for question in QUESTIONS},
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token that the API server knows."}
            },
        },
    }


def _path(question: Question[Any]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": question.name,
        "summary": question.about,
        "parameters": _parameters(question),
        "responses": {
            "200": {"description": "The answer.", "content": _json_of(question.answer)},
            **{code: {"description": text, "content": _json_of(Failure)} for code, text in _FAILURES.items()},
        },
    }
    if question.body is not None:
        said["requestBody"] = {"required": True, "content": _json_of(question.body)}
    return {question.method.lower(): said}


def _parameters(question: Question[Any]) -> list[dict[str, Any]]:
    made = msgspec.json.schema(question.parameters)["$defs"][question.parameters.__name__]
    found = []
    for name, schema in made["properties"].items():
        kind = schema.get("type", "string")
        found.append(
            {
                "name": name,
                "in": "query",
                "required": name in made["required"],
                "description": schema["description"],
                "schema": {"type": "array", "items": {"type": "string"}} if kind == "array" else {"type": kind},
            }
        )
    return found


def _json_of(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
