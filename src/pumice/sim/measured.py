"""Measurements of the nodes of a simulated cluster: the use of pods that have run for a while."""

from __future__ import annotations

import re
from typing import Any, Final

from pumice.config.durations import SECOND, parse_duration
from pumice.config.schema import SchedulerConf
from pumice.errors import InvalidInput
from pumice.model import keys
from pumice.model.resources import CPU, MEMORY
from pumice.sim.cluster import SimCluster, SimPod

READERS: Final = frozenset({"usage", "rescheduling"})
"""The plugins that read measurements."""
_SHARE: Final = re.compile(r"([0-9]{1,4})%", re.ASCII)


class SimMeasuring:
    """Measures as often as the conf says, once in thirty seconds if it does not; only where a plugin reads it."""

    def __init__(self, conf: SchedulerConf) -> None:
        self.wanted = any(listed.plugin.name in READERS for listed in conf.listed())
        self.interval = _interval(conf)
        self._last: dict[str, Any] | None = None

    def environment(self, cluster: SimCluster, now: float) -> dict[str, Any] | None:
        """The measurements for plugins at this time; None if no plugin reads them."""
        if not self.wanted:
            return None
        last = self._last
        if last is None or now - last["usage_time"] >= self.interval:
            last = self._last = {
                "usage_interval": self.interval,
                "usage_time": now,
                "node_usage": {name: self._percent(cluster, name, now) for name in sorted(cluster.nodes)},
            }
        return last

    def _percent(self, cluster: SimCluster, name: str, now: float) -> dict[str, float]:
        node = cluster.nodes[name]
        seen = [p for p in node.pods.values() if p.started is not None and now - p.started >= self.interval]
        used = {"cpu": 0.0, "memory": 0.0}
        for pod in seen:
            part = share_of(pod)
            used["cpu"] += part * pod.kind.demand.cpu_milli
            used["memory"] += part * pod.kind.demand.memory_bytes
        whole = {"cpu": node.whole.get(CPU, 0), "memory": node.whole.get(MEMORY, 0)}
        return {what: min(100.0 * used[what] / whole[what], 100.0) if whole[what] else 0.0 for what in used}


def share_of(pod: SimPod) -> float:
    """The part of what a pod asks for that it really uses: all of it, unless its annotation says so."""
    found = _SHARE.fullmatch((pod.kind.annotations or {}).get(keys.SIM_USES_ANNOTATION, "100%"))
    return int(found[1]) / 100 if found is not None else 1.0


def _interval(conf: SchedulerConf) -> float:
    try:
        found = parse_duration(conf.metrics.get("interval") or "30s") / SECOND
    except InvalidInput:
        found = 0.0
    return found if found > 0 else 30.0
