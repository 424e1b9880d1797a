"""Everything that the pages show of one instant, taken in one dry cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pumice.answers.desk import Desk
from pumice.answers.standing import Snapshot, Standing, snapshot_of, standing_of
from pumice.framework.explaining.explain import absent, waits
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.job import Job
from pumice.model.node import Node

Amounts = dict[str, float]


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job, in a line."""

    job: str
    namespace: str
    queue: str
    since: float
    pods: int
    needs: int
    ready: int
    holds: Amounts
    asks: Amounts
    waits: bool = False
    place: int = 0
    """Among those who wait in its queue."""
    reason: str = ""
    """The word for programs."""
    text: str = ""


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node, in a tile."""

    name: str
    has: Amounts
    used: Amounts
    pods: int
    closed: bool = False
    """Takes no new pods."""


class PluginRow(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin of the conf and how it does."""

    name: str
    tier: int
    failures: int = 0
    quarantined: bool = False
    last: str = ""


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """One instant, as the next cycle would leave it. Nothing is left out: `seen_by` says what somebody may see."""

    now: float
    source: str
    conf: str
    actions: list[str]
    plugins: list[PluginRow]
    jobs: list[JobRow]
    queues: list[Standing]
    nodes: list[NodeRow]


def take_survey(desk: Desk) -> Survey:
    """Look at everything, as the next cycle would leave it. Costs a cycle, and a look at every job and node."""
    snapshots: list[Snapshot] = []
    jobs: list[JobRow] = []
    nodes: list[NodeRow] = []

    def inspect(ssn: Session) -> None:
        snapshots.extend(snapshot_of(queue) for _, queue in sorted(ssn.queues.items()))
        places = _places(ssn)
        for job in ssn.state.jobs.values():
            jobs.append(_row(ssn, job, places.get(job.uid, 0)))
        nodes.extend(_node(name, node) for name, node in sorted(ssn.state.nodes.items()))

    gauges = desk.look(inspect).gauges
    state, conf = desk.state, desk.assembly.conf
    health = desk.runtime.health
    return Survey(
        now=state.now,
        source=desk.source,
        conf=conf.digest,
        actions=list(conf.actions),
        plugins=[
            PluginRow(
                name=option.name,
                tier=number,
                failures=health[option.name].failures if option.name in health else 0,
                quarantined=health[option.name].quarantined if option.name in health else False,
                last=health[option.name].last if option.name in health else "",
            )
            for number, tier in enumerate(conf.tiers, 1)
            for option in tier.plugins
        ],
        jobs=jobs,
        queues=[standing_of(snapshot, gauges) for snapshot in snapshots],
        nodes=nodes,
    )


def _node(name: str, node: Node) -> NodeRow:
    return NodeRow(
        name=name,
        has=dict(node.allocatable.as_written()),
        used=dict(node.used.as_written()),
        pods=len(node.tasks),
        closed=node.unschedulable,
    )


def _places(ssn: Session) -> dict[str, int]:
    key = ssn.orders.job_key()
    found: dict[str, int] = {}
    for queue in ssn.queues.values():
        waiting: Sequence[Job] = sorted(filter(waits, queue.jobs.values()), key=key)
        found.update((job.uid, number) for number, job in enumerate(waiting, 1))
    return found


def _row(ssn: Session, job: Job, place: int) -> JobRow:
    waiting, refusal = waits(job) or not job.in_session, ssn.outcome.refusals.get(job.uid)
    reason, text = "", ""
    if waiting:
        reason, text = str(ReasonCode.NOT_TRIED), "not looked at in this cycle"
        if not job.in_session:
            text, reason, _ = absent(ssn, job)
        elif refusal is not None:
            reason, text = str(refusal.code), refusal.text
        elif job.ready_count >= job.min_available:
            reason, text = "", "starts now"
    return JobRow(
        job=job.uid,
        namespace=job.namespace,
        queue=job.queue,
        since=job.creation,
        pods=len(job.tasks),
        needs=job.min_available,
        ready=job.ready_count,
        holds=_whole(job.allocated.as_written()),
        asks=_whole(job.pending.as_written()),
        waits=waiting,
        place=place,
        reason=reason,
        text=text,
    )


def _whole(amounts: Mapping[str, float]) -> Amounts:
    return {name: value for name, value in amounts.items() if value and name != "pods"}
