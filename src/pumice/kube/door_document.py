"""What can be asked at the door, as a table; and the OpenAPI document that follows from it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from pumice.answers.fairness import FairnessAnswer
from pumice.answers.standing import Standing
from pumice.answers.tried import TryAnswer
from pumice.answers.waiting import WaitingAnswer
from pumice.answers.what_if.effects import WhatIfAnswer
from pumice.answers.what_if.supposition import WhatIf
from pumice.answers.when.answer import WhenAnswer
from pumice.answers.why import WhyAnswer

VERSION: Final = "v1"
"""Of what is asked and answered: fields may be added, none is taken away or changes its meaning."""


class QueuesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How queues stand."""

    queues: list[Standing]


class DoorFailure(msgspec.Struct, frozen=True, kw_only=True):
    """There is no answer, and why."""

    error: str


class SubmittedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is not there yet."""

    objects: list[dict[str, Any]]
    """PodGroups and pods, as for the API server."""


class DoorParameter(NamedTuple):
    """A word of a question."""

    name: str
    about: str
    required: bool = False
    many: bool = False
    kind: str = "string"


class DoorQuestion(NamedTuple):
    """Something that can be asked."""

    name: str
    about: str
    answer: type
    parameters: tuple[DoorParameter, ...] = ()
    body: type | None = None

    @property
    def method(self) -> str:
        """With which it is asked."""
        return "GET" if self.body is None else "POST"


_JOB: Final = (
    DoorParameter("namespace", "The job's namespace.", required=True),
    DoorParameter("job", "The name of its PodGroup, of the Job it was made of, or of one of its pods.", required=True),
)
_WHEN: Final = DoorParameter("when", "no: leave out when it will likely start, which takes the longest to answer.")
QUESTIONS: Final = (
    DoorQuestion(
        "why",
        "What a job waits for, its place, how its queue stands, what would help.",
        WhyAnswer,
        (*_JOB, _WHEN),
    ),
    DoorQuestion("when", "When a job will likely start, as a range.", WhenAnswer, _JOB),
    DoorQuestion(
        "waiting",
        "Who waits, the longest first, of the namespaces that one may read.",
        WaitingAnswer,
        (
            DoorParameter("namespace", "Only jobs of this namespace."),
            DoorParameter("queue", "Only jobs of this queue."),
            DoorParameter("limit", "Rows, at most: 1 to 1000, else 100.", kind="integer"),
        ),
    ),
    DoorQuestion(
        "queues",
        "How queues stand; all of them if none is named.",
        QueuesAnswer,
        (DoorParameter("queue", "The name of a queue.", many=True),),
    ),
    DoorQuestion(
        "fairness",
        "Which queues are short of their part while others borrow, and which parts nobody uses.",
        FairnessAnswer,
    ),
    DoorQuestion(
        "try",
        "What would become of a job in the next cycle. Nothing is written.",
        TryAnswer,
        (_WHEN,),
        SubmittedObjects,
    ),
    DoorQuestion(
        "what-if",
        "What would be decided otherwise if queues, nodes or the conf were others. Nothing is written.",
        WhatIfAnswer,
        (),
        WhatIf,
    ),
)
_FAILURES: Final = {
    "401": "No token, or one that the API server does not know.",
    "403": "A right is missing; says which.",
    "404": "There is no such job or queue.",
    "413": "Larger than 8 MiB.",
    "422": "What is asked breaks a rule; says which.",
    "429": "Too many questions of this user are open.",
    "503": "Nobody answers now; Retry-After says when to ask again.",
}


def door_document() -> dict[str, Any]:
    """The OpenAPI document of the door."""
    types = [*dict.fromkeys(t for q in QUESTIONS for t in (q.answer, q.body) if t is not None), DoorFailure]
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


def _path(question: DoorQuestion) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": question.name,
        "summary": question.about,
        "parameters": [_parameter(parameter) for parameter in question.parameters],
        "responses": {
            "200": {"description": "The answer.", "content": _json_of(question.answer)},
            **{code: {"description": text, "content": _json_of(DoorFailure)} for code, text in _FAILURES.items()},
        },
    }
    if question.body is not None:
        said["requestBody"] = {"required": True, "content": _json_of(question.body)}
    return {question.method.lower(): said}


def _parameter(parameter: DoorParameter) -> dict[str, Any]:
    one: dict[str, Any] = {"type": parameter.kind}
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.about,
        "schema": {"type": "array", "items": one} if parameter.many else one,
    }


def _json_of(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
