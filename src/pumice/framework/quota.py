"""How much more fits under a limit: what the plugins that share a cluster between queues have in common.

Ledgers and limits are mappings from dimension to ledger value. A check looks only at what is asked for (pod slots
aside) and is exact; a name that a limit does not list is not to be had at all.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from pumice.framework.metrics import Metrics, Series
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note
from pumice.model.job import Job
from pumice.model.limit import Bound, Limit, limit
from pumice.model.queue import Queue
from pumice.model.reason import Verdict, reject
from pumice.model.resources import CPU, MEMORY, PODS, TOLERANCE, Number, dim_count, dim_name, unit_of
from pumice.model.status import TaskStatus
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

__all__ = [
    "CPU",
    "MEMORY",
    "PODS",
    "TOLERANCE",
    "UNLIMITED",
    "Admission",
    "Bound",
    "BoundOf",
    "Items",
    "Ledger",
    "Limit",
    "Number",
    "added",
    "added_up",
    "capability_of",
    "dim_count",
    "fits",
    "fits_beside",
    "insufficient",
    "is_below",
    "is_open",
    "just_placed",
    "lacking",
    "largest_share",
    "limit",
    "not_open",
    "publish",
    "published",
    "queue_notes",
    "room",
    "summed",
    "within",
]

Ledger: TypeAlias = Mapping[int, Number]
Items: TypeAlias = Iterable[tuple[int, Number]]
BoundOf: TypeAlias = Callable[[int], tuple[Bound, str]]
"""Dimension -> the rule that sets the limit, and the figures behind it."""

_PREEMPTING: Final = frozenset({"preempt", "gangpreempt"})
UNLIMITED = sys.maxsize
"""As much room as anybody can ask for."""


def is_below(queues: Mapping[str, Queue], name: str, top: str) -> bool:
    """Report whether a queue is *top*, or somewhere below it."""
    seen: set[str] = set()
    while name and name != top and name not in seen:
        seen.add(name)
        name = queues[name].parent if name in queues else ""
    return name == top


def capability_of(queue: Queue) -> dict[int, Number]:
    """The resources that a queue's capability limits, pod slots aside, as the sharing plugins read it: a capability
    without CPU or memory does not limit them."""
    return {d: v for d, v in queue.capability.items() if d != PODS and (v > 0 or d not in (CPU, MEMORY))}


def is_open(queue: Queue) -> bool:
    """Report whether the queue takes new work. A queue without a state counts as open."""
    return queue.state in ("", "Open")


def lacking(
    of: str,
    most: Ledger,
    used: Ledger,
    request: Items,
    bound: BoundOf,
    *,
    own: Ledger | None = None,
    promised: Ledger | None = None,
) -> tuple[Limit, ...]:
    """The limits that *used* and *request* together exceed, by name; none when it fits.

    Among used amounts, *own* was just placed for the asking task, and so counts as requested rather than held.
    *promised* is the outstanding part of admitted jobs.
    """
    own, promised = own or {}, promised or {}
    found = []
    for d, v in request:
        have = used.get(d, 0)
        if v > 0 and d != PODS and have + v > most.get(d, 0):
            mine, coming = own.get(d, 0), max(promised.get(d, 0), 0)
            amounts = (have - mine - coming, most.get(d, 0), v + mine)
            found.append(limit(of, d, amounts, *bound(d), promised=coming))
    return tuple(sorted(found, key=lambda short: short.resource))


def just_placed(task: Task) -> dict[int, Number]:
    """The amounts that the task's job was given in this session, and does not really have yet."""
    job = task.job
    if job is None or not job.count(TaskStatus.ALLOCATED, TaskStatus.PIPELINED):
        return {}
    return summed(t for s in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED) for t in job.with_status(s).values())


def fits(limit: Ledger, used: Ledger, request: Items) -> bool:
    """Report whether *used* and *request* together stay within *limit*."""
    for d, v in request:  # noqa: SIM110  (asked for every task: a generator takes twice the time)
        if v > 0 and d != PODS and (used[d] + v if d in used else v) > limit.get(d, 0):
            return False
    return True


def fits_beside(limit: Ledger, parts: Iterable[tuple[Ledger, int]], request: Items) -> bool:
    """Report whether *request* stays within *limit* together with the sum of the parts, each with its number."""
    for d, v in request:
        if v > 0 and d != PODS:
            for amounts, times in parts:
                if d in amounts:
                    v += times * amounts[d]
            if v > limit.get(d, 0):
                return False
    return True


