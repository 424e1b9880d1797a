"""A rehearsal: plugins of your own play one cycle of a conf on a small made-up cluster, and what they raise is told.

Trying a plugin (`trying.py`) opens it; this also asks it. Built-in plugins stay away, so that no call leaves the
process and nothing but the author's code can be at fault. The trial's cluster is not the author's: a failure there is a
warning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.model.api import (
    Container,
    Metadata,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from pumice.model.events import Seen
from pumice.model.task import GROUP_ANNOTATION
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.trying import made_up
from pumice.state.cluster import ClusterState

_GUARD: Final = logging.getLogger("pumice.framework")


def rehearse(assembly: Assembly) -> list[str]:
    """The failures and wrong answers of user plugins in one cycle; a line each, at the author's line."""
    own = [[plugin for plugin in tier if not plugin[0].built_in] for tier in assembly.plugins]
    if not any(own):
        return []
    told: dict[tuple[str, str, str], str] = {}

    def look(session: Session) -> None:
        for error in session.errors:
            kind, _, _ = error.detail.partition(" for task ")
            told.setdefault(
                (error.plugin, error.point, error.where),
                f"{error.where}: plugin {error.plugin!r}: {error.point}: {kind}, on a made-up cluster of two nodes",
            )

    with _unheard():
        run_cycle(
            _cluster(),
            replace(assembly, plugins=own),
            Runtime(),
            environment={"describes": True},
            details=True,
            inspect=look,
        )
    return list(told.values())


@contextmanager
def _unheard() -> Iterator[None]:
    """Failures that are contained meanwhile are not logged as well."""

    def nothing(_: logging.LogRecord) -> bool:
        return False

    _GUARD.addFilter(nothing)
    try:
        yield
    finally:
        _GUARD.removeFilter(nothing)


def _cluster() -> ClusterState:
    """The cluster on which plugins are tried, with a job that runs and two more that were let in."""
    state = made_up()
    for name, node, cpu in (("running", "made-up-0", 1), ("second", "", 1), ("third", "", 2)):
        asked = ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"})
        group = PodGroup(
            metadata=Metadata(name=name, namespace="made-up"),
            spec=PodGroupSpec(min_member=1, queue="default"),
            status=PodGroupStatus(phase="Running" if node else "Inqueue"),
        )
        state.apply(Seen(group))
        pod = Pod(
            metadata=Metadata(name=f"{name}-0", namespace="made-up", annotations={GROUP_ANNOTATION: name}),
            spec=PodSpec(containers=(Container(name="main", resources=asked),), node_name=node),
            status=PodStatus(phase="Running" if node else "Pending"),
        )
        state.apply(Seen(pod))
    return state
