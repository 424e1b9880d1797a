"""Filters and scores of nodes in their plain form."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import volcano_amounts as amounts
from volcano_session import Session
from volcano_world import Node, NotModelled, Task, seconds


class Plugin:
    def __init__(self, ssn: Session, arguments: Mapping[str, Any], listed: Mapping[str, Any]) -> None:
        self.ssn, self.arguments, self.listed = ssn, arguments, listed

    def whole(self, name: str, usual: int) -> int:
        found = self.arguments.get(name, usual)
        return found if isinstance(found, int) and not isinstance(found, bool) else usual

    def tasks_seen(self, node: Node) -> list[Task]:
        return [self.ssn.world.tasks[uid] for uid in node.seen]


class Predicates(Plugin):
    def predicate(self, task: Task, node: Node) -> str:
        spec = task.pod["spec"]
        affinity = spec.get("affinity") or {}
        if any(name.startswith("predicate.") for name in self.arguments):
            raise NotModelled("arguments of predicates")
        said = "no" if node.offered.get("pods", 0.0) <= len(node.seen) else ""
        here = node.obj.get("spec") or {}
        taints = list(here.get("taints") or ())
        if here.get("unschedulable") and not tolerated(
            spec, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        ):
            return "never"
        if any(node.labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
            return "never"
        required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        if required and not any(matches(term, node) for term in required.get("nodeSelectorTerms") or ()):
            return "never"
        if any(t["effect"] in ("NoSchedule", "NoExecute") and not tolerated(spec, t) for t in taints):
            return "never"
        taken = {p for other in self.tasks_seen(node) for p in ports(other)}
        return "no" if taken & ports(task) else said


def ports(task: Task) -> set[tuple[str, int]]:
    out = set()
    for container in task.pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                if port.get("hostIP"):
                    raise NotModelled("addresses")
                out.add((port.get("protocol") or "TCP", port["hostPort"]))
    return out


def tolerated(spec: Mapping[str, Any], taint: Mapping[str, Any], effects: tuple[str, ...] = ()) -> bool:
    for one in spec.get("tolerations") or ():
        if one.get("effect") and one["effect"] != taint["effect"]:
            continue
        if one.get("key") and one["key"] != taint["key"]:
            continue
        kind = one.get("operator") or "Equal"
        if kind not in ("Equal", "Exists"):
            raise NotModelled("tolerations")
        if kind == "Exists" or (one.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def matches(term: Mapping[str, Any], node: Node) -> bool:
    if term.get("matchFields") or not term.get("matchExpressions"):
        raise NotModelled("fields")
    for rule in term["matchExpressions"]:
        value, kind, wanted = node.labels.get(rule["key"]), rule["operator"], rule.get("values") or ()
        if kind not in ("In", "NotIn", "Exists", "DoesNotExist"):
            raise NotModelled("operators")
        good = {"In": value in wanted, "NotIn": value not in wanted, "Exists": value is not None}
        if not good.get(kind, value is None):
            return False
    return True


class NodeOrder(Plugin):
    def batch_order(self, task: Task, nodes: Sequence[Node]) -> dict[str, float]:
        out = {node.name: 0.0 for node in nodes}
        for scores, weight in (
            ({n.name: self.least(task, n) for n in nodes}, self.whole("leastrequested.weight", 1)),
            ({n.name: self.most(task, n) for n in nodes}, self.whole("mostrequested.weight", 0)),
            ({n.name: self.balanced(task, n) for n in nodes}, self.whole("balancedresource.weight", 1)),
            (self.near(task, nodes), self.whole("nodeaffinity.weight", 2)),
            (self.untainted(task, nodes), self.whole("tainttoleration.weight", 3)),
        ):
            for name, value in scores.items():
                out[name] += value * weight
        return out

    def asked(self, task: Task, *, usual: bool) -> tuple[int, int]:
        """CPU and memory; *usual*: a container that says nothing counts with something."""
        if not usual:
            return int(task.request["cpu"]), int(task.request["memory"])
        spec = task.pod["spec"]
        if spec.get("initContainers") or spec.get("overhead"):
            raise NotModelled("usual requests of init containers")
        cpu = memory = 0
        for container in spec.get("containers") or ():
            listed = (container.get("resources") or {}).get("requests") or {}
            found = amounts.read(listed)
            cpu += int(found["cpu"]) if "cpu" in listed else 100
            memory += int(found["memory"]) if "memory" in listed else 200 * 2**20
        return cpu, memory

    def after(self, task: Task, node: Node) -> list[tuple[int, int]]:
        sums = [0, 0]
        for one in (*self.tasks_seen(node), task):
            for n, value in enumerate(self.asked(one, usual=True)):
                sums[n] += value
        return [(sums[0], int(node.offered["cpu"])), (sums[1], int(node.offered["memory"]))]

    def least(self, task: Task, node: Node) -> int:
        parts = [(has - want) * 100 // has if 0 < has >= want else 0 for want, has in self.after(task, node)]
        known = [p for p, (_, has) in zip(parts, self.after(task, node), strict=True) if has]
        return sum(known) // len(known) if known else 0

    def most(self, task: Task, node: Node) -> int:
        known = [min(want, has) * 100 // has for want, has in self.after(task, node) if has]
        return sum(known) // len(known) if known else 0

    def balanced(self, task: Task, node: Node) -> int:
        if task.best_effort:
            return 0
        names = ["cpu", "memory", *(["nvidia.com/gpu"] if task.request.get("nvidia.com/gpu") else [])]
        names = [n for n in names if node.offered.get(n)]

        def even(tasks: Sequence[Task]) -> int:
            parts = [min(sum(t.request.get(n, 0.0) for t in tasks) / node.offered[n], 1.0) for n in names]
            if len(parts) < 2:
                return 100
            middle = sum(parts) / len(parts)
            if len(parts) == 2:
                return int((1 - abs(parts[0] - parts[1]) / 2) * 100)
            return int((1 - math.sqrt(sum((p - middle) ** 2 for p in parts) / len(parts))) * 100)

        seen = self.tasks_seen(node)
        return 50 + (50 + even([*seen, task]) - even(seen)) // 2

    def near(self, task: Task, nodes: Sequence[Node]) -> dict[str, float]:
        affinity = (task.pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution")
        if not terms:
            return {}
        raw = {n.name: sum(t["weight"] for t in terms if matches(t["preference"], n)) for n in nodes}
        most = max(raw.values())
        return {name: value * 100 // most if most else value for name, value in raw.items()}

    def untainted(self, task: Task, nodes: Sequence[Node]) -> dict[str, float]:
        raw = {
            n.name: sum(
                t["effect"] == "PreferNoSchedule" and not tolerated(task.pod["spec"], t)
                for t in (n.obj.get("spec") or {}).get("taints") or ()
            )
            for n in nodes
        }
        most = max(raw.values())
        return {name: 100 - (100 * value // most if most else 0) for name, value in raw.items()}


class Binpack(Plugin):
    def node_order(self, task: Task, node: Node) -> float:
        def weight(name: str, usual: int = 1) -> int:
            found = self.whole(name, usual)
            return 1 if found < 0 else found

        factor = weight("binpack.weight")
        weights = {"cpu": weight("binpack.cpu"), "memory": weight("binpack.memory")}
        for name in (n.strip() for n in str(self.arguments.get("binpack.resources") or "").split(",")):
            if name:
                weights[name] = weight(f"binpack.resources.{name}")
        used, score, divisor = self.ssn.world.used(node), 0.0, 0
        for name, asked in task.request.items():
            if asked and name in weights:
                divisor += weights[name]
                has, after = node.offered.get(name, 0.0), asked + used.get(name, 0.0)
                if has and weights[name]:
                    if after > has:
                        return 0.0
                    score += weights[name] * after / has
        return score / divisor * 100 * factor if divisor else 0.0


class ResourceStrategyFit(Plugin):
    def node_order(self, task: Task, node: Node) -> float:
        if "sra" in self.arguments or "proportional" in self.arguments:
            raise NotModelled("parts of resource-strategy-fit")
        given = self.arguments.get("resources") or {
            n: {"type": "LeastAllocated", "weight": 1} for n in ("cpu", "memory")
        }
        strategies = {n: (s.get("type", "LeastAllocated"), s.get("weight", 1)) for n, s in given.items()}
        kind = task.notes.get("volcano.sh/resource-strategy-scoring-type")
        weights = task.notes.get("volcano.sh/resource-strategy-weight")
        if kind and weights:
            strategies = {n: (kind, w) for n, w in json.loads(weights).items()}
        used, score, divisor = self.ssn.world.used(node), 0.0, 0
        for name, asked in task.request.items():
            prefixes = sorted((p for p in strategies if p.endswith("*") and name.startswith(p[:-1])), key=len)
            found = strategies.get(name) or (strategies[prefixes[-1]] if prefixes else None)
            if not asked or found is None:
                continue
            divisor += found[1]
            has, after = node.offered.get(name, 0.0), asked + used.get(name, 0.0)
            if has and found[1]:
                if after > has:
                    return 0.0
                score += found[1] * (after if found[0] == "MostAllocated" else has - after) / has
        weight = self.whole("resourceStrategyFitWeight", 10)
        return score / divisor * 100 * (10 if weight < 0 else weight) if divisor else 0.0


class NodeGroup(Plugin):
    def rules(self, task: Task) -> Mapping[str, Any] | None:
        queues = self.ssn.world.queues
        name = self.ssn.world.jobs[task.job].queue
        if "volcano.sh/nodegroup-resource-limits" in str(queues[name].obj["metadata"]):
            raise NotModelled("limits in groups")
        for _ in range(20):
            found = queues[name].spec.get("affinity") if name in queues else None
            if found is not None or not self.listed.get("enableHierarchy") or name == "root":
                return found
            name = queues[name].spec.get("parent") or "root"
        return None

    def lists(self, rules: Mapping[str, Any]) -> list[list[str]]:
        near, far = rules.get("nodeGroupAffinity") or {}, rules.get("nodeGroupAntiAffinity") or {}
        kinds = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")
        return [of.get(kind) or [] for of in (near, far) for kind in kinds]

    def predicate(self, task: Task, node: Node) -> str:
        rules, group = self.rules(task), node.labels.get("volcano.sh/nodegroup-name")
        if group is None:
            return "" if self.arguments.get("strict", True) in (False, "false") and rules is None else "never"
        if rules is None:
            return "never"
        required, preferred, never, avoided = self.lists(rules)
        return "" if (group in [*required, *preferred] and group not in never) or group in avoided else "never"

    def node_order(self, task: Task, node: Node) -> float:
        rules, group = self.rules(task), node.labels.get("volcano.sh/nodegroup-name")
        if group is None or rules is None:
            return 0.0
        required, preferred, _, avoided = self.lists(rules)
        if group in avoided:
            return -1.0
        score = 100.0 if group in required else 0.0
        if group in preferred:
            ordered = self.arguments.get("enablePreferredOrder", False) in (True, "true")
            score += 50.0 * (len(preferred) - preferred.index(group)) / len(preferred) if ordered else 50.0
        return score


class Usage(Plugin):
    def predicate(self, task: Task, node: Node) -> str:
        limits = self.arguments.get("thresholds") or {}
        found = self.ssn.world.usage.get(node.name)
        if found is None:
            return ""
        over = found.get("cpu", 0) > limits.get("cpu", 80) or found.get("memory", 0) > limits.get("mem", 80)
        return "never" if over else ""

    def node_order(self, task: Task, node: Node) -> float:
        found = self.ssn.world.usage.get(node.name)
        if found is None:
            return 0.0
        parts = [found.get("cpu", 0) / 100, found.get("memory", 0) / 100]
        given = {"request_ratio": 0.7, "burst_ratio": 0, "risk_threshold": 0.6, "risk_factor": 1.2}
        given.update(self.arguments.get("estimator") or {})
        if given["burst_ratio"]:
            raise NotModelled("bursts")
        weights = [max(self.whole("cpu.weight", 1), 0), max(self.whole("memory.weight", 1), 0)]
        if not sum(weights):
            raise NotModelled("no weights")
        size = amounts.read(node.obj["status"].get("capacity") or node.obj["status"]["allocatable"])
        for uid, status in node.tasks.items():
            other = self.ssn.world.tasks[uid]
            young = (
                status == "Running"
                and self.ssn.world.now - seconds((other.pod.get("status") or {}).get("startTime")) < 30
            )
            if status in ("Allocated", "Binding", "Bound", "Pipelined") or young:
                if other.best_effort or any(
                    (c.get("resources") or {}).get("limits") for c in other.pod["spec"]["containers"]
                ):
                    raise NotModelled("limits")
                load = sum(min(p, 1.0) * w for p, w in zip(parts, weights, strict=True)) / sum(weights)
                risk = given["risk_factor"] if load >= given["risk_threshold"] else 1.0
                for n, name in enumerate(("cpu", "memory")):
                    parts[n] += (
                        min(other.request[name] * given["request_ratio"] * risk, other.request[name]) / size[name]
                    )
        free = sum((1 - min(max(p, 0.0), 1.0)) * w for p, w in zip(parts, weights, strict=True)) / sum(weights)
        weight = self.whole("usage.weight", 5)
        return float(free * 100 * (5 if weight < 0 else weight))
