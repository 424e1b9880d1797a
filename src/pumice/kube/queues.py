"""What queues hold, for their status: each queue's own, and in a tree of queues what is below it too."""

from __future__ import annotations

from pumice.errors import InvalidInput
from pumice.model.intents import StatusUpdate
from pumice.model.queue import Queue
from pumice.model.resources import Number, Resources, amount_text, dim_name
from pumice.state.cluster import ClusterState

EVERY = 1.0
"""Seconds between two looks at the queues."""


class QueueStatuses:
    """The queue statuses that are out of date."""

    def __init__(self) -> None:
        self._looked = float("-inf")

    def updates(self, state: ClusterState) -> list[StatusUpdate]:
        """What to write; nothing for queues whose status says it already, or if it was looked at a moment ago."""
        if 0 <= state.now - self._looked < EVERY:
            return []
        self._looked = state.now
        found = []
        for name, held in _sums(state).items():
            written = state.queues[name].object.status.allocated or {}
            if _written(written) != {d: v for d, v in held.items() if v}:
                allocated = {**dict.fromkeys(written, "0"), **{dim_name(d): amount_text(d, v) for d, v in held.items()}}
                found.append(StatusUpdate("Queue", name, {"allocated": dict(sorted(allocated.items()))}))
        return found


def _sums(state: ClusterState) -> dict[str, dict[int, Number]]:
    """Queue -> ledger of what its tasks hold; with a root, of what is below it as well."""
    sums: dict[str, dict[int, Number]] = {name: dict(queue.allocated.items()) for name, queue in state.queues.items()}
    if "root" in state.queues:
        for queue in state.queues.values():
            for above in _ancestors(state, queue):
                into = sums[above]
                for d, v in queue.allocated.items():
                    into[d] = into.get(d, 0) + v
    return sums


def _ancestors(state: ClusterState, queue: Queue) -> list[str]:
    """The queues above one; parents that are missing, or form a ring, end the way."""
    found: list[str] = []
    name = queue.parent
    while name in state.queues and name not in found and name != queue.name:
        found.append(name)
        name = state.queues[name].parent
    return found


def _written(allocated: dict[str, str | int | float]) -> dict[int, Number] | None:
    try:
        return {d: v for d, v in Resources.parse(allocated).items() if v}
    except InvalidInput:
        return None
