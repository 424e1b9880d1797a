"""Reads an answer in whatever dialect it was given.

As Go does it: the first JSON value counts, unknown fields are ignored, names match without regard to case, the later
of two fields wins, ``null`` and a missing field leave the zero value. A value of the wrong type is an error that names
verb, field and value. Only where the reader must tell them apart (scores, victims) do ``null`` and missing differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from pumice.extender.wire import messages
from pumice.extender.wire.fields import Fields
from pumice.extender.wire.objects import Wire, WireNode, WireTask, WireVictims
from pumice.extender.wire.reading import read_answer
from pumice.extender.wire.verbs import ON_SESSION_CLOSE, ON_SESSION_OPEN, Verb

Req = TypeVar("Req", bound=Wire)
Resp = TypeVar("Resp", bound=Wire)

_UNREAD: Final = frozenset({ON_SESSION_OPEN, ON_SESSION_CLOSE})
UNSCHEDULABLE: Final = 2
UNRESOLVABLE: Final = 3


def decode(verb: Verb[Req, Resp], body: bytes) -> Resp:
    """The answer in *body*. Answers to the session verbs are not looked at.

    :raises WireError: not JSON, larger or deeper than allowed, or a field of the wrong type.
    """
    if verb in _UNREAD:
        return verb.response()
    return decode_value(verb, read_answer(verb.name, body))


def decode_value(verb: Verb[Req, Resp], value: Any) -> Resp:
    """As ``decode``, for an answer that is JSON already."""
    if verb.response is messages.PrioritizeResponse and isinstance(value, list) and value:
        return cast("Resp", messages.PrioritizeResponse(scores=host_priorities(verb.name, value)))
    return cast("Resp", _READERS[verb.response](Fields(verb.name, "answer", value)))


def host_priorities(verb: str, hosts: list[Any]) -> dict[str, float]:
    """The scores of kube-scheduler's HostPriorityList."""
    scores: dict[str, float] = {}
    for index, host in enumerate(hosts):
        entry = Fields(verb, f"answer[{index}]", host)
        scores[entry.text("host")] = entry.integer("score")
    return scores


def _predicate(fields: Fields) -> Wire:
    text = fields.text("errorMessage")
    return messages.PredicateResponse(text=fields.text("status") or text, code=fields.integer("code"))


def _prioritize(fields: Fields) -> Wire:
    return messages.PrioritizeResponse(scores=fields.numbers("nodeScore"), error=fields.text("errorMessage"))


def _victims(fields: Fields) -> Wire:
    status, victims = fields.integer("status"), fields.items("victims")
    if isinstance(victims, list):
        victims = [WireTask(uid=victim.identity("uid")) for victim in fields.objects("victims")]
    return messages.VictimsResponse(status=status, victims=victims)


def _verdict(fields: Fields) -> Wire:
    return messages.VerdictResponse(
        status=fields.boolean("status"), reason=fields.text("reason"), message=fields.text("errorMessage")
    )


def _batch_predicate(fields: Fields) -> Wire:
    errors, codes = fields.texts("errors"), fields.integers("code")
    for name, code in (("failedNodes", UNSCHEDULABLE), ("failedAndUnresolvableNodes", UNRESOLVABLE)):
        failed = fields.texts(name)
        errors, codes = errors | failed, codes | dict.fromkeys(failed, code)
    error = fields.text("error") or fields.text("errorMessage")
    fitting, names_only = _fitting(fields)
    return messages.BatchPredicateResponse(
        errors=errors, codes=codes, fitting=fitting, names_only=names_only, error=error
    )


def _fitting(fields: Fields) -> tuple[list[WireNode] | None, bool]:
    """The nodes that kube-scheduler's ExtenderFilterResult lets pass, if this is one."""
    names = fields.names("nodeNames")
    if names is not None:
        return [WireNode(name=name) for name in names], True
    if not fields.told("nodes"):
        return None, False
    metadata = [node.object("metadata") for node in fields.object("nodes").objects("items")]
    return [WireNode(name=meta.identity("name")) for meta in metadata], False


def _preempt(fields: Fields) -> Wire:
    victims = fields.objects_by_name("nodeNameToMetaVictims")
    return messages.PreemptResponse(candidates={name: meta_victims(one) for name, one in victims.items()})


def meta_victims(fields: Fields) -> WireVictims:
    """Victims that are told by UID only (kube-scheduler's MetaVictims)."""
    return WireVictims(
        tasks=[WireTask(uid=pod.identity("uid")) for pod in fields.objects("pods")],
        pdb_violations=fields.integer("numPDBViolations"),
    )


_READERS: Final[dict[type[Wire], Callable[[Fields], Wire]]] = {
    messages.Acknowledged: lambda fields: messages.Acknowledged(),
    messages.PredicateResponse: _predicate,
    messages.PrioritizeResponse: _prioritize,
    messages.BatchPredicateResponse: _batch_predicate,
    messages.VictimsResponse: _victims,
    messages.VoteResponse: lambda fields: messages.VoteResponse(status=fields.integer("status")),
    messages.VerdictResponse: _verdict,
    messages.OverusedResponse: lambda fields: messages.OverusedResponse(overused=fields.boolean("overused")),
    messages.ErrorResponse: lambda fields: messages.ErrorResponse(
        error=fields.text("errorMessage") or fields.text("error")
    ),
    messages.BestNodeResponse: lambda fields: messages.BestNodeResponse(
        node_name=fields.text("nodeName"), error=fields.text("errorMessage")
    ),
    messages.GpuOrderResponse: lambda fields: messages.GpuOrderResponse(
        scores=fields.numbers("gpuScore") or {}, error=fields.text("errorMessage")
    ),
    messages.OrderResponse: lambda fields: messages.OrderResponse(ranks=fields.numbers("ranks") or {}),
    messages.PreemptResponse: _preempt,
}
