"""The tree of queues: what each is entitled to, asks for and holds, in the amounts that quotas count."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, TypeAlias

from pumice.model.gpu import WHOLE
from pumice.model.kai import KaiQueueSpec, QueueResource, QueueResources
from pumice.model.queue import Queue
from pumice.model.resources import CPU, MEMORY, Resources, dim

Amounts: TypeAlias = tuple[float, float, float]
"""(cpu, memory, gpu)."""
NAMES: Final = ("cpu", "memory", "gpu")
NOTHING: Final[Amounts] = (0.0, 0.0, 0.0)
UNLIMITED: Final = -1.0
GPU: Final = 2
GPU_NAMES: Final = ("nvidia.com/gpu", "amd.com/gpu")


def plus(a: Amounts, b: Amounts) -> Amounts:
    """The sum."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def minus(a: Amounts, b: Amounts) -> Amounts:
    """The difference."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def total(all_of: Iterable[Amounts]) -> Amounts:
    """The sum of several."""
    cpu = memory = gpu = 0.0
    for a in all_of:
        cpu, memory, gpu = cpu + a[0], memory + a[1], gpu + a[2]
    return (cpu, memory, gpu)


def finite(limit: float) -> float:
    """A limit as a number to compare with."""
    return math.inf if limit == UNLIMITED else limit


_SLACK: Final = 1e-9
"""Sums of fractions of a GPU are not exact."""


def with_slack(limits: Amounts) -> Amounts:
    """Limits to compare sums with: what is at most these is `within`."""
    cpu, memory, gpu = limits
    return (finite(cpu) + _SLACK, finite(memory) + _SLACK, finite(gpu) + _SLACK)


def within(a: Amounts, limits: Amounts) -> bool:
    """Report whether it is at most the limits in every resource."""
    x, y, z = limits
    return (
        (x == UNLIMITED or a[0] <= x + _SLACK)
        and (y == UNLIMITED or a[1] <= y + _SLACK)
        and (z == UNLIMITED or a[2] <= z + _SLACK)
    )


def exceeds(a: Amounts, limits: Amounts, of: Iterable[int] = range(3)) -> bool:
    """Report whether it is above the limits in some resource, of those that count."""
    for n in of:  # noqa: SIM110 - asked all the time
        if limits[n] != UNLIMITED and a[n] > limits[n] + _SLACK:
            return True
    return False


_MEGA: Final = 1_000_000
_SAYS_NOTHING: Final = QueueResources()


class QueueView:
    """One queue: quota, limit and weight per resource (cpu, memory, gpu), and its sums over everything below it."""

    def __init__(self, queue: Queue, unset: float = UNLIMITED) -> None:
        """*unset*: a limit that is not given."""
        spec = queue.object.spec
        self.queue = queue
        self.name = queue.name
        self.uid = queue.object.metadata.uid or queue.name
        self.creation = queue.creation
        self.parent: QueueView | None = None
        self._chain: tuple[QueueView, ...] = ()
        self.children: list[QueueView] = []
        self.partings: dict[str, tuple[QueueView, QueueView]] = {}
        """Queue -> where its chain and that of this one part, kept."""
        self.priority = spec.priority
        self.quota: Amounts
        self.limit: Amounts
        self.weight: Amounts
        if isinstance(spec, KaiQueueSpec):
            given = spec.resources or _SAYS_NOTHING
            parts: tuple[QueueResource, ...] = (given.cpu, given.memory, given.gpu)
            self.quota = _amounts(parts[0].quota, parts[1].quota, parts[2].quota)
            cpu, memory, gpu = (unset if part.limit is None else part.limit for part in parts)
            self.limit = _amounts(cpu, memory, gpu)
            self.weight = (parts[0].over_quota_weight, parts[1].over_quota_weight, parts[2].over_quota_weight)
        else:  # Volcano's: what is deserved is the quota, what it may hold at most the limit
            self.quota = _of_resources(queue.deserved, 0.0)
            self.limit = _of_resources(queue.capability, UNLIMITED)
            self.weight = (float(queue.weight), float(queue.weight), float(queue.weight))
        self.request: Amounts = NOTHING
        self.allocated: Amounts = NOTHING
        self.non_preemptible: Amounts = NOTHING
        """The part of *allocated* that is held by work that cannot be evicted."""
        self.usage: Amounts = NOTHING
        """Its part of what the cluster could have given in the past, 0 to 1."""
        self.allocatable: Amounts
        """The most that it may hold without being reclaimed from."""
        self.fair_share = NOTHING

    @property
    def fair_share(self) -> Amounts:
        """Its share of the total."""
        return self._fair_share

    @fair_share.setter
    def fair_share(self, share: Amounts) -> None:
        self._fair_share = share
        a, b, c = (
            limit if quota == UNLIMITED else _least(limit, max(quota, fair))
            for limit, quota, fair in zip(self.limit, self.quota, share, strict=True)
        )
        self.allocatable = (a, b, c)

    @property
    def is_leaf(self) -> bool:
        """Report whether it has no queue below it. Only then it has jobs."""
        return not self.children

    def chain(self) -> tuple[QueueView, ...]:
        """Itself and every queue above, from the bottom."""
        if not self._chain:
            self._chain = (self, *(self.parent.chain() if self.parent is not None else ()))
        return self._chain

    def __repr__(self) -> str:
        return f"<QueueView {self.name}>"


def _of_resources(resources: Resources, missing: float) -> Amounts:
    """Amounts of a Volcano queue; *missing*: what holds for a name that it does not have."""
    known = dict(resources.items())
    gpus = [known[d] for d in (dim(name) for name in GPU_NAMES) if d in known]
    return (
        float(known.get(CPU, missing)),
        float(known.get(MEMORY, missing)),
        float(sum(gpus)) / WHOLE if gpus else missing,
    )


def _least(limit: float, amount: float) -> float:
    return min(finite(limit), amount)


def _amounts(cpu: float, memory: float, gpu: float) -> Amounts:
    return (float(cpu), UNLIMITED if memory < 0 else float(memory) * _MEGA, float(gpu))


def diverge(one: QueueView, other: QueueView) -> tuple[QueueView, QueueView]:
    """The two queues, above or at the given ones, at which their chains part."""
    known = one.partings.get(other.name)
    if known is None:
        pairs = zip(reversed(one.chain()), reversed(other.chain()), strict=False)
        known = one.partings[other.name] = next(((a, b) for a, b in pairs if a is not b), (one, other))
    return known


DEEPEST: Final = 100
"""So many queues may stand above one another."""


def queue_tree(queues: Iterable[QueueView]) -> dict[str, QueueView]:
    """Queues by name, each with those above and below it; a queue whose chain is broken is left out."""
    found = {q.name: q for q in queues if q.name}
    parents = {name: view.queue.object.spec.parent for name, view in found.items()}
    if "root" not in found:  # which Volcano means without there being one
        parents = {name: "" if parent == "root" else parent for name, parent in parents.items()}

    def whole(name: str) -> bool:
        seen: set[str] = set()
        while name:
            if name in seen or name not in parents or len(seen) >= DEEPEST:
                return False
            seen.add(name)
            name = parents[name]
        return True

    kept = {name: view for name, view in found.items() if whole(name)}
    for name, view in kept.items():
        parent = kept.get(parents[name])
        view.parent = parent
        if parent is not None:
            parent.children.append(view)
    return kept


def side_by_side(queues: Iterable[QueueView]) -> dict[str, QueueView]:
    """Queues by name, none above another; without those on top of others, which stand for no work of their own."""
    found = {q.name: q for q in queues if q.name}
    above = {q.queue.object.spec.parent for q in found.values()}
    return {name: view for name, view in found.items() if view.queue.object.spec.parent or name not in above}
