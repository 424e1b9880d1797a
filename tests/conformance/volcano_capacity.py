"""capacity in its plain form, side by side and in a tree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import volcano_amounts as amounts
from volcano_amounts import Amounts
from volcano_session import Heap, Session
from volcano_world import Job, NotModelled, Queue, Task


class Capacity:
    def __init__(self, ssn: Session, arguments: Mapping[str, Any], listed: Mapping[str, Any]) -> None:
        self.ssn, world = ssn, ssn.world
        if any("deviceclass/" in str(q.spec) for q in world.queues.values()):
            raise NotModelled("claims")
        self.level = max(int(arguments.get("ancestorReclaimLevel", 0)), 0)
        self.tree, self.ready = bool(listed.get("enableHierarchy")), True
        self.lines: dict[str, list[str]] = {name: [] for name in world.queues}
        self.most: dict[str, Amounts] = {}
        self.deserved: dict[str, Amounts] = {}
        self.guarantee = {q.name: q.amounts("guarantee", "resource") for q in world.queues.values()}
        if self.tree:
            self.victim_queue_order = self.nearer
            self._join()
        else:
            spare = amounts.beyond(world.total, amounts.total(self.guarantee.values()))
            for queue in world.queues.values():
                limits = {n: v for n, v in queue.amounts("capability").items() if n not in ("cpu", "memory") or v > 0}
                most = amounts.added(spare, self.guarantee[queue.name])
                self.most[queue.name] = {n: min(v, limits.get(n, v)) for n, v in most.items()}
                written = queue.amounts("deserved")
                lower = {n: min(v, self.most[queue.name].get(n, v)) for n, v in written.items()}
                self.deserved[queue.name] = amounts.larger(lower, self.guarantee[queue.name])
        self.frozen = {name: self._share(name) for name in self.lines if self._below(name)} if self.ready else {}
        self.promised: dict[str, Amounts] = {}
        for name in self.lines:
            jobs = [j for leaf in self._under(name) for j in world.queue_total[leaf]]
            sums = amounts.total(j.promised for j in jobs)
            self.promised[name] = amounts.added(sums, amounts.total(j.elastic for j in jobs), -1)

    def _below(self, name: str) -> list[str]:
        return [q for q, line in self.lines.items() if line and line[-1] == name]

    def _under(self, name: str) -> list[str]:
        return [q for q, line in self.lines.items() if q == name or name in line]

    def _join(self) -> None:
        queues = self.ssn.world.queues
        if "root" not in queues:
            self.ready = False
            return
        for name in queues:
            line, at = list[str](), name
            while at != "root":
                at = queues[at].spec.get("parent") or "root"
                if at not in queues or at in line or at == name:
                    self.ready = False
                    return
                line.insert(0, at)
            self.lines[name] = line
        if any(self._below(n) and self.ssn.world.queue_total[n] for n in queues):
            self.ready = False
            return
        caps = {"root": {n: v for n, v in queues["root"].amounts("capability").items() if v > 0}}
        self.most["root"] = {n: caps["root"].get(n, math.inf) for n in {*self.ssn.world.total, "cpu", "memory"}}
        self._bound("root", caps)
        self.guarantee["root"] = amounts.total(self.guarantee[c] for c in self._below("root"))
        self.deserved["root"] = amounts.total(self.deserved[c] for c in self._below("root"))

    def _bound(self, name: str, caps: dict[str, Amounts]) -> None:
        children = self._below(name)
        spare = amounts.beyond(self.most[name], amounts.total(self.guarantee[c] for c in children))
        for child in children:
            queue = self.ssn.world.queues[child]
            written = queue.spec.get("capability") or {}
            own = {n: v for n, v in queue.amounts("capability").items() if n in written}
            own = {n: v for n, v in own.items() if n not in ("cpu", "memory") or v > 0}
            caps[child] = {**caps[name], **own}
            most = amounts.added(spare, self.guarantee[child])
            self.most[child] = {n: min(v, caps[child].get(n, math.inf)) for n, v in most.items()}
            self.deserved[child] = amounts.larger(queue.amounts("deserved"), self.guarantee[child])
            self._bound(child, caps)

    # -- what is held ------------------------------------------------------------------------------------------------
    def held(self, name: str) -> Amounts:
        return amounts.total(self.ssn.queue_held(leaf) for leaf in self._under(name))

    def _share(self, name: str) -> float:
        deserved, held = self.deserved[name], self.held(name)
        if amounts.is_nothing(deserved):
            return 1.0
        return max(amounts.part(held.get(n, 0.0), deserved[n]) for n in amounts.named(deserved))

    def share(self, name: str) -> float:
        return self.frozen.get(name, self._share(name) if name not in self.frozen else 0.0)

    def queue_order(self, left: Queue, right: Queue) -> float:
        if left.priority != right.priority:
            return right.priority - left.priority
        a, b = left.name, right.name
        if self.tree:
            if not self.ready:
                raise NotModelled("order without a tree")
            if bool(self._below(a)) != bool(self._below(b)):
                return -1 if not self._below(a) else 1
            if not self._below(a):
                n = self._common(a, b) + 1
                a = self.lines[a][n] if n < len(self.lines[a]) else a
                b = self.lines[b][n] if n < len(self.lines[b]) else b
        mine = (self.share(a), amounts.is_nothing(self.deserved[a]))
        theirs = (self.share(b), amounts.is_nothing(self.deserved[b]))
        return (mine > theirs) - (mine < theirs)

    def _common(self, left: str, right: str) -> int:
        level = 0
        for n, (a, b) in enumerate(zip(self.lines[left], self.lines[right], strict=False)):
            if a != b:
                break
            level = n
        return level

    def nearer(self, left: Queue, right: Queue, own: Queue) -> int:
        return self._common(right.name, own.name) - self._common(left.name, own.name)

    # -- vetoes -------------------------------------------------------------------------------------------------------
    def _line(self, queue: str) -> list[str]:
        return [queue, *reversed(self.lines[queue])]

    def _takes(self, queue: Queue) -> bool:
        return queue.is_open and self.ready and not (self.tree and self._below(queue.name))

    def allocatable(self, queue: Queue, task: Task) -> bool:
        return self._takes(queue) and all(
            amounts.stays(amounts.added(self.held(name), task.request), self.most[name], task.request)
            for name in self._line(queue.name)
        )

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        if not queue.is_open or not self.ready:
            return False
        asked = amounts.total(t.request for t in tasks)
        if not amounts.stays(amounts.added(self.held(queue.name), asked), self.most[queue.name], asked):
            return False
        line = self._line(queue.name)[: self.level + 1]
        for name in (n for n in line if n == queue.name or n != "root"):
            after, deserved = amounts.added(self.held(name), asked), self.deserved[name]
            for n, v in asked.items():
                mine, theirs = after.get(n, 0.0), deserved.get(n, 0.0)
                if v <= 0 or n == "pods" or max(mine, theirs) < amounts.LEAST:
                    continue
                if amounts.at_most(mine, theirs):
                    return True
        return False

    # -- victims -------------------------------------------------------------------------------------------------------
    def reclaimable(self, evictor: Task, candidates: Sequence[Task]) -> list[Task]:
        if not self.ready:
            return []
        jobs, out = self.ssn.world.jobs, list[Task]()
        own = jobs[evictor.job].queue
        left: dict[str, Amounts] = {}
        line = Heap(self.ssn.victim_less(evictor), candidates)
        while line:
            task = line.pop()
            queue = jobs[task.job].queue
            if not (amounts.named(task.request) & amounts.named(evictor.request)) - {"pods"}:
                continue
            after = amounts.added(left.get(queue, self.held(queue)), task.request, -1)
            if not amounts.fits(self.guarantee[queue], after):
                continue
            if not self._deserves(queue, task):
                near = set(self._parents(queue)) & set(self._parents(own))
                if near and not self._deserves(own, evictor):
                    continue
            elif not self._over(queue, left.get(queue, self.held(queue)), task):
                continue
            pairs = zip(self._parents(queue), [*self._parents(own), *[None] * 100], strict=False)
            above = [mine for mine, theirs in pairs if mine != theirs]
            if not all(not self._deserves(a, task) or self._over(a, left.get(a, self.held(a)), task) for a in above):
                continue
            for name in (queue, *above):
                left[name] = amounts.added(left.get(name, self.held(name)), task.request, -1)
            out.append(task)
        return out

    def evictable(self, name: str, _: Job, candidates: list[Task]) -> list[Task]:
        if name == "gangpreempt":
            return candidates
        jobs, out, left = self.ssn.world.jobs, list[Task](), dict[str, Amounts]()
        for task in candidates if self.ready else ():
            queue = jobs[task.job].queue
            held = left.get(queue, self.held(queue))
            after = amounts.added(held, task.request, -1)
            over = not self._deserves(queue, task) or self._over(queue, held, task)
            if amounts.fits(self.guarantee[queue], after) and over:
                left[queue] = after
                out.append(task)
        return out

    def _parents(self, queue: str) -> list[str]:
        return [n for n in self._line(queue)[1 : self.level + 1] if n != "root"] if self.tree else []

    def _deserves(self, queue: str, task: Task) -> bool:
        return bool(amounts.named(task.request) & amounts.named(self.deserved[queue]))

    def _over(self, queue: str, held: Amounts, task: Task) -> bool:
        written = self.ssn.world.queues[queue].spec.get("deserved") or {}
        deserved = self.deserved[queue]
        for n, v in task.request.items():
            if v <= 0 or n == "pods":
                continue
            if deserved.get(n, 0.0) < amounts.LEAST and (n in ("cpu", "memory") or n not in written):
                continue
            if held.get(n, 0.0) > deserved.get(n, 0.0):
                return True
        return False

    # -- admission -----------------------------------------------------------------------------------------------------
    def enqueueable(self, job: Job) -> int:
        if not self._takes(self.ssn.world.queues[job.queue]):
            return -1
        minimum = job.minimum or {}
        for name in self._line(job.queue):
            after = amounts.total([minimum, self.held(name), self.promised[name]])
            if not amounts.stays(after, self.most[name], minimum):
                return -1
        return 1

    def enqueued(self, job: Job) -> None:
        for name in self._line(job.queue):
            if job.minimum is not None:
                self.promised[name] = amounts.added(self.promised[name], job.without_gated(job.minimum))
