"""The table of all questions. The HTTP API, its OpenAPI document, its client, the dashboard and MCP follow from it.

A question has parameters (a Struct), for some a body, an answer (a Struct), and the access that it needs. It is
answered in two parts: ``put`` on the thread that owns the state, ``finish`` on any thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from pumice.answers.jobs import WaitingAnswer
from pumice.answers.queues import FairnessAnswer, Standing
from pumice.answers.service import MOST_ROWS, Answers
from pumice.answers.supposition import WhatIf, read_what_if
from pumice.answers.visibility import Visibility, VisibleNames, seen
from pumice.answers.what_if import WhatIfAnswer
from pumice.answers.when.answer import WhenAnswer
from pumice.answers.when.forecast import TryQuestion, WhenQuestion
from pumice.answers.why import TryAnswer, WhyAnswer
from pumice.errors import InvalidInput, decoder_words
from pumice.model import api, native

R = TypeVar("R")
T = TypeVar("T")
Access: TypeAlias = Literal["job", "namespaces", "queues", "submit", "everything"]
"""``job``: may read jobs in its namespace. ``namespaces``: the answer holds what the caller may read. ``queues``: may
read queues. ``submit``: may create the objects. ``everything``: may read jobs, nodes and queues of the cluster."""
Namespace: TypeAlias = Annotated[str, Meta(description="The job's namespace.")]
JobName: TypeAlias = Annotated[
    str, Meta(description="The name of its PodGroup, of the Job it was made of, or of one of its pods.")
]
When: TypeAlias = Annotated[
    Literal["", "no"],
    Meta(description="no: leave out when it will likely start, which takes the longest to answer."),
]


class AskOwner(Protocol):
    """Puts a question to the thread that owns the state; a `PumiceError` says why there is no answer."""

    def __call__(self, question: Callable[[Answers], T], /, who: str = "") -> Future[T]: ...


class Nothing(msgspec.Struct, frozen=True):
    """No parameters."""


class AboutJob(msgspec.Struct, frozen=True):
    """One job."""

    namespace: Namespace
    job: JobName


class AboutWhy(AboutJob, frozen=True):
    """One job, with or without its start."""

    when: When = ""


class AboutWaiting(msgspec.Struct, frozen=True):
    """Pending jobs."""

    namespace: Annotated[str, Meta(description="Only jobs of this namespace.")] = ""
    queue: Annotated[str, Meta(description="Only jobs of this queue.")] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_ROWS, description="Rows, at most: 1 to 1000, else 100.")] = 100


class AboutQueues(msgspec.Struct, frozen=True):
    """Some queues, or all."""

    queue: Annotated[list[str], Meta(description="The name of a queue.")] = []


class AboutTrial(msgspec.Struct, frozen=True):
    """A job that is not submitted, with or without its start."""

    when: When = ""


class QueuesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How queues stand."""

    queues: list[Standing]


