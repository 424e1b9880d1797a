"""Answers without a dialect, and how an answer is read in each dialect.

As Go does it: the first JSON value counts, unknown fields are ignored, names match without regard to case, the later
of two fields wins, ``null`` and a missing field leave the zero value (scores and victims tell them apart).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Final, Self, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from pumice.extender.gojson import Fields, numbers, read_answer, sorted_map

Json = dict[str, Any]
Numbers = dict[str, float]
MaybeNumbers = Numbers | UnsetType | None
Why = Annotated[str, Meta(description="left out where it is empty")]
"""A text that need not be there."""
UNSCHEDULABLE: Final = 2
UNRESOLVABLE: Final = 3


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all answers: compared by content, never changed. On the wire fields have the names that they declare."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """The answer in a JSON object.

        :raises WireError: a field of the wrong type.
        """
        told = {
            one.name: fields.told(one.encode_name, Numbers)
            if one.type == MaybeNumbers
            else fields.get(one.encode_name, one.type)
            for one in fields_of(cls)
        }
        return cls(**told)

    def said(self) -> Json:
        """The answer as documented."""
        said = {one.encode_name: (getattr(self, one.name), one.type) for one in fields_of(type(self))}
        return {
            name: numbers(value) if isinstance(value, dict) else value
            for name, (value, kind) in said.items()
            if value is not UNSET and (value or kind is not Why)
        }

    def in_go(self) -> Json:
        """The answer as Volcano reads it, where that differs."""
        return self.said()

    @property
    def problem(self) -> str:
        """Why it is no answer though it came, or nothing."""
        said: str = getattr(self, "error", "")
        return said

    def named(self) -> Collection[str]:
        """The objects that it names, or their UIDs; only objects of the question should be there."""
        return ()


@cache
def fields_of(answer: type[Answer]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The parts of an answer; finding them takes as long as reading one of a thousand scores."""
    return msgspec.structs.fields(answer)


class Acknowledged(Answer, frozen=True):
    """Nothing is to be answered."""


class NodeRefusal(Answer, frozen=True, kw_only=True):
    """A code (0 pass, 1 error, 2 unschedulable, 3 for good, 4 wait, 5 skip) and a reason against the node."""

    code: int = 0
    text: str = field(default="", name="errorMessage")

    @classmethod
    def read(cls, fields: Fields) -> Self:
        text = fields.get("errorMessage", str)
        return cls(text=fields.get("status", str) or text, code=fields.get("code", int))

    def in_go(self) -> Json:
        return {"status": self.text, "code": self.code}


class Scores(Answer, frozen=True, kw_only=True):
    """Scores by node name. ``UNSET``: the field was missing; ``None``: it was null; both differ from an empty table."""

    scores: MaybeNumbers = field(default=UNSET, name="nodeScore")
    error: str = field(default="", name="errorMessage")

    @property
    def problem(self) -> str:
        return self.error or ("" if isinstance(self.scores, dict) else "the answer has no nodeScore")

    def named(self) -> Collection[str]:
        return self.scores or ()


class NodeRefusals(Answer, frozen=True, kw_only=True):
    """Reasons and codes by node name; a node that is not named fits, unless ``fitting`` says otherwise."""

    errors: dict[str, str] = {}
    codes: dict[str, int] = {}
    fitting: list[str] | None = None
    """The nodes that fit. ``None``: all that are not named above. The kube dialect cannot be written without it."""
    echoed: list[msgspec.Raw] | None = None
    """The nodes that fit as they came, where kube-scheduler sent whole nodes; it wants them back."""
    error: str = ""
    """Nothing could be decided at all."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        errors, codes = fields.get("errors", dict[str, str]), fields.get("code", dict[str, int])
        for name, code in (("failedNodes", UNSCHEDULABLE), ("failedAndUnresolvableNodes", UNRESOLVABLE)):
            failed = fields.get(name, dict[str, str])
            errors, codes = errors | failed, codes | dict.fromkeys(failed, code)
        error = fields.get("error", str) or fields.get("errorMessage", str)
        named, nodes = fields.told("nodeNames", list[str]), fields.told("nodes", Fields)
        fitting = named if isinstance(named, list) else None
        if fitting is None and nodes:
            fitting = [one.get("metadata", Fields).identity("name") for one in nodes.get("items", list[Fields])]
        return cls(errors=errors, codes=codes, fitting=fitting, error=error)

    def said(self) -> Json:
        said: Json = {"errors": sorted_map(self.errors), "code": sorted_map(self.codes)}
        return {**said, "errorMessage": self.error} if self.error else said

    def named(self) -> Collection[str]:
        return self.errors.keys() | self.codes.keys()

    def refused(self, names: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Code and reason for each node of *names* that does not fit. A reason without a code has code 1 (error)."""
        fitting = None if self.fitting is None else set(self.fitting)
        found = {}
        for name in names:
            text, code = self.errors.get(name, ""), self.codes.get(name, 0)
            if text or code:
                found[name] = (code or 1, text or f"refused with code {code}")
            elif fitting is not None and name not in fitting:
                found[name] = (UNSCHEDULABLE, "not among the nodes that fit")
        return found


