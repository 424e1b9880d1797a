"""Queues: what each holds, deserves and may have, which jobs wait in it, and whether shares are as the conf says."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from pumice.framework.explaining.explain import waits
from pumice.framework.quota import published
from pumice.model.kai import KaiQueueSpec
from pumice.model.queue import Queue
from pumice.words import counted

Source = Literal["scheduler", "cycle", "manifests", "objects"]
"""The source of the answer: the running scheduler, a saved cycle, manifests, or objects in the cluster."""


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
    """The state of a queue at one instant; deserved amounts are known when the cycle is over."""

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


RECLAIMS: Final = ("reclaim", "gangreclaim")
"""Actions that take back what is borrowed."""
_MOST_LENDERS: Final = 5
_MOST_NAMED: Final = 4


class Loan(msgspec.Struct, frozen=True, kw_only=True):
    """The amount that a queue holds beyond its deserved amount, and the queues that leave it."""

    queue: str
    resource: str
    amount: float
    lenders: dict[str, float]
    """Queue -> what it deserves, and does not use: its part of the loan."""


class ShortQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that holds less of a resource than it deserves, and asks for more."""

    queue: str
    resource: str
    holds: float
    deserves: float
    asks: float
    short: float
    """The amount that it lacks of its share, as far as it asks for it."""
    borrowed_by: dict[str, float] = {}
    """Queue -> what it holds of this resource beyond its own part."""
    reasons: dict[str, int] = {}
    """Why the queue's jobs wait: the word for programs -> how many."""


class UnusedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part that its queue neither uses nor asks for."""

    queue: str
    resource: str
    deserves: float
    unused: float


class FairnessAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How evenly a cluster is shared at one instant, measured by what the conf says that queues deserve."""

    text: str
    """In a sentence."""
    short: list[ShortQueue]
    """Those furthest below their part first."""
    loans: list[Loan]
    """The largest part of what is deserved first."""
    unused: list[UnusedPart]
    reclaims: bool
    """Whether an action of the conf takes back borrowed amounts."""
    shared: bool
    """Whether a plugin sets deserved amounts of queues. If not, nothing can be said of fairness."""
    now: float
    source: Source = "scheduler"
    unseen: list[str] = []


def fairness_of(
    queues: Iterable[Standing],
    reasons: Mapping[str, Mapping[str, int]],
    actions: Collection[str],
    now: float,
    source: Source,
) -> FairnessAnswer:
    """Queues below their share, borrowing queues, and unused amounts; *reasons*: queue -> why its jobs wait."""
    leaves = leaves_of(queues)
    loans = loans_of(leaves)
    short = sorted(_short(leaves, loans, reasons), key=lambda one: (-one.short / one.deserves, one.queue, one.resource))
    shared, reclaims = any(True for _ in _shares(leaves)), any(name in RECLAIMS for name in actions)
    return FairnessAnswer(
        text=_in_words(short, loans, reclaims, shared),
        short=short,
        loans=loans,
        unused=sorted(_unused(leaves), key=lambda one: (-one.unused / one.deserves, one.queue, one.resource)),
        reclaims=reclaims,
        shared=shared,
        now=now,
        source=source,
    )


def leaves_of(queues: Iterable[Standing]) -> list[Standing]:
    """Queues that have none below them: what those above hold is theirs."""
    listed = list(queues)
    parents = {standing.parent for standing in listed}
    return [standing for standing in listed if standing.queue not in parents]


def loans_of(leaves: Sequence[Standing]) -> list[Loan]:
    """Borrowing between queues, by resource; the largest part of a resource first."""
    found: list[tuple[float, Loan]] = []
    for resource in sorted({share.resource for standing in leaves for share in standing.shares}):
        parts = [(queue, share) for queue, share in _shares(leaves) if share.resource == resource]
        idle = {queue: part for queue, share in parts if (part := (share.deserved or 0.0) - share.allocated) > 0}
        whole, deserved = sum(idle.values()), sum(share.deserved or 0.0 for _, share in parts)
        for queue, share in parts:
            if share.borrowed > 0:
                lenders = {name: share.borrowed * part / whole for name, part in idle.items()}
                largest = dict(sorted(lenders.items(), key=lambda item: -item[1])[:_MOST_LENDERS])
                loan = Loan(queue=queue, resource=resource, amount=share.borrowed, lenders=largest)
                found.append((share.borrowed / deserved if deserved else share.borrowed, loan))
    return [loan for _, loan in sorted(found, key=lambda entry: -entry[0])]


def _shares(leaves: Iterable[Standing]) -> Iterator[tuple[str, Share]]:
    """The resources of which queues have shares."""
    return ((one.queue, share) for one in leaves for share in one.shares if share.deserved is not None)


def _short(
    leaves: Iterable[Standing], loans: Iterable[Loan], reasons: Mapping[str, Mapping[str, int]]
) -> Iterator[ShortQueue]:
    borrowed: dict[str, dict[str, float]] = {}
    for loan in loans:
        borrowed.setdefault(loan.resource, {})[loan.queue] = loan.amount
    for queue, share in _shares(leaves):
        lacks = min((share.deserved or 0.0) - share.allocated, share.asked)
        if lacks > 0:
            yield ShortQueue(
                queue=queue,
                resource=share.resource,
                holds=share.allocated,
                deserves=share.deserved or 0.0,
                asks=share.asked,
                short=lacks,
                borrowed_by=borrowed.get(share.resource, {}),
                reasons=dict(reasons.get(queue, {})),
            )


def _unused(leaves: Iterable[Standing]) -> Iterator[UnusedPart]:
    for queue, share in _shares(leaves):
        deserved = share.deserved or 0.0
        unused = deserved - share.allocated - share.asked
        if unused > 0:
            yield UnusedPart(queue=queue, resource=share.resource, deserves=deserved, unused=unused)


def _in_words(short: Sequence[ShortQueue], loans: Sequence[Loan], reclaims: bool, shared: bool) -> str:
    if not shared:
        return "no plugin of the conf says what queues deserve, so nothing can be said of fairness"
    if not short:
        many = len({loan.queue for loan in loans})
        rest = f"; {counted(many, 'queue')} {'borrows' if many == 1 else 'borrow'} what others leave" if many else ""
        return f"no queue that asks for more holds less than it deserves{rest}"
    missed: dict[str, list[ShortQueue]] = {}
    for one in short:
        if one.borrowed_by:
            missed.setdefault(one.resource, []).append(one)
    if not missed:
        names = list(dict.fromkeys(one.queue for one in short))
        hold, ask = ("holds", "asks") if len(names) == 1 else ("hold", "ask")
        return f"{_listed(names)} {hold} less than deserved and {ask} for more, but nobody borrows"
    said = []
    for resource, those in missed.items():
        names, lenders = [one.queue for one in those], list(those[0].borrowed_by)
        hold, borrow = "holds" if len(names) == 1 else "hold", "borrows" if len(lenders) == 1 else "borrow"
        said.append(f"{_listed(names)} {hold} less {resource} than deserved while {_listed(lenders)} {borrow}")
    back = "reclaim takes back what is borrowed" if reclaims else "no action of the conf takes back what is borrowed"
    return f"{'; '.join(said)}; {back}"


def _listed(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMED:
        return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
