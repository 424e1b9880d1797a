"""How answers of plugins become one, and what a session does and undoes: the plain form of Volcano's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import volcano_amounts as amounts
from volcano_amounts import Amounts
from volcano_world import Job, Node, NotModelled, Queue, Task, World

T = TypeVar("T")
FLAGS = {
    "job_order": "enableJobOrder",
    "task_order": "enableTaskOrder",
    "queue_order": "enableQueueOrder",
    "job_ready": "enableJobReady",
    "job_pipelined": "enableJobPipelined",
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
    "preemptive": "enablePreemptive",
    "predicate": "enablePredicate",
    "node_order": "enableNodeOrder",
    "batch_order": "enableNodeOrder",
    "enqueueable": "enableJobEnqueued",
    "enqueued": "enableJobEnqueued",
    "job_starving": "enableJobStarving",
    "overused": "enabledOverused",
    "allocatable": "enabledAllocatable",
}


class Heap(Generic[T]):
    """Go's binary heap: it compares when something is put in or taken out, and then only."""

    def __init__(self, less: Callable[[T, T], bool], things: Sequence[T] = ()) -> None:
        self.less, self.items = less, list[T]()
        for thing in things:
            self.push(thing)

    def __bool__(self) -> bool:
        return bool(self.items)

    def push(self, thing: T) -> None:
        items, at = self.items, len(self.items)
        items.append(thing)
        while at and self.less(items[at], items[(at - 1) // 2]):
            items[at], items[(at - 1) // 2] = items[(at - 1) // 2], items[at]
            at = (at - 1) // 2

    def pop(self) -> T:
        items, at = self.items, 0
        items[0], items[-1] = items[-1], items[0]
        out = items.pop()
        while (child := 2 * at + 1) < len(items):
            if child + 1 < len(items) and self.less(items[child + 1], items[child]):
                child += 1
            if not self.less(items[child], items[at]):
                break
            items[at], items[child] = items[child], items[at]
            at = child
        return out


class Session:
    """One cycle: the world, the plugins in their tiers, and what they are asked."""

    def __init__(self, world: World, conf: Mapping[str, Any], known: Mapping[str, Callable[..., Any]]) -> None:
        self.world, self.conf = world, conf
        self.held = {job.uid: job.allocated for job in world.jobs.values()}
        self.actions = [name.strip() for name in conf["actions"].split(",")]
        self.tiers: list[list[tuple[Mapping[str, Any], Any]]] = []
        names: set[str] = set()
        for tier in conf["tiers"]:
            row = []
            for listed in tier["plugins"]:
                if listed["name"] not in known or listed["name"] in names:
                    raise NotModelled(f"plugin {listed['name']}")
                names.add(listed["name"])
                row.append((listed, known[listed["name"]](self, listed.get("arguments") or {}, listed)))
            self.tiers.append(row)
        self.sees = "predicates" in names
        self.bound: dict[str, str] = {}
        self.evicted: list[str] = []

    def argument(self, action: str, name: str, usual: Any) -> Any:
        for given in self.conf.get("configurations") or ():
            if given.get("name") == action:
                return (given.get("arguments") or {}).get(name, usual)
        return usual

    def by_tier(self, point: str) -> Iterator[list[Callable[..., Any]]]:
        flag = FLAGS.get(point, "")
        for tier in self.tiers:
            yield [
                getattr(plugin, point)
                for listed, plugin in tier
                if hasattr(plugin, point) and (not flag or listed.get(flag) is not False)
            ]

    def asked(self, point: str) -> list[Callable[..., Any]]:
        return [fn for tier in self.by_tier(point) for fn in tier]

    # -- orders -----------------------------------------------------------------------------------------------------
    def compare(self, point: str, left: Any, right: Any) -> float:
        return next((said for fn in self.asked(point) if (said := fn(left, right))), 0)

    def job_less(self, left: Job, right: Job) -> bool:
        said = self.compare("job_order", left, right)
        return said < 0 if said else (left.creation, left.uid) < (right.creation, right.uid)

    def queue_less(self, left: Queue, right: Queue) -> bool:
        said = self.compare("queue_order", left, right)
        return said < 0 if said else (left.creation, left.name) < (right.creation, right.name)

    def task_less(self, left: Task, right: Task) -> bool:
        if said := self.compare("task_order", left, right):
            return said < 0
        a, b = _index(left), _index(right)
        if a is not None and b is not None and a != b:
            return a < b
        return (left.creation, left.uid) < (right.creation, right.uid)

    def victim_less(self, evictor: Task) -> Callable[[Task, Task], bool]:
        jobs, queues = self.world.jobs, self.world.queues

        def less(left: Task, right: Task) -> bool:
            a, b, own = jobs.get(left.job), jobs.get(right.job), jobs.get(evictor.job)
            if a is not None and a is b:
                return not self.task_less(left, right)
            if a is None or b is None:
                return (a is None) if (a is None) != (b is None) else not self.task_less(left, right)
            if own is None or a.queue == b.queue:
                said = self.compare("job_order", a, b)
                return said > 0 if said else not self.task_less(left, right)
            for fn in self.asked("victim_queue_order"):
                if said := fn(queues[a.queue], queues[b.queue], queues[own.queue]):
                    return bool(said < 0)
            return not self.queue_less(queues[a.queue], queues[b.queue])

        return less

    # -- answers ----------------------------------------------------------------------------------------------------
    def all_say(self, point: str, *about: Any) -> bool:
        return all(fn(*about) for fn in self.asked(point))

    def vote(self, point: str, job: Job) -> bool:
        for tier in self.by_tier(point):
            votes = []
            for fn in tier:
                votes.append(fn(job))
                if votes[-1] < 0:
                    return False
            if any(v > 0 for v in votes):
                return True
        return True

    def starving(self, job: Job) -> bool:
        return next((all(fn(job) for fn in tier) for tier in self.by_tier("job_starving") if tier), False)

    def victims(self, point: str, evictor: Task, candidates: Sequence[Task]) -> list[Task]:
        chosen: list[Task] | None = None
        for tier in self.by_tier(point):
            for fn in tier:
                said = fn(evictor, self._in_some_order(evictor, candidates))
                if said is None:
                    continue
                if not said:
                    chosen = None
                    break
                chosen = said if chosen is None else [v for v in chosen if v in said] or None
            if chosen is not None:
                return chosen
        return []

    def _in_some_order(self, evictor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Candidates in any order; in the first run always in that in which they would go.

        Volcano's plugins get them in another order every time. That the same one comes first each time is as
        possible as it is rare.
        """
        if self.world.seed:
            return self.world.shuffled(candidates)
        line, out = Heap(self.victim_less(evictor), candidates), list[Task]()
        while line:
            out.append(line.pop())
        return out

    def predicate(self, task: Task, node: Node) -> str:
        """Nothing, or the severity of the first objection: no (could change), never."""
        return next((said for fn in self.asked("predicate") if (said := fn(task, node))), "")

    def scores(self, task: Task, nodes: Sequence[Node]) -> dict[str, float]:
        if not nodes:
            return {}
        out = {node.name: sum(fn(task, node) for fn in self.asked("node_order")) for node in nodes}
        for fn in self.asked("batch_order"):
            for name, value in fn(task, nodes).items():
                out[name] += value
        return out

    def best(self, task: Task, nodes: Sequence[Node]) -> Node:
        if len(nodes) == 1:
            return nodes[0]
        scores = self.scores(task, nodes)
        most = max(scores.values())
        near = [n for n in nodes if abs(scores[n.name] - most) < 1e-9]
        return self.world.shuffled(near)[0]

    # -- what is done and undone ------------------------------------------------------------------------------------
    def put(self, task: Task, node: Node, status: str) -> None:
        task.status, task.node = status, node.name
        node.tasks[task.uid] = status
        self._count(task, 1)
        if self.sees:
            node.seen.add(task.uid)

    def take_off(self, task: Task) -> None:
        node = self.world.nodes[task.node]
        task.status, task.node = "Pending", ""
        del node.tasks[task.uid]
        self._count(task, -1)
        if self.sees:
            node.seen.discard(task.uid)

    def evict(self, task: Task) -> None:
        node = self.world.nodes[task.node]
        task.status = node.tasks[task.uid] = "Releasing"
        self._count(task, -1)
        if self.sees:
            node.seen.discard(task.uid)

    def bring_back(self, task: Task) -> None:
        task.status = self.world.nodes[task.node].tasks[task.uid] = "Running"
        self._count(task, 1)

    def _count(self, task: Task, sign: int) -> None:
        if task.job in self.held:
            self.held[task.job] = amounts.added(self.held[task.job], task.request, sign)
        for fn in self.asked("on_change"):
            fn(task, sign)

    def queue_held(self, queue: str) -> Amounts:
        return amounts.total(self.held[job.uid] for job in self.world.queue_total[queue])


class Statement:
    """Done, and to be undone or made true."""

    def __init__(self, ssn: Session) -> None:
        self.ssn, self.done = ssn, list[tuple[str, Task]]()

    def put(self, task: Task, node: Node, status: str) -> None:
        self.ssn.put(task, node, status)
        self.done.append((status, task))

    def evict(self, task: Task) -> None:
        self.ssn.evict(task)
        self.done.append(("Evict", task))

    def discard(self) -> None:
        for what, task in reversed(self.done):
            (self.ssn.bring_back if what == "Evict" else self.ssn.take_off)(task)
        self.done = []

    def commit(self) -> None:
        for what, task in self.done:
            if what == "Evict":
                self.ssn.evicted.append(task.key)
            elif what == "Allocated":
                task.status = self.ssn.world.nodes[task.node].tasks[task.uid] = "Binding"
                self.ssn.bound[task.key] = task.node
        self.done = []


def _index(task: Task) -> int | None:
    parts = task.pod["metadata"]["name"].split("-")
    return int(parts[-1]) if len(parts) >= 3 and parts[-1].isdigit() else None
