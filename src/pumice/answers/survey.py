"""Everything that the pages show of one instant, taken in one dry cycle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pumice.answers.jobs import Amounts, JobRow, job_rows
from pumice.answers.queues import Snapshot, Standing, snapshot_of, standing_of
from pumice.answers.service import Answers
from pumice.config.explain import conf_text
from pumice.framework.session.session import Session
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.state.cluster import ClusterState


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node, in a line or a tile."""

    name: str
    state: str = "Ready"
    """Ready, NotReady, or Cordoned."""
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


class QueueSetting(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a queue's object, as written there."""

    queue: str
    weight: int
    deserved: dict[str, str]
    capability: dict[str, str]


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """One instant, as the next cycle would leave it. Nothing is left out: `seen_by` says what a reader may see."""

    now: float
    source: str
    conf: str
    """Its digest."""
    conf_text: str
    """Without secrets."""
    actions: list[str]
    plugins: list[PluginRow]
    jobs: list[JobRow]
    queues: list[Standing]
    settings: list[QueueSetting]
    nodes: list[NodeRow]


def take_survey(answers: Answers, also: Callable[[Session], None] | None = None) -> Survey:
    """Look at everything, as the next cycle would leave it; *also* is shown the session.

    Costs a cycle, and a look at every job and node.
    """
    snapshots: list[Snapshot] = []
    jobs: list[JobRow] = []
    nodes: list[NodeRow] = []

    def inspect(ssn: Session) -> None:
        snapshots.extend(snapshot_of(queue) for _, queue in sorted(ssn.queues.items()))
        jobs.extend(job_rows(ssn, ssn.state.jobs.values()))
        if also is not None:
            also(ssn)
        nodes.extend(node_row(ssn.state, name, node) for name, node in sorted(ssn.state.nodes.items()))

    gauges = answers.look(inspect).gauges
    state, conf = answers.state, answers.cycle.assembly.conf
    health = answers.cycle.runtime.health
    return Survey(
        now=state.now,
        source=answers.source,
        conf=conf.digest,
        conf_text=conf_text(conf),
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
        settings=[_setting(queue) for _, queue in sorted(state.queues.items())],
        nodes=nodes,
    )


def _setting(queue: Queue) -> QueueSetting:
    spec = queue.object.spec
    return QueueSetting(
        queue=queue.name, weight=spec.weight, deserved=_written(spec.deserved), capability=_written(spec.capability)
    )


def _written(amounts: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: f"{a:g}" if isinstance(a, float) else str(a) for name, a in (amounts or {}).items()}


def node_row(state: ClusterState, name: str, node: Node) -> NodeRow:
    """Return the row of a node."""
    ready = next((c.status for c in node.object.status.conditions or () if c.type == "Ready"), "True")
    return NodeRow(
        name=name,
        state="Cordoned" if node.unschedulable else "Ready" if ready == "True" else "NotReady",
        has=dict(node.allocatable.as_written()),
        used=dict(state.devices.used_on(node).as_written()),
        pods=len(node.tasks),
        closed=node.unschedulable,
    )
