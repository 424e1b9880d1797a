"""nodegroup: queues have groups of nodes that they use, prefer or avoid, and limits in each."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pumice import (
    SKIP,
    Argument,
    EventHandler,
    InvalidInput,
    NodeRows,
    Plugin,
    Resources,
    Scope,
    Session,
    Task,
    keys,
    reason_id,
)

GROUP: Final = keys.NODE_GROUP
LIMITS: Final = keys.NODE_GROUP_LIMITS
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _no(text: str) -> int:
    return reason_id("nodegroup", text, unresolvable=True)


NOT_THERE: Final = _no("node(s) are not in a group that the queue may use")
UNREADABLE: Final = _no(f"the queue's annotation {LIMITS} cannot be read")
FULL: Final = _no("node(s) are in a group in which the queue is at its limit")


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a queue for groups of nodes."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    """Anti-affinity, required."""
    avoided: tuple[str, ...] = ()
    """Anti-affinity, preferred."""

    def admits(self, group: str, *, as_volcano: bool) -> bool:
        """Report whether tasks of the queue may go to nodes of the group.

        *as_volcano*: every preference is an allowance, also one against a group, and nothing else is allowed.
        """
        if as_volcano:
            wanted = group in self.required or group in self.preferred
            return (wanted and group not in self.never) or group in self.avoided
        if group in self.never:
            return False
        return not self.required or group in self.required or group in self.preferred

    def score(self, group: str, *, ordered: bool) -> float:
        """How good the group is; *ordered*: of the preferred ones the first is the best."""
        if group in self.avoided:
            return -1.0
        found = 100.0 if group in self.required else 0.0
        if group in self.preferred:
            n, i = len(self.preferred), self.preferred.index(group) if ordered else 0
            found += 50.0 * (n - i) / n
        return found


class NodeGroup(Plugin):
    """Keeps the tasks of a queue in the node groups that its ``spec.affinity`` names, and within its limits there.

    With the flag ``enableHierarchy`` a queue without rules has those of its nearest ancestor that has some.
    """

    name = "nodegroup"
    persistent = True
    strict = Argument(True, "Nodes of no group take no tasks; else queues without rules may use them.")
    ordered = Argument(False, "Of the preferred groups, the first is the best.", name="enablePreferredOrder")

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        self._inherits = ssn.flag("enableHierarchy")
        self._as_volcano = ssn.compat.node_groups
        self._known: dict[str, Rules | None] = {}
        ssn.add_batch_predicate_fn(self.name, self._allowed, scope=Scope.STATIC, key=self._rules)
        ssn.add_batch_node_order_fn(self.name, self._score, scope=Scope.STATIC, key=self._rules)
        limited = [name for name, queue in ssn.queues.items() if LIMITS in (queue.object.metadata.annotations or {})]
        if limited:
            self._limits = _Limits(ssn, limited)
            ssn.add_batch_predicate_fn(self.name, self._limits.allow, key=self._limits.key)
            ssn.add_event_handler(
                EventHandler(
                    allocate=lambda event: self._limits.count([event.task], 1),
                    deallocate=lambda event: self._limits.count([event.task], -1),
                    allocate_many=lambda tasks: self._limits.count(tasks, 1),
                    deallocate_many=lambda tasks: self._limits.count(tasks, -1),
                )
            )

    # -- rules ------------------------------------------------------------------------------------------------------
    def _rules(self, task: Task) -> Rules | None:
        """The rules of a task's queue; None if it has none."""
        job = task.job
        name = job.queue if job is not None else ""
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> Rules | None:
        seen: set[str] = set()
        while name not in seen and (queue := self._ssn.queues.get(name)) is not None:
            seen.add(name)
            spec = queue.object.spec
            if spec.affinity is not None or not self._inherits:
                return _read(spec.affinity)
            name = spec.parent or "root"
        return None

    def _allowed(self, task: Task, rows: NodeRows) -> npt.NDArray[np.int64]:
        rules = self._rules(task)

        def judge(group: str | None) -> int:
            if rules is None:
                return NOT_THERE if group is not None or self.strict else 0
            return 0 if group is not None and rules.admits(group, as_volcano=self._as_volcano) else NOT_THERE

        return rows.labels.apply(GROUP, judge)

    def _score(self, task: Task, rows: NodeRows) -> npt.NDArray[np.float64]:
        rules = self._rules(task)

        def judge(group: str | None) -> float:
            return rules.score(group, ordered=self.ordered) if rules is not None and group is not None else 0.0

        return rows.labels.apply(GROUP, judge)


class _Limits:
    """The amounts of queues in each group of nodes, and their limits; followed through a session."""

    def __init__(self, ssn: Session, queues: Sequence[str]) -> None:
        self._ssn = ssn
        self._limits: dict[str, dict[str, Resources] | None] = {}
        self._held: dict[tuple[str, str], dict[int, float]] = {}
        for name in queues:
            queue = ssn.queues[name]
            self._limits[name] = _read_limits((queue.object.metadata.annotations or {})[LIMITS])
            for job in queue.jobs.values():
                self.count([task for task in job.tasks.values() if task.status.is_held], 1)

    def key(self, task: Task) -> Hashable:
        """The queue of a task, if it has limits; else `SKIP`."""
        return task.job.queue if task.job is not None and task.job.queue in self._limits else SKIP

    def allow(self, task: Task, rows: NodeRows) -> npt.NDArray[np.int64]:
        """Nodes of groups in which the queue stays within its limits with the task."""
        queue = task.job.queue
        limits = self._limits[queue]

        def judge(group: str | None) -> int:
            if limits is None:
                return UNREADABLE
            if group is None or group not in limits:
                return 0
            held = self._held.get((queue, group), {})
            over = any(held.get(d, 0) + task.requests.get(d) > most for d, most in limits[group].items())
            return FULL if over else 0

        return rows.labels.apply(GROUP, judge)

    def count(self, tasks: Iterable[Task], sign: int) -> None:
        """Tasks got a place, or gave theirs back."""
        for task in tasks:
            node, job = task.node, task.job
            if node is None or job is None or job.queue not in self._limits:
                continue
            held = self._held.setdefault((job.queue, node.labels.get(GROUP, "")), {})
            for d, v in task.requests.items():
                held[d] = held.get(d, 0) + sign * v


def _read(affinity: Mapping[str, Any] | None) -> Rules | None:
    if affinity is None:
        return None
    near, far = affinity.get("nodeGroupAffinity") or {}, affinity.get("nodeGroupAntiAffinity") or {}
    lists = (near.get(_REQUIRED), near.get(_PREFERRED), far.get(_REQUIRED), far.get(_PREFERRED))
    return Rules(*(tuple(map(str, listed or ())) for listed in lists))


def _read_limits(text: str) -> dict[str, Resources] | None:
    """Group -> limit; None if the text cannot be read."""
    try:
        return {str(group): Resources.parse(amounts) for group, amounts in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError, RecursionError, InvalidInput):
        return None
