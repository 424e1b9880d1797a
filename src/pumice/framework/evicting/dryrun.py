"""Topology-aware preemption: try several nodes, then take the one whose victims matter least."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pumice.framework.evicting.eviction import Permits, RoomMaker
from pumice.framework.evicting.possible import FromQueue
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Statement
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.task import Task


@dataclass(frozen=True, slots=True)
class Width:
    """How many candidate nodes are looked for: a percentage of the nodes, within limits."""

    percentage: int
    least: int
    most: int

    def of(self, nodes: int) -> int:
        """The number of candidates for so many nodes."""
        return min(max(min(max(nodes * self.percentage // 100, self.least), self.most), 1), nodes)


@dataclass(slots=True)
class _Candidate:
    node: Node
    victims: list[Task]

    def cost(self, now: float) -> tuple[int, int, int, float]:
        """Least first: highest priority of a victim, sum of priorities, number, and how long the oldest has run."""
        priorities = [v.pod.spec.priority or 0 for v in self.victims]
        top, highest = priorities[0], max(priorities)
        earliest = min(_started(v, now) for v, p in zip(self.victims, priorities, strict=True) if p == highest)
        return top, sum(p + 2**31 for p in priorities), len(self.victims), -earliest


def _started(victim: Task, now: float) -> float:
    """Since when a task runs; one that does not yet begins now."""
    since = victim.pod.status.start_time
    return since.timestamp() if since is not None else now


class DryRun:
    """The search of a `RoomMaker`, with a dry run on several nodes before one is chosen."""

    def __init__(self, ssn: Session, maker: RoomMaker, width: Width) -> None:
        self._ssn, self._maker, self._width = ssn, maker, width
        lenient = ssn.compat.dry_run
        self._queue_decides = not lenient
        self._blind = ssn.plugins_without("enablePreemptable", "enabledAllocatable") if lenient else frozenset()

    def make(
        self, task: Task, queue: Queue, statement: Statement, permits: Permits, from_queue: FromQueue | None = None
    ) -> bool:
        """As `RoomMaker.make`; a node on which nobody has to go is no candidate."""
        return self._maker.search(task, queue, statement, permits, from_queue, self._choose)

    def _choose(self, task: Task, nodes: Iterator[Node], queue: Queue, statement: Statement, permits: Permits) -> bool:
        self._ssn.simulates = not self._queue_decides
        try:
            found = self._candidates(task, nodes, queue, statement, permits)
        finally:
            self._ssn.simulates = False
        now = self._ssn.state.now
        for candidate in sorted(found, key=lambda c: (c.cost(now), c.node.name.encode())):
            if self._maker.take(task, candidate.node, candidate.victims[::-1], statement):
                return True
        return False

    def _candidates(
        self, task: Task, nodes: Iterator[Node], queue: Queue, statement: Statement, permits: Permits
    ) -> list[_Candidate]:
        """Nodes that could take the task, and who would have to go; nothing is changed."""
        wanted = self._width.of(self._maker.node_count)
        found: list[_Candidate] = []
        mark = statement.checkpoint()
        for node in nodes:
            if self._blind and self._maker.objects(task, node, self._blind):
                continue
            victims = self._maker.clear(
                task, node, queue, statement, permits, spare=True, queue_decides=self._queue_decides
            )
            statement.rollback(mark)
            if victims:
                found.append(_Candidate(node, victims[::-1]))
                if len(found) >= wanted:
                    break
        return found
