"""A shadow beside a simulated cluster: the same as beside a real one, on virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pumice.errors import PumiceError
from pumice.framework.registry import Registry
from pumice.model.events import ClusterEvent
from pumice.scheduler.assembly import Assembly, assemble
from pumice.shadow.beside import Shadow
from pumice.shadow.report import Difference, Report
from pumice.sim.run import Simulation
from pumice.sim.scenario import SimScenario

Tell = Callable[[Sequence[Difference], float], None]


def beside_simulation(
    scenario: SimScenario, running: str, candidate: Assembly, registry: Registry, tell: Tell | None = None
) -> Report:
    """Play a scenario under its configuration *running*, with the candidate beside it; *tell* hears of differences.

    :raises PumiceError: the run was stopped.
    """
    simulation = Simulation(scenario.setting_of(running), assemble(scenario.configurations[running], registry))
    shadow = Shadow(candidate, beside=running, now=0.0, seed=scenario.setting.seed, evicted=lambda _: True)
    begun = False

    def witness(events: Sequence[ClusterEvent]) -> None:
        nonlocal begun
        now = simulation.timeline.now
        if not begun:
            begun = True
            shadow.begin(events, now)
            return
        found = shadow.step(events, now)
        if tell is not None and found:
            tell(found, now)

    simulation.cluster.witness = witness
    simulation.run(scenario.workload())
    if simulation.failure:
        raise PumiceError(f"the run was stopped: {simulation.failure}")
    return shadow.report()
