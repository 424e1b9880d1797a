"""How a queue stands: what it holds, deserves and may have, and who waits in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from pumice.framework.explaining.explain import waits
from pumice.framework.quota import published
from pumice.model.kai import KaiQueueSpec
from pumice.model.queue import Queue

Gauges: TypeAlias = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """One resource of a queue, in whole units as a manifest writes them."""

    resource: str
    allocated: float
    """Held by its pods."""
    asked: float
    """Asked for by its pods that wait."""
    deserved: float | None = None
    """Its part under the conf; None where nobody shares this."""
    guarantee: float | None = None
    capability: float | None = None
    """The most that it may ever hold; None: as much as there is."""

    @property
    def borrowed(self) -> float:
        """Held beyond what it deserves."""
        return max(self.allocated - self.deserved, 0.0) if self.deserved is not None else 0.0


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue stands."""

    queue: str
    parent: str
    state: str
    weight: int
    waiting: int
    """Jobs that wait for a place, or to be let in."""
    jobs: int
    shares: list[Share]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue holds at one instant; what it deserves is known when the cycle is over."""

    queue: Queue
    waiting: int
    allocated: dict[str, float]
    asked: dict[str, float]


def snapshot_of(queue: Queue) -> Snapshot:
    """A queue as it is now."""
    return Snapshot(
        queue=queue,
        waiting=sum(1 for job in queue.jobs.values() if waits(job)),
        allocated=dict(queue.allocated.as_written()),
        asked=dict(queue.pending.as_written()),
    )


def standing_of(taken: Snapshot, gauges: Gauges) -> Standing:
    """How a queue stands; *gauges* are what the plugins of a cycle published of it."""
    queue, allocated, asked = taken.queue, taken.allocated, taken.asked
    deserved = published(gauges, queue.name, "deserved") or queue.deserved.as_written()
    guarantee, capability = queue.guarantee.as_written(), queue.capability.as_written()
    spec = queue.object.spec
    unlimited = spec.unlimited if isinstance(spec, KaiQueueSpec) else frozenset[str]()
    told = (allocated, asked, deserved, guarantee, capability)
    names = {n for amounts in told for n, v in amounts.items() if v and n != "pods"}
    return Standing(
        queue=queue.name,
        parent=queue.parent,
        state=queue.state or "Open",
        weight=queue.weight,
        waiting=taken.waiting,
        jobs=len(queue.jobs),
        shares=[
            Share(
                resource=name,
                allocated=allocated.get(name, 0),
                asked=asked.get(name, 0),
                deserved=deserved.get(name, 0) if deserved and name not in unlimited else None,
                guarantee=guarantee.get(name),
                capability=capability.get(name),
            )
            for name in sorted(names, key=lambda n: ("/" not in n, n))
        ],
    )
