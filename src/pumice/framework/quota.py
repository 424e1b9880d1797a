"""How much more fits under a limit: what the plugins that share a cluster between queues have in common.

Ledgers and limits are mappings from dimension to ledger value. A check looks only at what is asked for (pod slots
aside) and is exact; a name that a limit does not list is not to be had at all.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

from pumice.framework.metrics import Metrics
from pumice.model.intents import Note
from pumice.model.queue import Queue
from pumice.model.resources import CPU, MEMORY, PODS, TOLERANCE, Number, dim_name, share
from pumice.model.task import Task

Ledger: TypeAlias = Mapping[int, Number]
Items: TypeAlias = Iterable[tuple[int, Number]]

UNLIMITED = sys.maxsize
"""As much room as anybody can ask for."""


def is_open(queue: Queue) -> bool:
    """Does the queue take new work? A queue whose state nobody has set does."""
    return queue.state in ("", "Open")


def lacking(limit: Ledger, used: Ledger, request: Items) -> list[str]:
    """Names in which *used* and *request* together exceed *limit*, sorted; empty when it fits."""
    return sorted(dim_name(d) for d, v in request if v > 0 and d != PODS and used.get(d, 0) + v > limit.get(d, 0))


def fits(limit: Ledger, used: Ledger, request: Items) -> bool:
    """Do *used* and *request* together stay within *limit*?"""
    return not any(v > 0 and d != PODS and used.get(d, 0) + v > limit.get(d, 0) for d, v in request)


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
    """Is *part* at most *whole* in every dimension, within the tolerance (missing counts as 0)?"""
    return all(v - whole.get(d, 0) < TOLERANCE for d, v in part.items())


def largest_share(used: Ledger, of: Items) -> float:
    """The largest share of *of* that is used; *of* lists what is more than a trace."""
    largest = 0.0
    for d, v in of:
        largest = max(largest, share(used.get(d, 0), v))
    return largest


def summed(tasks: Iterable[Task]) -> dict[int, Number]:
    """What several tasks ask for together."""
    total: dict[int, Number] = {}
    for task in tasks:
        for d, v in task.klass.items:
            total[d] = total.get(d, 0) + v
    return total


def added(into: dict[int, Number], what: Items, sign: int = 1) -> None:
    """Add (or with -1 take away) amounts, in place."""
    for d, v in what:
        into[d] = into.get(d, 0) + sign * v


def insufficient(names: Iterable[str]) -> str:
    """The text of a refusal for want of quota."""
    return "queue resource quota insufficient: " + ", ".join(f"insufficient {n}" for n in names)


def queue_notes(before: Mapping[str, str], now: Mapping[str, str]) -> list[Note]:
    """One warning on each queue whose problem is new; *before* and *now* map queues to what is wrong with them."""
    return [
        Note("Queue", name, "Warning", "InvalidQueue", text)
        for name, text in sorted(now.items())
        if before.get(name) != text
    ]


@lru_cache(maxsize=64)
def _gauges(what: str) -> tuple[str, str, str]:
    return f"queue_{what}_milli_cpu", f"queue_{what}_memory_bytes", f"queue_{what}_scalar_resources"


def publish(metrics: Metrics, queue: str, what: str, amounts: Ledger) -> None:
    """Publish a queue's amounts under the names that Volcano's dashboards know (``queue_allocated_milli_cpu`` …)."""
    cpu, memory, scalar = _gauges(what)
    name = ("queue_name", queue)
    gauges = metrics.gauges  # written directly: many of them, every cycle
    gauges[cpu, (name,)] = amounts.get(CPU, 0)
    gauges[memory, (name,)] = amounts.get(MEMORY, 0)
    for d, v in amounts.items():
        if d > MEMORY:
            gauges[scalar, (name, ("resource", dim_name(d)))] = v
