"""The kube dialect: kube-scheduler's extender protocol, v1.

Its four verbs are ``filter`` (here ``batchPredicate``), ``prioritize``, ``preempt`` and ``bind``. kube-scheduler's
structs have no JSON names of their own, so names are written as Go has them (``Pod``, ``NodeNames``); both sides read
without regard to case. Scores are whole numbers, 0 to 10 by convention. See ``dialects.Dialect`` for what the four
functions promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import floor
from typing import Any, Final, TypeVar, cast

import msgspec

from pumice.errors import InvalidInput
from pumice.extender.wire import answers, from_kube, gojson, to_kube
from pumice.extender.wire import messages as m
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.fields import Fields
from pumice.extender.wire.gojson import sorted_map
from pumice.extender.wire.objects import Json, Wire, WireNode, WireTask, WireVictims
from pumice.extender.wire.reading import read, read_answer
from pumice.extender.wire.verbs import BATCH_PREDICATE, BIND, PREEMPT, PRIORITIZE, Verb

Req = TypeVar("Req", bound=Wire)
Resp = TypeVar("Resp", bound=Wire)

name: Final = "kube"
PATHS: Final[dict[str, Verb[Any, Any]]] = {
    "filter": BATCH_PREDICATE,
    "prioritize": PRIORITIZE,
    "preempt": PREEMPT,
    "bind": BIND,
}
"""The verbs under the names that kube-scheduler's documentation gives them."""
verbs: Final[frozenset[Verb[Any, Any]]] = frozenset(PATHS.values())

_ANYTHING: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
UNRESOLVABLE: Final = answers.UNRESOLVABLE


def encode_request(verb: Verb[Req, Resp], request: Req) -> bytes:
    """The body that kube-scheduler would send."""
    _check(verb)
    try:
        return gojson.encode(_WRITE_REQUEST[verb.request](request))
    except InvalidInput as error:
        raise WireError(verb.name, f"request: {error}") from error


def decode_request(verb: Verb[Req, Resp], body: bytes) -> Req:
    """What kube-scheduler asked."""
    _check(verb)
    fields = Fields(verb.name, "request", read(verb.name, "request", body, _ANYTHING))
    try:
        return cast("Req", _READ_REQUEST[verb.request](fields))
    except (InvalidInput, msgspec.ValidationError) as error:
        raise WireError(verb.name, f"request: {error}") from error


def encode_response(verb: Verb[Req, Resp], response: Resp) -> bytes:
    """The body that kube-scheduler reads."""
    _check(verb)
    try:
        return gojson.encode(_WRITE_RESPONSE[verb.response](response))
    except InvalidInput as error:
        raise WireError(verb.name, f"answer: {error}") from error


def decode_response(verb: Verb[Req, Resp], body: bytes) -> Resp:
    """What an extender of kube-scheduler answered: unlike elsewhere, a node that it does not name does not fit."""
    _check(verb)
    value = read_answer(verb.name, body)
    if verb.response is m.PrioritizeResponse and (value is None or isinstance(value, list)):
        return cast("Resp", m.PrioritizeResponse(scores=answers.host_priorities(verb.name, value or [])))
    response = answers.decode_value(verb, value)
    if isinstance(response, m.BatchPredicateResponse) and response.fitting is None:
        return cast("Resp", msgspec.structs.replace(response, fitting=[]))
    return response


def _check(verb: Verb[Any, Any]) -> None:
    if verb not in verbs:
        raise WireError(verb.name, "the kube dialect does not carry this verb")


def _read_task(fields: Fields) -> WireTask:
    pod = fields.raw("pod")
    if pod is None:
        raise InvalidInput("Pod: must be given")
    return from_kube.task_from_pod(pod)


def _read_nodes(fields: Fields) -> m.NodesRequest:
    task, names = _read_task(fields), fields.names("nodeNames")
    if names is not None:
        return m.NodesRequest(task=task, nodes=[WireNode(name=node) for node in names], names_only=True)
    nodes = fields.object("nodes").items("items") or []
    return m.NodesRequest(task=task, nodes=[from_kube.node_from_node(node) for node in nodes])


def _write_nodes(request: m.NodesRequest) -> Json:
    return {"Pod": to_kube.pod_of(request.task), **_nodes(request.nodes, request.names_only)}


