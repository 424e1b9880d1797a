"""The kube dialect: kube-scheduler's extender protocol, v1.

Its four verbs are ``filter`` (here ``batchPredicate``), ``prioritize``, ``preempt`` and ``bind``. kube-scheduler's
structs have no JSON names of their own, so names are written as Go has them (``Pod``, ``NodeNames``); both sides read
without regard to case. Scores are whole numbers, 0 to 10 by convention.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any, ClassVar, Final, TypeVar, cast

import msgspec

from pumice.errors import InvalidInput, decoder_words
from pumice.extender import answers as a
from pumice.extender import gojson
from pumice.extender.answers import Answer, Json
from pumice.extender.dialects.dialect import Dialect, Encoded, Known, Message, Part, Written, decoder
from pumice.extender.dialects.messages import DEFAULT_NAMESPACE, NodeMessage, TaskMessage
from pumice.extender.dialects.volcano import pod_of
from pumice.extender.gojson import Fields, WireError, read_answer
from pumice.extender.protocol import BIND, KUBE_PATHS, PREEMPT, PartKind, Verb
from pumice.model import api
from pumice.model.intents import Bind
from pumice.model.node import Node
from pumice.model.task import Task
from pumice.state.pods import pod_status

A = TypeVar("A", bound=Answer)
_Named = tuple[list[TaskMessage], int]
"""Victims, and how many disruption budgets they break."""
_NULL: Final = msgspec.Raw(b"null")
_NAMES: Final[msgspec.json.Decoder[list[str] | None]] = msgspec.json.Decoder(list[str] | None)


class _Nodes(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Victims(msgspec.Struct):
    """Pods in any spelling of the field."""

    Pods: list[msgspec.Raw] | None = None
    pods: list[msgspec.Raw] | None = None
    NumPDBViolations: int = 0
    numPDBViolations: int = 0  # noqa: N815


class Kube(Dialect):
    """The messages between kube-scheduler and an extender."""

    name: ClassVar[str] = "kube"
    carries: ClassVar[frozenset[str]] = frozenset(verb.name for verb in KUBE_PATHS.values())
    shapes: ClassVar[dict[PartKind, Any]] = {PartKind.TASK: api.Pod, PartKind.NODE: api.NodeObject}

    # -- questions ------------------------------------------------------------------------------------------------
    def task(self, task: Task) -> api.Pod:
        return pod_of(task)

    def node_form(self, node: Node) -> api.NodeObject:
        return node.object

    def ledgers(self, node: Node) -> Json:
        return {}

    def node(self, node: Node, written: Written) -> api.NodeObject:
        return node.object

    def named_node(self, name: str) -> str:
        return name

    def question(self, verb: Verb[Any], parts: Sequence[Part], *, names_only: bool = False) -> list[bytes]:
        pod, nodes = cast("bytes", parts[0]), cast("Sequence[bytes]", parts[1])
        items = (b"[", *nodes, b"]") if nodes else (b"[]" if names_only else b"null",)
        if names_only:
            return [b'{"Pod":', pod, b',"Nodes":null,"NodeNames":', *items, b"}"]
        return [b'{"Pod":', pod, b',"Nodes":{"metadata":{},"items":', *items, b'},"NodeNames":null}']

    def bind(self, verb: Verb[Any], intent: Bind, task: bytes | None) -> bytes:
        namespace, _, name = intent.pod.rpartition("/")
        said = {"PodName": name, "PodNamespace": namespace, "PodUID": intent.uid, "Node": intent.node}
        return gojson.encode(said)

    def preempt(self, evictor: Task, evictees: Sequence[Task], *, names_only: bool) -> bytes:
        """Report whether there is an objection to these victims, node by node."""
        by_node: dict[str, list[Task]] = {}
        for task in evictees:
            by_node.setdefault(task.node_name, []).append(task)
        if names_only:
            meta = a.write_meta_victims({node: ([t.uid for t in tasks], 0) for node, tasks in by_node.items()})
            whole = None
        else:
            meta = None
            whole = {
                node: {"Pods": [pod_of(task) for task in by_node[node]], "NumPDBViolations": 0}
                for node in sorted(by_node)
            }
        said = {"Pod": pod_of(evictor), "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta}
        return gojson.encode(said)

    def read(self, verb: Verb[Any], message: Message, known: Known) -> dict[str, Any]:
        self._carried(verb)
        fields = {name.casefold(): raw for name, raw in message.items()}
        try:
            if verb is BIND:
                return _bind(
                    Fields(verb.name, "request", {name: msgspec.json.decode(raw) for name, raw in fields.items()})
                )
            pod = fields.get("pod")
            if pod is None or bytes(pod) == b"null":
                raise InvalidInput("Pod: must be given")
            task = known(self, PartKind.TASK, pod)
            if verb is PREEMPT:
                return {"task": task, "candidates": self._candidates(verb, fields, known)}
            names = _NAMES.decode(fields.get("nodenames", _NULL))
            if names is not None:
                return {"task": task, "nodes": [NodeMessage(Name=name) for name in names]}
            return {"task": task, "nodes": [known(self, PartKind.NODE, item) for item in _items(fields)]}
        except (InvalidInput, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise WireError(verb.name, f"request: {decoder_words(error)}") from error

    def echo(self, verb: Verb[Any], message: Message) -> list[msgspec.Raw] | None:
        """The nodes of a question as they came, if they came whole: kube-scheduler wants those that fit back."""
        fields = {name.casefold(): raw for name, raw in message.items()}
        return None if _NAMES.decode(fields.get("nodenames", _NULL)) is not None else _items(fields)

    def _candidates(self, verb: Verb[Any], fields: Message, known: Known) -> dict[str, tuple[list[TaskMessage], int]]:
        """Victims by node, told by UID only or whole."""
        told = fields.get("nodenametometavictims")
        meta = a.meta_victims(
            Fields(verb.name, "request", {"nodeNameToMetaVictims": msgspec.json.decode(told) if told else None})
        )
        if meta:
            return {node: ([TaskMessage(UID=uid) for uid in uids], broken) for node, (uids, broken) in meta.items()}
        raw = fields.get("nodenametovictims") or fields.get("nodetovictims")  # before v1
        whole: dict[str, _Victims] = decoder(dict[str, _Victims] | None).decode(raw or b"null") or {}
        return {
            node: (
                [known(self, PartKind.TASK, pod) for pod in one.Pods or one.pods or ()],
                one.NumPDBViolations or one.numPDBViolations,
            )
            for node, one in whole.items()
        }

    def read_object(self, kind: PartKind, raw: Encoded) -> Any:
        """A pod or a node, as Volcano would tell of it; what is taken on a node is not told."""
        thing = decoder(self.shapes[kind]).decode(raw)
        if isinstance(thing, api.NodeObject):
            return NodeMessage(Name=thing.metadata.name, Node=thing)
        pod = api.with_namespace(thing, DEFAULT_NAMESPACE)
        meta, spec = pod.metadata, pod.spec
        names = {"UID": meta.uid, "Name": meta.name, "Namespace": meta.namespace}
        priority = 1 if spec.priority is None else spec.priority
        status = pod_status(pod).bit
        return TaskMessage(**names, Pod=pod, Status=status, NodeName=spec.node_name, Priority=priority)

    # -- answers --------------------------------------------------------------------------------------------------
    def _said(self, answer: Answer) -> object:
        match answer:
            case a.NodeRefusals():
                return _filtered(answer)
            case a.Scores():
                scores = answer.scores if isinstance(answer.scores, dict) else {}
                gojson.numbers(scores)  # refuses what is no number
                return [{"Host": node, "Score": floor(scores[node] + 0.5)} for node in sorted(scores)]
            case a.Error():
                return {"Error": answer.error}
            case _:
                return answer.said()

    def read_answer(self, verb: Verb[A], body: bytes) -> A:
        """As elsewhere, but a node that the answer does not name does not fit, and no scores are an answer."""
        self._carried(verb)
        value = read_answer(verb.name, body)
        if issubclass(verb.answer, a.Scores) and (value is None or isinstance(value, list)):
            return verb.answer(scores=a.host_priorities(verb.name, value or []))
        answer = a.of_value(verb.name, verb.answer, value)
        if isinstance(answer, a.NodeRefusals) and answer.fitting is None:
            return cast("A", msgspec.structs.replace(answer, fitting=[]))
        return answer


def _items(fields: Message) -> list[msgspec.Raw]:
    """Whole nodes, as they came."""
    nodes: _Nodes | None = decoder(_Nodes | None).decode(fields.get("nodes", _NULL))
    return (nodes.items if nodes is not None else None) or []


def _bind(fields: Fields) -> dict[str, Any]:
    pod, namespace, uid = fields.identity("podName"), fields.get("podNamespace", str), fields.get("podUID", str)
    return {
        "task": TaskMessage(UID=uid, Name=pod, Namespace=namespace),
        "node": NodeMessage(Name=fields.identity("node")),
    }


def _filtered(answer: a.NodeRefusals) -> Json:
    if answer.fitting is None and not answer.error:
        raise InvalidInput("fitting: must name the nodes that fit")
    refused = answer.errors | {node: f"code {code}" for node, code in answer.codes.items() if code}
    reasons = {node: answer.errors.get(node) or text for node, text in sorted(refused.items())}
    final = {node for node, code in answer.codes.items() if code == a.UNRESOLVABLE}
    whole = answer.echoed is not None
    return {
        "Nodes": {"metadata": {}, "items": answer.echoed or None} if whole else None,
        "NodeNames": None if whole else answer.fitting or [],
        "FailedNodes": {node: text for node, text in reasons.items() if node not in final},
        "FailedAndUnresolvableNodes": {node: text for node, text in reasons.items() if node in final},
        "Error": answer.error,
    }
