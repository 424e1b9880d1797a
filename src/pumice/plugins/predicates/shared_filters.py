"""The filters of Kubernetes that both dialects ask, in one table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from pumice.engine.affinity.neighbours import Neighbours
from pumice.engine.scope import Scope, skip_unless
from pumice.engine.views import same_class
from pumice.framework.points.callback import EventHandler
from pumice.framework.session.session import Session
from pumice.model.task import Task
from pumice.plugins.predicates.affinity_filter import PodAffinityFilter
from pumice.plugins.predicates.ports import HostPorts, has_ports
from pumice.plugins.predicates.spread import HardSpread, has_hard_spread
from pumice.plugins.predicates.task_claims import has_claims
from pumice.plugins.predicates.volumes import Volumes
from pumice.state.classes import Feature


class SharedFilter(NamedTuple):
    """A filter made for a session."""

    fn: Callable[..., Any]
    applies: Callable[[Task], bool]
    """Report whether it has something to say of a task."""
    key: Callable[[Task], Hashable]
    scope: Scope = Scope.SESSION


class FilterRow(NamedTuple):
    """A row of the table: a filter by kube-scheduler's name."""

    name: str
    feature: Feature
    """The parts that pods of the cluster must use before it is asked."""
    make: Callable[[Session], SharedFilter]
    kai: bool = True
    """Report whether KAI's dialect asks it too."""


def _claims(make: Callable[[Volumes, Session], Callable[..., Any]], ssn: Session) -> SharedFilter:
    volumes = volumes_of(ssn)
    return SharedFilter(make(volumes, ssn), has_claims, skip_unless(has_claims))


def volumes_of(ssn: Session) -> Volumes:
    """The volumes of a session's cluster, with what is promised of them."""
    volumes = Volumes.kept(ssn.runtime.kept, ssn.state)
    volumes.promised = ssn.memory.setdefault("volumes", {})
    volumes.forget_settled()
    return volumes


def _binding(volumes: Volumes, ssn: Session) -> Callable[..., Any]:
    ssn.prepare_binds(volumes.choices)
    ssn.add_event_handler(EventHandler(volumes.placed, volumes.taken_back, volumes.placed_many))
    return volumes.binding


def _ports(ssn: Session) -> SharedFilter:
    ports = HostPorts.kept(ssn.runtime.kept, ssn.state.table)
    return SharedFilter(ports.filter, has_ports, same_class, Scope.NODE)


def _affinity(ssn: Session) -> SharedFilter:
    affinity = PodAffinityFilter(Neighbours.kept(ssn.runtime.kept, ssn.state))
    return SharedFilter(affinity.filter, affinity.applies, affinity.key)


def _spread(ssn: Session) -> SharedFilter:
    spread = HardSpread(Neighbours.kept(ssn.runtime.kept, ssn.state))
    return SharedFilter(spread.filter, has_hard_spread, skip_unless(has_hard_spread))


_VOLUMES: Final = Feature.VOLUME_CLAIMS
TABLE: Final = (
    FilterRow("NodePorts", Feature.HOST_PORTS, _ports),
    FilterRow("PodAffinity", Feature.NEIGHBOURS, _affinity),
    FilterRow("PodTopologySpread", Feature.NEIGHBOURS, _spread),
    FilterRow("VolumeRestrictions", _VOLUMES, partial(_claims, lambda v, _: v.once_pod.filter)),
    FilterRow("NodeVolumeLimits", _VOLUMES, partial(_claims, lambda v, _: v.attachments.filter), kai=False),
    FilterRow("VolumeZone", _VOLUMES, partial(_claims, lambda v, _: v.zones), kai=False),
    FilterRow("VolumeBinding", _VOLUMES, partial(_claims, _binding)),
)


def shared_filters(ssn: Session, wanted: Callable[[FilterRow], bool]) -> Iterator[SharedFilter]:
    """The filters of the table that pods of the cluster need, of those that are *wanted*."""
    used = ssn.state.classes.features
    for row in TABLE:
        if row.feature in used and wanted(row):
            yield row.make(ssn)