def _nodes(nodes: list[WireNode], names_only: bool) -> Json:
    if names_only:
        return {"Nodes": None, "NodeNames": [node.name for node in nodes]}
    return {"Nodes": {"metadata": {}, "items": [to_kube.node_of(node) for node in nodes] or None}, "NodeNames": None}


def _read_preempt(fields: Fields) -> m.PreemptRequest:
    told = fields.objects_by_name("nodeNameToMetaVictims")
    if told:
        candidates = {node: answers.meta_victims(victims) for node, victims in told.items()}
        return m.PreemptRequest(task=_read_task(fields), candidates=candidates, names_only=True)
    whole = fields.objects_by_name("nodeNameToVictims") or fields.objects_by_name("nodeToVictims")  # before v1
    candidates = {
        node: WireVictims(
            tasks=[from_kube.task_from_pod(pod) for pod in victims.items("pods") or ()],
            pdb_violations=victims.integer("numPDBViolations"),
        )
        for node, victims in whole.items()
    }
    return m.PreemptRequest(task=_read_task(fields), candidates=candidates)


def _write_preempt(request: m.PreemptRequest) -> Json:
    pod = to_kube.pod_of(request.task)
    if request.names_only:
        return {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": _meta_victims(request.candidates)}
    victims = {
        node: {
            "Pods": [to_kube.pod_of(task) for task in one.tasks],
            "NumPDBViolations": one.pdb_violations,
        }
        for node, one in request.candidates.items()
    }
    return {"Pod": pod, "NodeNameToVictims": sorted_map(victims), "NodeNameToMetaVictims": None}


def _meta_victims(candidates: Mapping[str, WireVictims]) -> Json:
    return {
        node: {
            "Pods": [{"UID": task.uid} for task in candidates[node].tasks],
            "NumPDBViolations": candidates[node].pdb_violations,
        }
        for node in sorted(candidates)
    }


def _read_bind(fields: Fields) -> m.BindRequest:
    task = WireTask(uid=fields.text("podUID"), namespace=fields.text("podNamespace"), name=fields.identity("podName"))
    return m.BindRequest(task=task, node=WireNode(name=fields.identity("node")))


def _write_bind(request: m.BindRequest) -> Json:
    task = request.task
    return {"PodName": task.name, "PodNamespace": task.namespace, "PodUID": task.uid, "Node": request.node.name}


def _write_filter(response: m.BatchPredicateResponse) -> Json:
    if response.fitting is None and not response.error:
        raise InvalidInput("fitting: must name the nodes that fit; BatchPredicateResponse.to(request, …) does")
    refused = response.errors | {node: f"code {code}" for node, code in response.codes.items() if code}
    reasons = {node: response.errors.get(node) or text for node, text in sorted(refused.items())}
    final = {node for node, code in response.codes.items() if code == UNRESOLVABLE}
    return {
        **_nodes(response.fitting or [], response.names_only),
        "FailedNodes": {node: text for node, text in reasons.items() if node not in final},
        "FailedAndUnresolvableNodes": {node: text for node, text in reasons.items() if node in final},
        "Error": response.error,
    }


def _write_priorities(response: m.PrioritizeResponse) -> list[Json]:
    scores = response.scores if isinstance(response.scores, dict) else {}
    gojson.numbers(scores)  # refuses what is no number
    return [{"Host": node, "Score": floor(scores[node] + 0.5)} for node in sorted(scores)]


_READ_REQUEST: Final[dict[type[Wire], Callable[[Fields], Wire]]] = {
    m.NodesRequest: _read_nodes,
    m.PreemptRequest: _read_preempt,
    m.BindRequest: _read_bind,
}
_WRITE_REQUEST: Final[dict[type[Wire], Callable[[Any], Json]]] = {
    m.NodesRequest: _write_nodes,
    m.PreemptRequest: _write_preempt,
    m.BindRequest: _write_bind,
}
_WRITE_RESPONSE: Final[dict[type[Wire], Callable[[Any], object]]] = {
    m.BatchPredicateResponse: _write_filter,
    m.PrioritizeResponse: _write_priorities,
    m.PreemptResponse: lambda response: {"NodeNameToMetaVictims": _meta_victims(response.candidates)},
    m.ErrorResponse: lambda response: {"Error": response.error},
}
