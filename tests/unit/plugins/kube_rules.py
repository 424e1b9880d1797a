"""Kubernetes' scheduling rules written out slowly, one pod and one node at a time, over plain manifests.

Filters and scores of the project are compared with these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Place:
    """A node and the pods that count on it."""

    node: Json
    pods: list[Json] = field(default_factory=list)
    leaving: list[Json] = field(default_factory=list)
    """Those among the pods that are terminating."""

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node["metadata"].get("labels") or {}


# -- selectors ------------------------------------------------------------------------------------------------------
def line_matches(line: Json, labels: Mapping[str, str]) -> bool:
    have, values = labels.get(line["key"]), line.get("values") or []
    match line["operator"]:
        case "In":
            return have in values
        case "NotIn":
            return have not in values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt":
            return have is not None and have.isdigit() and int(have) > int(values[0])
        case "Lt":
            return have is not None and have.isdigit() and int(have) < int(values[0])
    raise AssertionError(line)


def labels_match(selector: Json | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    return all(labels.get(k) == v for k, v in (selector.get("matchLabels") or {}).items()) and all(
        line_matches(line, labels) for line in selector.get("matchExpressions") or ()
    )


def node_term_matches(term: Json, place: Place) -> bool:
    lines, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not lines and not fields:
        return False
    return all(line_matches(x, place.labels) for x in lines) and all(
        line_matches(x, {"metadata.name": place.name}) for x in fields
    )


def node_selected(pod: Json, place: Place) -> bool:
    spec = pod["spec"]
    if any(place.labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    required = _affinity(pod, "nodeAffinity", "required")
    if required is None:
        return True
    return any(node_term_matches(t, place) for t in required["nodeSelectorTerms"])


def _affinity(pod: Json, kind: str, when: str) -> Any:
    rules = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return rules.get(f"{when}DuringSchedulingIgnoredDuringExecution")


def pod_selected(owner: Json, term: Json, other: Json) -> bool:
    names = term.get("namespaces") or []
    everywhere = term.get("namespaceSelector") == {}
    if not names and term.get("namespaceSelector") is None:
        names = [owner["metadata"]["namespace"]]
    here = everywhere or other["metadata"]["namespace"] in names
    return here and labels_match(term.get("labelSelector"), other["metadata"].get("labels") or {})


# -- taints ---------------------------------------------------------------------------------------------------------
def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def untolerated(pod: Json, place: Place) -> Json | None:
    for taint in place.node["spec"].get("taints") or ():
        if taint["effect"] in ("NoSchedule", "NoExecute") and not any(
            tolerates(t, taint) for t in pod["spec"].get("tolerations") or ()
        ):
            return dict(taint)
    return None


# -- filters --------------------------------------------------------------------------------------------------------
def pod_number(pod: Json, place: Place, places: Sequence[Place]) -> str | None:
    most = int(place.node["status"]["allocatable"].get("pods", 0))
    return "node(s) pod number exceeded" if most <= len(place.pods) else None


def cordoned(pod: Json, place: Place, places: Sequence[Place]) -> str | None:
    if not place.node["spec"].get("unschedulable"):
        return None
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if any(tolerates(t, taint) for t in pod["spec"].get("tolerations") or ()):
        return None
    return "node(s) were unschedulable"


def node_affinity(pod: Json, place: Place, places: Sequence[Place]) -> str | None:
    return None if node_selected(pod, place) else "node(s) didn't match Pod's node affinity/selector"


def taints(pod: Json, place: Place, places: Sequence[Place]) -> str | None:
    taint = untolerated(pod, place)
    return None if taint is None else f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"


def _ports(pod: Json) -> list[tuple[int, str, str]]:
    return [
        (p["hostPort"], p.get("protocol", "TCP"), p.get("hostIP") or "0.0.0.0")
        for c in pod["spec"]["containers"]
        for p in c.get("ports") or ()
        if p.get("hostPort")
    ]


def host_ports(pod: Json, place: Place, places: Sequence[Place]) -> str | None:
    for other in place.pods:
        for number, protocol, address in _ports(other):
            for own in _ports(pod):
                if own[:2] == (number, protocol) and (own[2] == address or "0.0.0.0" in (own[2], address)):
                    return "node(s) didn't have free ports for the requested pod ports"
    return None


def _near(key: str, place: Place, places: Sequence[Place]) -> list[Json]:
    """The pods in the domain of a node; none where the node has no such label."""
    value = place.labels.get(key)
    return [p for other in places if value is not None and other.labels.get(key) == value for p in other.pods]


def pod_affinity(pod: Json, place: Place, places: Sequence[Place]) -> str | None:
    wanted = _affinity(pod, "podAffinity", "required") or []
    chosen = [p for other in places for p in other.pods if all(pod_selected(pod, t, p) for t in wanted)]
    counted = [
        p
        for other in places
        for p in other.pods
        if all(pod_selected(pod, t, p) for t in wanted) and any(t["topologyKey"] in other.labels for t in wanted)
    ]
    first = not counted and all(pod_selected(pod, t, pod) for t in wanted)
    for term in wanted:
        key = term["topologyKey"]
        if key not in place.labels:
            return "node(s) didn't match pod affinity rules"
        if not first and not any(p is q for p in chosen for q in _near(key, place, places)):
            return "node(s) didn't match pod affinity rules"
    for term in _affinity(pod, "podAntiAffinity", "required") or []:
        if any(pod_selected(pod, term, p) for p in _near(term["topologyKey"], place, places)):
            return "node(s) didn't match pod anti-affinity rules"
    for other in places:
        for resident in other.pods:
            for term in _affinity(resident, "podAntiAffinity", "required") or []:
                key = term["topologyKey"]
                same = key in place.labels and place.labels[key] == other.labels.get(key)
                if same and pod_selected(resident, term, pod):
                    return "node(s) didn't satisfy existing pods anti-affinity rules"
    return None


def _constraints(pod: Json, when: str) -> list[Json]:
    out = []
    labels = pod["metadata"].get("labels") or {}
    for c in pod["spec"].get("topologySpreadConstraints") or ():
        if c["whenUnsatisfiable"] == when:
            selector = c.get("labelSelector")
            own = {k: labels[k] for k in c.get("matchLabelKeys") or () if k in labels}
            if selector is not None and own:
                lines = [{"key": k, "operator": "In", "values": [v]} for k, v in own.items()]
                selector = {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *lines]}
            out.append({**c, "labelSelector": selector})
    return out


def _takes_part(pod: Json, constraint: Json, together: Sequence[Json], place: Place) -> bool:
    if any(c["topologyKey"] not in place.labels for c in together):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not node_selected(pod, place):
        return False
    return not (constraint.get("nodeTaintsPolicy") == "Honor" and untolerated(pod, place) is not None)


def _counted(pod: Json, constraint: Json, place: Place) -> int:
    return sum(
        1
        for p in place.pods
        if not any(p is gone for gone in place.leaving)
        and p["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and labels_match(constraint["labelSelector"], p["metadata"].get("labels") or {})
    )


def _domains(pod: Json, c: Json, together: Sequence[Json], places: Sequence[Place]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for place in places:
        if _takes_part(pod, c, together, place):
            value = place.labels[c["topologyKey"]]
            counts[value] = counts.get(value, 0) + _counted(pod, c, place)
    return counts


def hard_spread(pod: Json, place: Place, places: Sequence[Place]) -> str | None:
    together = _constraints(pod, "DoNotSchedule")
    for c in together:
        value = place.labels.get(c["topologyKey"])
        if value is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        counts = _domains(pod, c, together, places)
        least = min(counts.values(), default=0) if len(counts) >= (c.get("minDomains") or 1) else 0
        own = labels_match(c["labelSelector"], pod["metadata"].get("labels") or {})
        if counts.get(value, 0) + own - least > c["maxSkew"]:
            return "node(s) didn't match pod topology spread constraints"
    return None


FILTERS: list[Callable[[Json, Place, Sequence[Place]], str | None]] = [
    *(pod_number, cordoned, node_affinity, taints, host_ports, pod_affinity, hard_spread)
]


def objection(pod: Json, place: Place, places: Sequence[Place]) -> str | None:
    """The first objection to a pod on a node, in the order in which the filters are asked."""
    return next((text for f in FILTERS if (text := f(pod, place, places)) is not None), None)


# -- scores ---------------------------------------------------------------------------------------------------------
def milli(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def mebi(text: str) -> int:
    return int(text[:-2]) * 2**20


def asked(pod: Json, assumed: bool) -> tuple[int, int]:
    """(milli cpu, bytes) of a pod, with defaults for containers that ask for none if *assumed*."""
    cpu = memory = 0
    for container in pod["spec"]["containers"]:
        requests = container.get("resources", {}).get("requests", {})
        cpu += milli(requests["cpu"]) if "cpu" in requests else 100 * assumed
        memory += mebi(requests["memory"]) if "memory" in requests else 200 * 2**20 * assumed
    return cpu, memory


def _after(pod: Json, place: Place, assumed: bool) -> tuple[list[int], list[int], list[int]]:
    """(before, after, offered) of cpu and memory."""
    offered = [milli(place.node["status"]["allocatable"]["cpu"]), mebi(place.node["status"]["allocatable"]["memory"])]
    before = [sum(asked(p, assumed)[i] for p in place.pods) for i in (0, 1)]
    return before, [b + a for b, a in zip(before, asked(pod, assumed), strict=True)], offered


def least_requested(pod: Json, place: Place) -> int:
    _, after, offered = _after(pod, place, True)
    return sum(max(o - a, 0) * 100 // o for a, o in zip(after, offered, strict=True)) // 2


def most_requested(pod: Json, place: Place) -> int:
    _, after, offered = _after(pod, place, True)
    return sum(min(a, o) * 100 // o for a, o in zip(after, offered, strict=True)) // 2


def balanced(pod: Json, place: Place) -> int:
    if not any(asked(pod, False)):
        return 0

    def evenness(used: list[int]) -> int:
        first, second = (min(u / o, 1.0) for u, o in zip(used, offered, strict=True))
        return int((1 - abs((first - second) / 2)) * 100)

    before, after, offered = _after(pod, place, False)
    return 50 + (50 + evenness(after) - evenness(before)) // 2


def avoided(pod: Json, places: Sequence[Place]) -> list[int]:
    soft = [t for t in pod["spec"].get("tolerations") or () if t.get("effect", "") in ("", "PreferNoSchedule")]
    raw = [
        sum(
            1
            for taint in p.node["spec"].get("taints") or ()
            if taint["effect"] == "PreferNoSchedule" and not any(tolerates(t, taint) for t in soft)
        )
        for p in places
    ]
    return [100 if not max(raw) else 100 - 100 * r // max(raw) for r in raw]


def preferred_nodes(pod: Json, places: Sequence[Place]) -> list[int]:
    terms = _affinity(pod, "nodeAffinity", "preferred") or []
    raw = [sum(t["weight"] for t in terms if node_term_matches(t["preference"], p)) for p in places]
    return [100 * r // max(raw) if max(raw) else 0 for r in raw]


def preferred_company(pod: Json, places: Sequence[Place]) -> list[int]:
    def near(key: str, one: Place, other: Place) -> bool:
        return key in one.labels and one.labels[key] == other.labels.get(key)

    raw = []
    for place in places:
        total = 0
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for other in places:
                for resident in other.pods:
                    for weighted in _affinity(pod, kind, "preferred") or []:
                        term = weighted["podAffinityTerm"]
                        if near(term["topologyKey"], place, other) and pod_selected(pod, term, resident):
                            total += sign * weighted["weight"]
                    for weighted in _affinity(resident, kind, "preferred") or []:
                        term = weighted["podAffinityTerm"]
                        if near(term["topologyKey"], place, other) and pod_selected(resident, term, pod):
                            total += sign * weighted["weight"]
        raw.append(total)
    width = max(raw) - min(raw)
    return [int(100 * ((r - min(raw)) / width)) if width else 0 for r in raw]


def soft_spread(pod: Json, places: Sequence[Place]) -> list[int]:
    together = _constraints(pod, "ScheduleAnyway")
    if not together:
        return [0] * len(places)
    raw: list[int | None] = []
    whole = [p for p in places if all(c["topologyKey"] in p.labels for c in together)]
    for place in places:
        if all(place is not p for p in whole):
            raw.append(None)
            continue
        total = 0.0
        for c in together:
            key = c["topologyKey"]
            if key == "kubernetes.io/hostname":
                count, domains = _counted(pod, c, place), len(whole)
            else:
                count = _domains(pod, c, together, places).get(place.labels[key], 0)
                domains = len({p.labels[key] for p in whole})
            total += count * math.log(domains + 2) + (c["maxSkew"] - 1)
        raw.append(math.floor(total + 0.5))
    known = [r for r in raw if r is not None]
    if not known:
        return [0] * len(places)
    most, least = max(known), min(known)
    return [0 if r is None else 100 if not most else 100 * (most + least - r) // most for r in raw]


def binpack(pod: Json, place: Place, weights: Mapping[str, int], weight: int) -> float:
    _, after, offered = _after(pod, place, False)
    total, divisor = 0.0, 0
    for name, own, a, o in zip(("cpu", "memory"), asked(pod, False), after, offered, strict=True):
        if not own:
            continue
        divisor += weights[name]
        if weights[name]:
            if a > o:
                return 0.0
            total += a * weights[name] / o
    return total / divisor * (100 * weight) if divisor else 0.0