class SubmittedObjects(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is not there yet."""

    objects: list[dict[str, Any]]
    """PodGroups and pods, as for the API server."""


class Asked(NamedTuple):
    """A question as it is put: its parameters, its body, and the namespaces to which an answer is limited."""

    parameters: Any = Nothing()
    body: Any = None
    namespaces: Collection[str] | None = None


def _as_it_is(found: Any) -> Any:
    return found


@dataclass(frozen=True, slots=True)
class Question(Generic[R]):
    """One question."""

    name: str
    about: str
    answer: type[R]
    access: Access
    put: Callable[[Answers, Asked], Any]
    finish: Callable[[Any], R] = _as_it_is
    parameters: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    read_body: Callable[[Any], Any] = _as_it_is

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "GET" if self.body is None else "POST"


def submitted(data: Any) -> list[api.AnyObject]:
    """Return the PodGroups and pods of a body.

    :raises InvalidInput: it holds none, or something else.
    """
    listed = data.get("objects") if isinstance(data, dict) else None
    if not isinstance(listed, list) or not listed:
        raise InvalidInput("needs a field objects: a list of PodGroups and pods")
    found = []
    for number, one in enumerate(listed):
        kind = one.get("kind") if isinstance(one, dict) else None
        if kind not in ("PodGroup", native.POD_GROUP, "Pod"):
            raise InvalidInput(
                f"objects[{number}]: must be a PodGroup or a Pod; `pumice what-if -f` makes them of a Job"
            )
        try:
            found.append(api.decode(kind, one))
        except (InvalidInput, msgspec.MsgspecError) as exc:
            raise InvalidInput(f"objects[{number}]: {decoder_words(exc)}") from exc
    return found


def as_submitted(objects: Sequence[api.AnyObject]) -> SubmittedObjects:
    """Return objects as a body."""
    return SubmittedObjects(objects=[{**msgspec.to_builtins(obj), "kind": obj.kind_name} for obj in objects])


def _why(answers: Answers, asked: Asked) -> WhyAnswer | WhenQuestion:
    about = asked.parameters
    return (answers.why if about.when else answers.when)(about.job, about.namespace)


def _waiting(answers: Answers, asked: Asked) -> WaitingAnswer:
    about = asked.parameters
    namespaces = [about.namespace] if about.namespace else asked.namespaces
    return answers.waiting(about.queue, namespaces, most=about.limit)


def _try(answers: Answers, asked: Asked) -> TryAnswer | TryQuestion:
    return (answers.attempt if asked.parameters.when else answers.attempt_and_wait)(asked.body)


WHY: Final = Question(
    "why",
    "What a job waits for, its place, how its queue stands, what would help.",
    WhyAnswer,
    "job",
    _why,
    lambda found: found if isinstance(found, WhyAnswer) else found.why_and_when(),
    AboutWhy,
)
WHEN: Final = Question(
    "when",
    "When a job will likely start, as a range.",
    WhenAnswer,
    "job",
    lambda answers, asked: answers.when(asked.parameters.job, asked.parameters.namespace),
    WhenQuestion.answer,
    AboutJob,
)
WAITING: Final = Question(
    "waiting",
    "Which jobs wait, the longest first, of the namespaces that the caller may read.",
    WaitingAnswer,
    "namespaces",
    _waiting,
    parameters=AboutWaiting,
)
QUEUES: Final = Question(
    "queues",
    "How queues stand; all of them if none is named.",
    QueuesAnswer,
    "queues",
    lambda answers, asked: QueuesAnswer(queues=answers.standings(asked.parameters.queue or None)),
    parameters=AboutQueues,
)
FAIRNESS: Final = Question(
    "fairness",
    "Which queues are short of their part while others borrow, and which parts are idle.",
    FairnessAnswer,
    "queues",
    lambda answers, _: answers.fairness(),
)
TRY: Final = Question(
    "try",
    "What would become of a job in the next cycle. Nothing is written.",
    TryAnswer,
    "submit",
    _try,
    lambda found: found if isinstance(found, TryAnswer) else found.answer(),
    AboutTrial,
    SubmittedObjects,
    submitted,
)
WHAT_IF: Final = Question(
    "what-if",
    "What would be decided otherwise if queues, nodes or the conf were others. Nothing is written.",
    WhatIfAnswer,
    "everything",
    lambda answers, asked: answers.what_if(asked.body),
    lambda found: found.answer(),
    body=WhatIf,
    read_body=read_what_if,
)
QUESTIONS: Final[tuple[Question[Any], ...]] = (WHY, WHEN, WAITING, QUEUES, FAIRNESS, TRY, WHAT_IF)
api.make_known(*(question.parameters for question in QUESTIONS))


async def answered(ask: AskOwner, question: Question[Any], asked: Asked, sight: Visibility, who: str = "") -> Any:
    """Return an answer as plain data, as much of it as a caller may see.

    :raises PumiceError: there is none; says why.
    """

    def put(answers: Answers) -> tuple[Any, VisibleNames]:
        return question.put(answers, asked), answers.names()

    found, names = await asyncio.wrap_future(ask(put, who=who))
    return seen(await asyncio.to_thread(question.finish, found), sight, names)


API_VERSION: Final = "v1"
"""The version of questions and answers: fields may be added, none is removed or changes its meaning."""


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
        "info": {"title": "Answers of the Pumice scheduler", "version": API_VERSION},
        "security": [{"token": []}],
        "paths": {f"/{API_VERSION}/{question.name}": _path(question) for question in QUESTIONS},
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
