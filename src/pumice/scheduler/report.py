"""CycleReport: what a cycle decided, why the rest was not served, and where its time went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pumice.engine.diagnosis import FitError
from pumice.framework.metrics import Histogram, Series
from pumice.framework.session.outcome import Refusal
from pumice.model.intents import Bind, Evict, Intent, Nominate


@dataclass(slots=True)
class CycleReport:
    """The outcome of one cycle."""

    now: float
    conf_digest: str
    intents: list[Intent]
    refusals: Mapping[str, Refusal]
    fit_errors: Mapping[str, dict[str, FitError]]
    pipelined: dict[str, dict[str, str]]
    """Job -> pod -> node, for tasks that wait for room that is being released."""
    statuses: dict[str, dict[str, int]]
    """Job -> status -> tasks, when the cycle ended."""
    phases: dict[str, str]
    timings: dict[tuple[str, str], float]
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    gauges: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    counters: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    histograms: dict[Series, Histogram] = field(default_factory=dict)

    @property
    def binds(self) -> dict[str, str]:
        """Pod -> node."""
        return {i.pod: i.node for i in self.intents if isinstance(i, Bind)}

    @property
    def evictions(self) -> list[str]:
        """Pods to be evicted, in order."""
        return [i.pod for i in self.intents if isinstance(i, Evict)]

    @property
    def nominations(self) -> dict[str, str]:
        """Pod -> node that is being freed for it."""
        return {i.pod: i.node for i in self.intents if isinstance(i, Nominate) and i.node}
