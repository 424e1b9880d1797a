"""What one cycle of a scenario decided, and why the rest was not served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pumice.model.intents import Bind, Evict, Intent, Nominate
from pumice.notebook import html_table
from pumice.scheduler.report import CycleReport


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job was not served: the reason that stopped it, who gave it, and what its tasks ran into on the nodes."""

    reason: str = ""
    plugin: str = ""
    stage: str = ""
    tasks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Everything that was said."""
        said = list(dict.fromkeys(t for t in (self.reason, *self.tasks) if t))
        return "; ".join(t for t in said if not any(t is not other and other.startswith(t) for other in said))

    def __bool__(self) -> bool:
        return bool(self.text)


class Cycle:
    """One cycle's outcome. Names of jobs and pods in ``default`` may be given without their namespace."""

    def __init__(self, report: CycleReport) -> None:
        self.report = report
        self.looked_at = False
        """Has the test asked for `errors`?"""

    @property
    def intents(self) -> Sequence[Intent]:
        """What was decided: binds, evictions and nominations, in order."""
        return [i for i in self.report.intents if isinstance(i, (Bind, Evict, Nominate))]

    @property
    def updates(self) -> Sequence[Intent]:
        """What was merely written down: statuses and notes."""
        return [i for i in self.report.intents if not isinstance(i, (Bind, Evict, Nominate))]

    @property
    def binds(self) -> dict[str, str]:
        """Pod -> node."""
        return self.report.binds

    @property
    def evictions(self) -> list[str]:
        """Evicted pods, in order."""
        return self.report.evictions

    @property
    def pipelined(self) -> dict[str, str]:
        """Pod -> node, for tasks that wait for room that is being released."""
        return {pod: node for tasks in self.report.pipelined.values() for pod, node in tasks.items()}

    @property
    def errors(self) -> list[str]:
        """What plugins did wrong. A test that asks for it knows of the cycle's errors, and no longer fails of them."""
        self.looked_at = True
        return self.report.errors

    def gauge(self, name: str, **labels: str) -> float | None:
        """The value of a gauge that a plugin published, or None."""
        return self.report.gauges.get((name, tuple(sorted(labels.items()))))

    def counter(self, name: str, **labels: str) -> float:
        """The value of a counter that a plugin published."""
        return self.report.counters.get((name, tuple(sorted(labels.items()))), 0)

    def why(self, job: str) -> Why:
        """Why a job was not served; empty when nothing stood in its way."""
        uid = job if "/" in job else f"default/{job}"
        refusal = self.report.refusals.get(uid)
        unfit = tuple(dict.fromkeys(str(error) for error in self.report.fit_errors.get(uid, {}).values()))
        if refusal is not None:
            return Why(refusal.text, refusal.plugin, refusal.stage, unfit)
        return Why(unfit[0] if unfit else "", "", "nodes" if unfit else "", unfit)

    def _repr_html_(self) -> str:
        waiting = [(uid, self.why(uid)) for uid in dict.fromkeys([*self.report.refusals, *self.report.fit_errors])]
        rows = [[pod, "placed", node] for pod, node in self.binds.items()]
        rows += [[pod, "placed when room is free", node] for pod, node in self.pipelined.items()]
        rows += [[pod, "evicted", ""] for pod in self.evictions]
        rows += [[uid, "pending", why.text] for uid, why in waiting]
        return html_table(("pod or job", "decision", "node or reason"), rows, "Cycle", self.report.errors)
