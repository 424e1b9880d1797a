"""Plugins in their plain form: orders, vetoes and victims."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import volcano_amounts as amounts
from volcano_amounts import Amounts
from volcano_capacity import Capacity
from volcano_nodes import Binpack, NodeGroup, NodeOrder, Predicates, ResourceStrategyFit, Usage
from volcano_session import Session
from volcano_world import ALLOCATED, Job, NotModelled, Queue, Task, seconds


class Plugin:
    def __init__(self, ssn: Session, arguments: Mapping[str, Any], listed: Mapping[str, Any]) -> None:
        self.ssn, self.arguments, self.listed = ssn, arguments, listed
        self.open()

    def open(self) -> None:
        pass


class Priority(Plugin):
    def task_order(self, left: Task, right: Task) -> int:
        return right.priority - left.priority

    def job_order(self, left: Job, right: Job) -> int:
        return right.priority - left.priority

    def preemptable(self, evictor: Task, candidates: Sequence[Task]) -> list[Task]:
        jobs = self.ssn.world.jobs
        own = jobs[evictor.job]
        return [
            t
            for t in candidates
            if (t.priority < evictor.priority if t.job == evictor.job else jobs[t.job].priority < own.priority)
        ]

    def evictable(self, name: str, job: Job, candidates: list[Task]) -> list[Task]:
        jobs = self.ssn.world.jobs
        return [t for t in candidates if name == "gangreclaim" or jobs[t.job].priority < job.priority]

    def job_starving(self, job: Job) -> bool:
        return job.ready + job.count("Pipelined") < len(job.tasks)


class Gang(Plugin):
    def evictable(self, _: str, __: Job, candidates: list[Task]) -> list[Task]:
        return candidates

    def job_valid(self, job: Job) -> bool:
        valid = job.count(*ALLOCATED, "Succeeded", "Pipelined", "Pending")
        return job.roles_hold("Pipelined", "Pending", effortless=False) and valid >= job.least

    def preemptable(self, _: Task, candidates: Sequence[Task]) -> list[Task]:
        left: dict[str, int] = {}
        out = []
        for task in candidates:
            job = self.ssn.world.jobs[task.job]
            have = left.setdefault(job.uid, job.ready)
            if have > job.least:
                left[job.uid] = have - 1
                out.append(task)
        return out

    reclaimable = preemptable

    def job_order(self, left: Job, right: Job) -> int:
        return left.is_ready - right.is_ready

    def job_ready(self, job: Job) -> bool:
        return job.roles_hold(effortless=True) and job.is_ready

    def job_pipelined(self, job: Job) -> int:
        return 1 if job.roles_hold("Pipelined", effortless=True) and job.is_pipelined else -1

    def job_starving(self, job: Job) -> bool:
        return job.starves


class Conformance(Plugin):
    def preemptable(self, _: Task, candidates: Sequence[Task]) -> list[Task]:
        system = ("system-cluster-critical", "system-node-critical")
        return [
            t
            for t in candidates
            if t.pod["spec"].get("priorityClassName") not in system and not t.key.startswith("kube-system/")
        ]

    reclaimable = preemptable

    def evictable(self, _: str, __: Job, candidates: list[Task]) -> list[Task]:
        return self.preemptable(candidates[0], candidates) if candidates else []


class Drf(Plugin):
    def open(self) -> None:
        self.tree = HierarchicalShares(self.ssn) if self.listed.get("enableHierarchy") else None
        if self.tree is not None:
            self.queue_order, self.reclaimable = self.tree.compare, self.tree.reclaimable

    def share(self, held: Amounts) -> float:
        total = self.ssn.world.total
        return max((amounts.part(held.get(n, 0.0), total[n]) for n in amounts.named(total)), default=0.0)

    def job_order(self, left: Job, right: Job) -> float:
        a, b = self.share(self.ssn.held[left.uid]), self.share(self.ssn.held[right.uid])
        return (a > b) - (a < b)

    def preemptable(self, evictor: Task, candidates: Sequence[Task]) -> list[Task]:
        mine = self.share(amounts.added(self.ssn.held[evictor.job], evictor.request))
        left: dict[str, Amounts] = {}
        out = []
        for task in candidates:
            left[task.job] = amounts.added(left.get(task.job, self.ssn.held[task.job]), task.request, -1)
            theirs = self.share(left[task.job])
            if mine < theirs or abs(mine - theirs) <= 1e-6:
                out.append(task)
        return out


class HierarchicalShares:
    def __init__(self, ssn: Session) -> None:
        self.ssn = ssn
        self.paths: dict[str, list[str]] = {}
        self.weights: dict[tuple[str, ...], float] = {(): 1.0}
        for name, jobs in ssn.world.queue_total.items():
            if not jobs:
                continue
            notes = ssn.world.queues[name].obj["metadata"].get("annotations") or {}
            path = notes.get("volcano.sh/hierarchy", "").split("/")
            weights = notes.get("volcano.sh/hierarchy-weights", "").split("/")
            if len(weights) < len(path):
                raise NotModelled("weights that are missing")
            self.paths[name] = path[1:]
            for n in range(1, len(path)):
                try:
                    weight = float(weights[n])
                except ValueError:
                    weight = 1.0
                self.weights.setdefault(tuple(path[1 : n + 1]), max(weight, 1.0))

    def computed(self, held: Mapping[str, Amounts]) -> dict[tuple[str, ...], tuple[float, bool, Amounts]]:
        """Share, saturation and what counts as held, of every place."""
        ssn = self.ssn
        total = ssn.world.total
        everything = amounts.total(held.values())
        demanding = {n for n, v in total.items() if everything.get(n, 0.0) < v}

        def share(what: Amounts) -> float:
            return max((amounts.part(what.get(n, 0.0), total[n]) for n in amounts.named(total)), default=0.0)

        out: dict[tuple[str, ...], tuple[float, bool, Amounts]] = {}
        children: dict[tuple[str, ...], list[tuple[float, bool, Amounts]]] = {place: [] for place in self.weights}
        for name, path in self.paths.items():
            for job in ssn.world.queue_total[name]:
                mine, wanted = held[job.uid], amounts.total(t.request for t in job.tasks.values())
                full = any(
                    (v >= wanted.get(n, 0.0) and v != 0 and wanted.get(n, 0.0) != 0)
                    or (n not in demanding and wanted.get(n, 0.0) != 0)
                    for n, v in mine.items()
                    if v >= amounts.LEAST
                )
                children[tuple(path)].append((share(mine), full, mine))
        for place in sorted(self.weights, key=len, reverse=True):
            below = children[place]
            least = min([1.0, *(s for s, full, _ in below if s and not full)])
            sums = amounts.total(
                {n: v * (1.0 if full else least / s) for n, v in what.items()} for s, full, what in below if s
            )
            out[place] = (share(sums), all(full for _, full, _ in below), sums)
            if place:
                children[place[:-1]].append(out[place])
        return out

    def compared(self, left: str, right: str, held: Mapping[str, Amounts]) -> float:
        known = self.computed(held)
        a, b = self.paths.get(left, []), self.paths.get(right, [])
        for n in range(min(len(a), len(b)) + 1):
            one, other = tuple(a[:n]), tuple(b[:n])
            if known[one][1] != known[other][1]:
                return 1 if known[one][1] else -1
            difference = known[one][0] / self.weights[one] - known[other][0] / self.weights[other]
            if abs(difference) > 1e-12:
                return difference
        return 0

    def compare(self, left: Queue, right: Queue) -> float:
        return self.compared(left.name, right.name, self.ssn.held)

    def reclaimable(self, evictor: Task, candidates: Sequence[Task]) -> list[Task]:
        jobs, out = self.ssn.world.jobs, []
        with_it = dict(self.ssn.held)
        with_it[evictor.job] = amounts.added(with_it[evictor.job], evictor.request)
        for task in candidates:
            held = {**with_it, task.job: amounts.added(with_it[task.job], task.request, -1)}
            if self.compared(jobs[evictor.job].queue, jobs[task.job].queue, held) < 0:
                out.append(task)
        return out


class Proportion(Plugin):
    def open(self) -> None:
        world = self.ssn.world
        self.mine = [q for q in world.queues.values() if world.queue_total[q.name]]
        guaranteed = {q.name: q.amounts("guarantee", "resource") for q in world.queues.values()}
        spare = amounts.beyond(world.total, amounts.total(guaranteed.values()))
        self.most: dict[str, Amounts] = {}
        self.wanted: dict[str, Amounts] = {}
        self.deserved: dict[str, Amounts] = {q.name: {} for q in self.mine}
        self.promised: dict[str, Amounts] = {}
        self.elastic: dict[str, Amounts] = {}
        for queue in self.mine:
            name, jobs = queue.name, world.queue_total[queue.name]
            cap = queue.amounts("capability")
            limits = {n: v for n, v in cap.items() if n not in ("cpu", "memory") or v > 0}
            most = amounts.added(spare, guaranteed[name])
            self.most[name] = {n: min(v, limits.get(n, v)) for n, v in most.items()}
            self.wanted[name] = amounts.total(t.request for j in jobs for t in j.of(*ALLOCATED, "Pending"))
            self.promised[name] = amounts.total(j.promised for j in jobs)
            self.elastic[name] = amounts.total(j.elastic for j in jobs)
        left, met = dict(world.total), set[str]()
        while True:
            open_ones = [q for q in self.mine if q.name not in met]
            weights = sum(q.spec.get("weight") or 0 for q in open_ones)
            if not weights:
                break
            old, change = dict(left), amounts.read({})
            back = amounts.read({})
            for queue in open_ones:
                name = queue.name
                before = self.deserved[name]
                now = amounts.added(
                    before, {n: v * ((queue.spec.get("weight") or 0) / weights) for n, v in left.items()}
                )
                now = {n: min(v, self.most[name].get(n, v), self.wanted[name].get(n, 0.0)) for n, v in now.items()}
                now = amounts.larger(now, guaranteed[name])
                self.deserved[name] = now
                if amounts.fits(self.wanted[name], now) or all(
                    abs(v - before.get(n, 0.0)) < amounts.LEAST for n, v in now.items()
                ):
                    met.add(name)
                change = amounts.added(change, amounts.beyond(now, before))
                back = amounts.added(back, amounts.beyond(before, now))
            left = amounts.beyond(amounts.added(left, back), change)
            if amounts.is_nothing(left) or all(abs(v - old[n]) < amounts.LEAST for n, v in left.items()):
                break

    def share(self, queue: Queue) -> float:
        held, deserved = self.ssn.queue_held(queue.name), self.deserved.get(queue.name, {})
        return max((amounts.part(held.get(n, 0.0), deserved[n]) for n in amounts.named(deserved)), default=0.0)

    def queue_order(self, left: Queue, right: Queue) -> float:
        if left.priority != right.priority:
            return right.priority - left.priority
        a, b = self.share(left), self.share(right)
        return (a > b) - (a < b)

    def overused(self, queue: Queue) -> bool:
        return amounts.fits(self.deserved[queue.name], self.ssn.queue_held(queue.name))

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        asked = amounts.total(t.request for t in tasks)
        after = amounts.added(self.ssn.queue_held(queue.name), asked)
        return queue.is_open and amounts.stays(after, self.deserved[queue.name], asked)

    def allocatable(self, queue: Queue, task: Task) -> bool:
        return self.preemptive(queue, [task])

    def reclaimable(self, evictor: Task, candidates: Sequence[Task]) -> list[Task]:
        left: dict[str, Amounts] = {}
        out = []
        for task in candidates:
            queue = self.ssn.world.jobs[task.job].queue
            held = left.setdefault(queue, self.ssn.queue_held(queue))
            if not amounts.fits(held, self.deserved[queue]):
                left[queue] = amounts.added(held, task.request, -1)
                out.append(task)
        return out

    def enqueueable(self, job: Job) -> int:
        queue = self.ssn.world.queues[job.queue]
        if not queue.is_open:
            return -1
        minimum = job.minimum or {}
        after = amounts.total([minimum, self.ssn.queue_held(queue.name), self.promised[queue.name]])
        after = amounts.added(after, self.elastic[queue.name], -1)
        return 1 if amounts.stays(after, self.most[queue.name], minimum) else -1

    def enqueued(self, job: Job) -> None:
        if job.minimum is not None:
            self.promised[job.queue] = amounts.added(self.promised[job.queue], job.without_gated(job.minimum))


class Overcommit(Plugin):
    def open(self) -> None:
        world = self.ssn.world
        factor = self.arguments.get("overcommit-factor", 1.2)
        factor = 1.2 if isinstance(factor, str) or factor < 1 else factor
        used = amounts.total(world.used(n) for n in world.nodes.values())
        self.free = amounts.added({n: v * factor for n, v in world.total.items()}, used, -1)
        self.promised = amounts.read({})
        for job in world.jobs.values():
            if job.phase == "Inqueue" and job.minimum is not None:
                self.promised = amounts.added(self.promised, job.without_gated(job.minimum))
            elif job.phase == "Running":
                self.promised = amounts.added(self.promised, job.promised)

    def enqueueable(self, job: Job) -> int:
        minimum = job.minimum or {}
        return 1 if amounts.stays(amounts.added(self.promised, minimum), self.free, minimum) else -1

    def enqueued(self, job: Job) -> None:
        if job.minimum is not None:
            self.promised = amounts.added(self.promised, job.without_gated(job.minimum))


class ResourceQuota(Plugin):
    def open(self) -> None:
        self.promised: dict[str, Amounts] = {}

    def enqueueable(self, job: Job) -> int:
        namespace, minimum = job.uid.split("/")[0], job.minimum or {}
        for quota in self.ssn.world.case["objects"].get("resourceQuotas") or ():
            if quota["metadata"].get("namespace", "default") != namespace:
                continue
            status = quota.get("status") or {}
            hard, used = amounts.read(status.get("hard")), amounts.read(status.get("used"))
            if any(not re.fullmatch(r"cpu|memory|pods|.*/.*", n) for n in status.get("hard") or {}):
                raise NotModelled("quotas")
            mine = {n: v for n, v in minimum.items() if n in (status.get("hard") or {})}
            after = amounts.total([used, self.promised.get(namespace, {}), mine])
            if any(after[n] > hard.get(n, 0.0) for n, v in mine.items() if v > 0):
                return -1
        return 1

    def enqueued(self, job: Job) -> None:
        namespace = job.uid.split("/")[0]
        self.promised[namespace] = amounts.total([self.promised.get(namespace, {}), job.minimum or {}])


class Sla(Plugin):
    def limit(self, job: Job) -> float | None:
        for written in (
            job.notes.get("volcano.sh/sla-waiting-time"),
            job.notes.get("sla-waiting-time"),
            self.arguments.get("sla-waiting-time"),
        ):
            found = re.findall(r"([0-9.]+)(ms|s|m|h)", written) if isinstance(written, str) else []
            length = sum(float(n) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit] for n, unit in found)
            if length > 0:
                return length
        return None

    def job_order(self, left: Job, right: Job) -> float:
        a, b = self.limit(left), self.limit(right)
        if a is None or b is None:
            return (a is None) - (b is None)
        one, other = left.creation + a, right.creation + b
        return (one > other) - (one < other)

    def enqueueable(self, job: Job) -> int:
        limit = self.limit(job)
        return 1 if limit is not None and self.ssn.world.now - job.creation >= limit else 0

    job_pipelined = enqueueable


class Pdb(Plugin):
    def preemptable(self, evictor: Task, candidates: Sequence[Task]) -> list[Task]:
        left: dict[str, int] = {}
        out = []
        for task in candidates:
            if not task.labels:
                continue
            matching = []
            for budget in self.ssn.world.case["objects"].get("podDisruptionBudgets") or ():
                meta, selector = budget["metadata"], budget["spec"].get("selector") or {}
                if selector.get("matchExpressions"):
                    raise NotModelled("expressions")
                wanted = selector.get("matchLabels") or {}
                here = meta.get("namespace", "default") == task.key.split("/")[0]
                if here and wanted and all(task.labels.get(k) == v for k, v in wanted.items()):
                    matching.append(meta["name"])
                    left.setdefault(meta["name"], (budget.get("status") or {}).get("disruptionsAllowed", 0))
            for name in matching:
                left[name] -= 1
            if all(left[name] >= 0 for name in matching):
                out.append(task)
        return out

    reclaimable = preemptable


class Cdp(Plugin):
    def preemptable(self, evictor: Task, candidates: Sequence[Task]) -> list[Task]:
        out = []
        for task in candidates:
            written = task.labels.get("volcano.sh/cooldown-time", task.notes.get("volcano.sh/cooldown-time"))
            if written is not None and task.status == "Running":
                found = re.fullmatch(r"(\d+)(s|m|h)", written)
                if found is None:
                    raise NotModelled("cooldown")
                since = [
                    c["lastTransitionTime"]
                    for c in (task.pod.get("status") or {}).get("conditions") or ()
                    if c["type"] == "PodScheduled" and c["status"] == "True"
                ]
                length = int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]
                if since and self.ssn.world.now < seconds(since[0]) + length:
                    continue
            out.append(task)
        return out

    reclaimable = preemptable


PLUGINS: dict[str, Callable[..., Any]] = {
    "priority": Priority,
    "gang": Gang,
    "conformance": Conformance,
    "drf": Drf,
    "proportion": Proportion,
    "capacity": Capacity,
    "overcommit": Overcommit,
    "resourcequota": ResourceQuota,
    "sla": Sla,
    "pdb": Pdb,
    "cdp": Cdp,
    "predicates": Predicates,
    "nodeorder": NodeOrder,
    "binpack": Binpack,
    "nodegroup": NodeGroup,
    "usage": Usage,
    "resource-strategy-fit": ResourceStrategyFit,
}