def room(limit: Ledger, used: Ledger, request: Items) -> int:
    """How many times in a row *request* fits: exactly as often as `fits` would say yes."""
    most = UNLIMITED
    for d, v in request:
        if v > 0 and d != PODS:
            bound = limit.get(d, 0)
            if bound != math.inf:
                most = min(most, int((math.floor(bound) - used.get(d, 0)) // v))
    return max(most, 0)


def within(part: Ledger, whole: Ledger) -> bool:
    """Report whether *part* is at most *whole* in every dimension, within the tolerance (missing counts as 0)."""
    for d, v in part.items():  # noqa: SIM110  (as above)
        if (v - whole[d] if d in whole else v) >= TOLERANCE:
            return False
    return True


def largest_share(used: Ledger, of: Items) -> float:
    """The largest share of *of* that is used; *of* lists amounts above a trace."""
    largest = 0.0
    if not used:
        return largest
    for d, v in of:
        part = used.get(d, 0) / v if v else float(used.get(d, 0) > 0)
        if part > largest:
            largest = part
    return largest


def summed(tasks: Iterable[Task]) -> dict[int, Number]:
    """The sum of several tasks' requests."""
    total: dict[int, Number] = {}
    for task in tasks:
        for d, v in task.klass.items:
            total[d] = total.get(d, 0) + v
    return total


def added(into: dict[int, Number], what: Items, sign: int = 1) -> None:
    """Add (or with -1 take away) amounts, in place."""
    for d, v in what:
        into[d] = into[d] + sign * v if d in into else sign * v


def added_up(parts: Iterable[tuple[Ledger, int]]) -> dict[int, Number]:
    """The sum of parts, each with its number."""
    total: dict[int, Number] = {}
    for amounts, times in parts:
        added(total, amounts.items(), times)
    return total


def insufficient(limits: tuple[Limit, ...], where: str = "") -> Verdict:
    """The refusal for want of quota: names in Volcano's words, numbers, and which knob to turn."""
    text = "queue resource quota insufficient: " + ", ".join(f"insufficient {short.resource}" for short in limits)
    return reject(
        f"{text}{where}", advice=lambda: "; ".join(dict.fromkeys(short.advice for short in limits)), limits=limits
    )


def not_open(queue: Queue) -> Verdict:
    """The refusal of a queue that takes no new work."""
    return reject(f"queue {queue.name} is {queue.state}", advice=f"queue {queue.name} is opened, or another queue")


def queue_notes(before: Mapping[str, str], now: Mapping[str, str]) -> list[Note]:
    """One warning on each queue whose problem is new; *before* and *now* map queues to their problems."""
    return [
        Note("Queue", name, "Warning", ReasonCode.INVALID_QUEUE, text)
        for name, text in sorted(now.items())
        if before.get(name) != text
    ]


@lru_cache(maxsize=64)
def _gauges(what: str) -> tuple[str, str, str]:
    return f"queue_{what}_milli_cpu", f"queue_{what}_memory_bytes", f"queue_{what}_scalar_resources"


@lru_cache(maxsize=8192)
def _series(what: str, queue: str) -> tuple[Series, Series, str, tuple[str, str]]:
    """Under which names amounts of a queue are published: CPU, memory, and what those of others begin with."""
    cpu, memory, scalar = _gauges(what)
    name = ("queue_name", queue)
    return (cpu, (name,)), (memory, (name,)), scalar, name


def publish(metrics: Metrics, queue: str, what: str, amounts: Ledger) -> None:
    """Publish a queue's amounts under the names that Volcano's dashboards know (``queue_allocated_milli_cpu`` …)."""
    gauges = metrics.gauges  # written directly: many of them, every cycle
    cpu, memory, scalar, name = _series(what, queue)
    gauges[cpu] = gauges[memory] = 0
    for d, v in amounts.items():
        gauges[cpu if d == CPU else memory if d == MEMORY else (scalar, (name, ("resource", dim_name(d))))] = v


def published(
    gauges: Mapping[tuple[str, tuple[tuple[str, str], ...]], float], queue: str, what: str
) -> dict[str, Number]:
    """The amounts that `publish` reported of a queue, by resource, in whole units; empty without a report."""
    cpu, memory, scalar = _gauges(what)
    found: dict[str, Number] = {}
    for (name, labels), value in gauges.items():
        if name in (cpu, memory, scalar) and ("queue_name", queue) in labels and value:
            resource = "cpu" if name == cpu else "memory" if name == memory else dict(labels)["resource"]
            found[resource] = value / unit_of(resource)
    return dict(sorted(found.items()))


class Admission:
    """The promises to admitted jobs, and the amounts that a job could take from lesser ones, in one session.

    A job that was let in and fits nowhere does not keep others out: what it waits for counts no longer, until it has
    a place. And where an action preempts, a job may be let in for what it could take: else the pods for which room
    would be made are never there.
    """

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._locks = ssn.compat.lasting_admission
        self._preempts = not _PREEMPTING.isdisjoint(ssn.actions) and not ssn.compat.blind_admission
        self._lesser: dict[tuple[str, int], dict[int, Number]] = {}
        self._at = -1

    def promises(self, queue: Queue) -> list[tuple[Ledger, int]]:
        """The outstanding amounts of a queue's admitted jobs, in parts with their numbers."""
        known = (queue.inqueue.amounts, 1)
        return [known] if self._locks else [known, (queue.in_vain.amounts, -1)]

    def promised(self, queue: Queue) -> dict[int, Number]:
        """The same in one."""
        return added_up(self.promises(queue))

    def for_the_taking(self, job: Job) -> dict[int, Number]:
        """The amounts of preemptible jobs of less priority in the job's queue; empty if no action preempts."""
        if not self._preempts:
            return {}
        table = self._ssn.state.table
        if self._at != table.touched.position:
            self._lesser, self._at = {}, table.touched.position
        key = (job.queue, job.priority)
        known = self._lesser.get(key)
        if known is None:
            known = self._lesser[key] = {}
            for other in self._ssn.queues[job.queue].jobs.values():
                if other.priority < job.priority and other.held.amounts and other.preemptible:
                    added(known, other.held.amounts.items())
        return known

    def kind(self, job: Job) -> Hashable:
        """The part of a job that decides what it could take."""
        return (job.queue, job.priority) if self._preempts else None
