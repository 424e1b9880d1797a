"""What is answered, free of any dialect, and how an answer is read in whatever dialect it was given.

As Go does it: the first JSON value counts, unknown fields are ignored, names match without regard to case, the later
of two fields wins, ``null`` and a missing field leave the zero value (scores and victims tell them apart).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from pumice.extender.fields import Fields, read_answer
from pumice.extender.gojson import numbers, sorted_map

Json = dict[str, Any]
UNSCHEDULABLE: Final = 2
UNRESOLVABLE: Final = 3


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all answers: compared by content, never changed."""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """The answer in a JSON object.

        :raises WireError: a field of the wrong type.
        """
        return cls()

    def said(self) -> Json:
        """The answer as documented."""
        return {}

    def in_go(self) -> Json:
        """The answer as Volcano reads it, where that differs."""
        return self.said()


class Acknowledged(Answer, frozen=True):
    """Nothing is to be answered."""


class Refusal(Answer, frozen=True, kw_only=True):
    """A reason against the node and a code (0 pass, 1 error, 2 unschedulable, 3 for good, 4 wait, 5 skip)."""

    text: str = ""
    code: int = 0

    @classmethod
    def read(cls, fields: Fields) -> Self:
        text = fields.text("errorMessage")
        return cls(text=fields.text("status") or text, code=fields.integer("code"))

    def said(self) -> Json:
        return {"code": self.code, "errorMessage": self.text}

    def in_go(self) -> Json:
        return {"status": self.text, "code": self.code}


class Scores(Answer, frozen=True, kw_only=True):
    """Scores by node name. ``UNSET``: the field was missing; ``None``: it was null; both differ from an empty table."""

    scores: dict[str, float] | UnsetType | None = UNSET
    error: str = ""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(scores=fields.numbers("nodeScore"), error=fields.text("errorMessage"))

    def said(self) -> Json:
        if self.scores is UNSET:
            return {"errorMessage": self.error}
        return {"nodeScore": numbers(self.scores) if self.scores is not None else None, "errorMessage": self.error}


class Refusals(Answer, frozen=True, kw_only=True):
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
        errors, codes = fields.texts("errors"), fields.integers("code")
        for name, code in (("failedNodes", UNSCHEDULABLE), ("failedAndUnresolvableNodes", UNRESOLVABLE)):
            failed = fields.texts(name)
            errors, codes = errors | failed, codes | dict.fromkeys(failed, code)
        error = fields.text("error") or fields.text("errorMessage")
        fitting = fields.names("nodeNames")
        if fitting is None and fields.told("nodes"):
            metadata = [node.object("metadata") for node in fields.object("nodes").objects("items")]
            fitting = [meta.identity("name") for meta in metadata]
        return cls(errors=errors, codes=codes, fitting=fitting, error=error)

    def said(self) -> Json:
        said: Json = {"errors": sorted_map(self.errors), "code": sorted_map(self.codes)}
        return {**said, "errorMessage": self.error} if self.error else said

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
        victims = fields.items("victims")
        told = [one.identity("uid") for one in fields.objects("victims")] if isinstance(victims, list) else victims
        return cls(status=fields.integer("status"), uids=told)

    def said(self) -> Json:
        if self.uids is UNSET:
            return {"status": self.status}
        return {"status": self.status, "victims": self.uids and [{"uid": uid} for uid in self.uids]}

    def in_go(self) -> Json:
        said = self.said()
        return {**said, "victims": self.echoed} if said.get("victims") else said


class Vote(Answer, frozen=True, kw_only=True):
    """Negative rejects, 0 abstains, positive permits; why, where the service says so."""

    status: int = 0
    message: str = ""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(status=fields.integer("status"), message=fields.text("errorMessage"))

    def said(self) -> Json:
        return _with_message({"status": self.status}, self.message)


class Verdict(Answer, frozen=True, kw_only=True):
    """Yes or no; why not (one word, and a sentence), where the service says so."""

    status: bool = False
    reason: str = ""
    message: str = ""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        said = fields.text("reason"), fields.text("errorMessage")
        return cls(status=fields.boolean("status"), reason=said[0], message=said[1])

    def said(self) -> Json:
        said: Json = {"status": self.status}
        return _with_message({**said, "reason": self.reason} if self.reason else said, self.message)


class Overused(Answer, frozen=True, kw_only=True):
    """Whether the queue is above its share; why, where the service says so."""

    overused: bool = False
    message: str = ""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(overused=fields.boolean("overused"), message=fields.text("errorMessage"))

    def said(self) -> Json:
        return _with_message({"overused": self.overused}, self.message)


class Error(Answer, frozen=True, kw_only=True):
    """What went wrong; empty if nothing did."""

    error: str = ""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(error=fields.text("errorMessage") or fields.text("error"))

    def said(self) -> Json:
        return {"errorMessage": self.error}


class BestNode(Answer, frozen=True, kw_only=True):
    """The chosen node; empty: no opinion."""

    node_name: str = ""
    error: str = ""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(node_name=fields.text("nodeName"), error=fields.text("errorMessage"))

    def said(self) -> Json:
        return {"nodeName": self.node_name, "errorMessage": self.error}


class GpuScores(Answer, frozen=True, kw_only=True):
    """Scores by device index; a device without one is not ordered by this service."""

    scores: dict[str, float] = {}
    error: str = ""

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(scores=fields.numbers("gpuScore") or {}, error=fields.text("errorMessage"))

    def said(self) -> Json:
        return {"gpuScore": numbers(self.scores), "errorMessage": self.error}


class Ranks(Answer, frozen=True, kw_only=True):
    """Ranks by UID (queues: by name), smallest first; who has none, or the same, is not ordered by this service."""

    ranks: dict[str, float] = {}

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(ranks=fields.numbers("ranks") or {})

    def said(self) -> Json:
        return {"ranks": numbers(self.ranks)}


class Candidates(Answer, frozen=True, kw_only=True):
    """The nodes where preemption may go on: UIDs of the victims there, and how many disruption budgets they break."""

    candidates: dict[str, tuple[list[str], int]] = {}

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls(candidates=meta_victims(fields))

    def said(self) -> Json:
        return {"NodeNameToMetaVictims": write_meta_victims(self.candidates)}


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
    return {entry.text("host"): entry.integer("score") for entry in entries}


def meta_victims(fields: Fields) -> dict[str, tuple[list[str], int]]:
    """Victims by node that are told by UID only (kube-scheduler's MetaVictims)."""
    return {
        node: ([pod.identity("uid") for pod in one.objects("pods")], one.integer("numPDBViolations"))
        for node, one in fields.objects_by_name("nodeNameToMetaVictims").items()
    }


def write_meta_victims(candidates: Mapping[str, tuple[list[str], int]]) -> Json:
    """Victims by node as kube-scheduler has them."""
    return {
        node: {"Pods": [{"UID": uid} for uid in candidates[node][0]], "NumPDBViolations": candidates[node][1]}
        for node in sorted(candidates)
    }


def _with_message(said: Json, message: str) -> Json:
    return {**said, "errorMessage": message} if message else said
