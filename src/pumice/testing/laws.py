"""The laws that every cycle of a scenario must keep, whatever its plugins are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pumice.framework.compat import PUMICE
from pumice.model.intents import Bind, Evict
from pumice.model.resources import dim_name
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations


class Watch:
    """Looks at the state before and after each cycle and remembers every broken law."""

    def __init__(self) -> None:
        self._idle: npt.NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self._broken: list[str] = []
        self._cycle = 0

    def before(self, state: ClusterState) -> None:
        """A cycle begins."""
        self._cycle += 1
        self._idle = state.table.idle.copy()

    def after(self, state: ClusterState, assembly: Assembly, report: CycleReport) -> None:
        """A cycle ended; its intents are not carried out yet."""
        found = [*self._over_committed(state), *_for_nothing(assembly, report)]
        if any(info.name == "gang" for tier in assembly.plugins for info, _, _ in tier):
            found += _half_gangs(state, report)
        self._broken += [f"cycle {self._cycle}: {text}" for text in found + violations(state)]

    def broken(self, state: ClusterState) -> list[str]:
        """Every law that was broken so far, or is now."""
        return self._broken + violations(state)

    def _over_committed(self, state: ClusterState) -> list[str]:
        """Nodes that the cycle itself took more from than they had."""
        table, before = state.table, self._idle
        now = table.idle[: before.shape[0], : before.shape[1]]
        out = []
        for d, row in np.argwhere((now < 0) & (now < before)).tolist():
            node = table.nodes[row]
            name = node.name if node is not None else f"row {row}"
            out.append(f"node {name}: {dim_name(d)} is over-committed by {-int(now[d, row])}")
        return out


def _half_gangs(state: ClusterState, report: CycleReport) -> list[str]:
    jobs = {state.jobs[i.job] for i in report.intents if isinstance(i, Bind) and i.job in state.jobs}
    return [
        f"job {job.uid}: {job.ready_count} tasks have a place, its gang needs {job.min_available}"
        for job in sorted(jobs, key=lambda j: j.uid)
        if not job.is_ready
    ]


def _for_nothing(assembly: Assembly, report: CycleReport) -> list[str]:
    """Evictions whose beneficiary got nothing for them."""
    if assembly.compat != PUMICE:
        return []
    helped = {i.job for i in report.intents if isinstance(i, Bind)} | set(report.pipelined)
    return [
        f"pod {i.pod} was evicted for {i.beneficiary}, which got no place"
        for i in report.intents
        if isinstance(i, Evict) and i.beneficiary and i.beneficiary not in helped
    ]