class Victims(Answer, frozen=True, kw_only=True):
    """A vote (0 abstains; not read at victimTasks) and the victims by UID (``UNSET``: missing; ``None``: null)."""

    status: int = 0
    uids: list[str] | UnsetType | None = UNSET
    echoed: list[msgspec.Raw] = []
    """The victims as they came: Volcano evicts what it reads here."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        told = fields.told("victims", list[Fields])
        uids = [one.identity("uid") for one in told] if isinstance(told, list) else told
        return cls(status=fields.get("status", int), uids=uids)

    def said(self) -> Json:
        if self.uids is UNSET:
            return {"status": self.status}
        return {"status": self.status, "victims": self.uids and [{"uid": uid} for uid in self.uids]}

    def in_go(self) -> Json:
        said = self.said()
        return {**said, "victims": self.echoed} if said.get("victims") else said

    def named(self) -> Collection[str]:
        return self.uids or ()


class Vote(Answer, frozen=True, kw_only=True):
    """Negative rejects, 0 abstains, positive permits; why, where the service says so."""

    status: int = 0
    message: Why = field(default="", name="errorMessage")


class VerdictAnswer(Answer, frozen=True, kw_only=True):
    """Yes or no; why not (one word, and a sentence), where the service says so."""

    status: bool = False
    reason: Why = ""
    message: Why = field(default="", name="errorMessage")


class Overused(Answer, frozen=True, kw_only=True):
    """Whether the queue is above its share; why, where the service says so."""

    overused: bool = False
    message: Why = field(default="", name="errorMessage")


class Error(Answer, frozen=True, kw_only=True):
    """The error; empty without one."""

    error: str = field(default="", name="errorMessage")

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(error=fields.get("errorMessage", str) or fields.get("error", str))

    @property
    def problem(self) -> str:
        return ""  # it is an answer: no


class BestNode(Answer, frozen=True, kw_only=True):
    """The chosen node; empty: no opinion."""

    node_name: str = field(default="", name="nodeName")
    error: str = field(default="", name="errorMessage")

    def named(self) -> Collection[str]:
        return [self.node_name] if self.node_name else ()


class GpuScores(Answer, frozen=True, kw_only=True):
    """Scores by device index; a device without one is not ordered by this service."""

    scores: Numbers = field(default_factory=dict, name="gpuScore")
    error: str = field(default="", name="errorMessage")


class Ranks(Answer, frozen=True, kw_only=True):
    """Ranks by UID (queues: by name), smallest first; who has none, or the same, is not ordered by this service."""

    ranks: Numbers = {}

    def named(self) -> Collection[str]:
        return self.ranks


class Candidates(Answer, frozen=True, kw_only=True):
    """The nodes where preemption may go on: UIDs of the victims there, and how many disruption budgets they break."""

    candidates: dict[str, tuple[list[str], int]] = {}

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(candidates=meta_victims(fields))

    def said(self) -> Json:
        return {"NodeNameToMetaVictims": write_meta_victims(self.candidates)}

    def named(self) -> Collection[str]:
        return [uid for uids, _ in self.candidates.values() for uid in uids]


A = TypeVar("A", bound=Answer)


def decode(verb: str, answer: type[A], body: bytes) -> A:
    """The answer to *verb* in *body*.

    :raises WireError: not JSON, larger or deeper than allowed, or a field of the wrong type.
    """
    return of_value(verb, answer, read_answer(verb, body))


def of_value(verb: str, answer: type[A], value: Any) -> A:
    """As ``decode``, for an answer that is JSON already."""
    if issubclass(answer, Scores) and isinstance(value, list) and value:
        return answer(scores=host_priorities(verb, value))
    return answer.read(Fields(verb, "answer", value))


def host_priorities(verb: str, hosts: list[Any]) -> dict[str, float]:
    """The scores of kube-scheduler's HostPriorityList."""
    entries = (Fields(verb, f"answer[{at}]", host) for at, host in enumerate(hosts))
    return {entry.get("host", str): entry.get("score", int) for entry in entries}


def meta_victims(fields: Fields) -> dict[str, tuple[list[str], int]]:
    """Victims by node that are told by UID only (kube-scheduler's MetaVictims)."""
    return {
        node: ([pod.identity("uid") for pod in one.get("pods", list[Fields])], one.get("numPDBViolations", int))
        for node, one in fields.get("nodeNameToMetaVictims", dict[str, Fields]).items()
    }


def write_meta_victims(candidates: Mapping[str, tuple[list[str], int]]) -> Json:
    """Victims by node as kube-scheduler has them."""
    return {
        node: {"Pods": [{"UID": uid} for uid in candidates[node][0]], "NumPDBViolations": candidates[node][1]}
        for node in sorted(candidates)
    }
