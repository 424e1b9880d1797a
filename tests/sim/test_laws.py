"""Laws of the simulator: the same run twice, and small workloads against simulators that are too simple to be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.model.intents import Intent
from pumice.ports import Observer
from pumice.sim.cluster import Delays
from pumice.sim.faults import Faults, PlannedFault
from pumice.sim.results import encode
from pumice.sim.traces import TraceJob
from pumice.state.invariants import violations
from sim.worlds import by_name, job, nodes, simulation, specs

pytestmark = pytest.mark.law

PROCESSORS = 8

Workload = list[tuple[int, int, int]]
"""(submit, run time, processors)"""
workloads: st.SearchStrategy[Workload] = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(1, PROCESSORS)), min_size=1, max_size=14
)


def jobs_of(workload: Workload) -> list[TraceJob]:
    """Jobs whose names stand in the order of submission."""
    return [
        job(f"j-{n:02d}", submit, run, cpu=size, run_time_declared_s=float(run))
        for n, (submit, run, size) in enumerate(sorted(workload))
    ]


def starts_of(workload: Workload, conf: dict[str, Any], strategy: str) -> list[float | None]:
    """What the real scheduler does on one machine."""
    run = simulation(nodes(1, cpu=PROCESSORS), conf=conf, strategy=strategy, settle=False)
    record = run.run(specs(jobs_of(workload)))
    assert not run.failure
    assert violations(run.loop.state) == []
    return [j.start for j in by_name(record).values()]


def simple_starts(workload: Workload, policy: str) -> list[float | None]:
    """The same by hand: every second, ends, then arrivals, then the policy."""
    jobs = sorted(workload)
    start: list[float | None] = [None] * len(jobs)
    waiting: list[int] = []
    for now in range(2000):
        waiting += [n for n, (submit, _, _) in enumerate(jobs) if submit == now]
        if policy.startswith("sjf"):
            waiting.sort(key=lambda n: (jobs[n][1], jobs[n][0], n))
        running = {n: s + jobs[n][1] for n, s in enumerate(start) if s is not None and s + jobs[n][1] > now}
        free = PROCESSORS - sum(jobs[n][2] for n in running)
        shadow = extra = None
        for n in list(waiting):
            _, length, size = jobs[n]
            late = shadow is not None and now + length > shadow
            if size <= free and not (late and extra is not None and size > extra):
                start[n] = float(now)
                waiting.remove(n)
                free -= size
                running[n] = now + length
                extra = extra - size if late and extra is not None else extra
            elif policy.endswith("strict"):
                break
            elif policy == "easy" and shadow is None:
                room = free
                for at in sorted(set(running.values())):
                    room += sum(jobs[m][2] for m, end in running.items() if end == at)
                    if room >= size:
                        shadow, extra = at, room - size
                        break
        if not waiting and now > 40:
            break
    return start


def conf(action: str, *plugins: str) -> dict[str, Any]:
    return {"actions": action, "tiers": [{"plugins": [{"name": name} for name in (*plugins, "gang")]}]}


@pytest.mark.parametrize(
    ("policy", "settings_of", "strategy"),
    [
        ("fifo strict", conf("allocate"), "fifo"),
        ("fifo scan", conf("allocate"), "traverse"),
        ("sjf strict", conf("allocate", "sjf"), "fifo"),
        ("sjf scan", conf("allocate", "sjf"), "traverse"),
        ("easy", conf("easybackfill"), "traverse"),
    ],
)
@given(workload=workloads)
@settings(max_examples=examples(25), deadline=None)
def test_a_policy_starts_every_job_when_the_simple_simulator_does(
    policy: str, settings_of: dict[str, Any], strategy: str, workload: Workload
) -> None:
    assert starts_of(workload, settings_of, strategy) == simple_starts(workload, policy)


@given(workload=workloads)
@settings(max_examples=examples(25), deadline=None)
def test_backfilling_never_delays_the_first_job_that_waits(workload: Workload) -> None:
    """The head of the queue starts no later than if nobody had been let past it."""
    eased, strict = starts_of(workload, conf("easybackfill"), "traverse"), starts_of(workload, conf("allocate"), "fifo")
    late = [n for n, (a, b) in enumerate(zip(eased, strict, strict=True)) if (a or 0) > (b or 0)]
    first_waiting = next((n for n, (submit, _, _) in enumerate(sorted(workload)) if strict[n] != submit), None)
    assert first_waiting not in late


def eventful(seed: int) -> tuple[str, str, bytes]:
    """A run in which everything that can go wrong does: its log, the log's digest and the record."""
    log = StringIO()
    run = simulation(
        nodes(4, cpu=6),
        seed=seed,
        log=log,
        delays=Delays(bind=1, start=2, eviction=3, bind_failures=0.1),
        faults=Faults((PlannedFault(50, "drain", ("n1",), for_s=40),), 300, 60, 200),
        horizon_s=600,
    )
    record = run.run(specs([job(f"j-{n:02d}", 7.0 * n, 20 + n % 9, pods=1 + n % 5) for n in range(60)]))
    assert not run.failure
    return log.getvalue(), run.log.digest, encode(record)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_scenario_gives_the_same_event_log_byte_for_byte(seed: int) -> None:
    first, second = eventful(seed), eventful(seed)
    assert first == second
    assert len(first[0]) > 10_000


def test_another_seed_gives_another_run() -> None:
    assert eventful(1)[1] != eventful(2)[1]


def test_the_cost_of_an_event_does_not_grow_with_the_length_of_the_run() -> None:
    run = simulation(nodes(2, cpu=4))
    run.run(specs([job(f"j-{n:04d}", 3.0 * n, 5) for n in range(400)]))
    state = run.loop.state
    assert (len(state.tasks), len(state.jobs), len(run.cluster.pods), len(run.cluster.groups)) == (0, 0, 0, 0)
    assert len(run.timeline) < 5


STEADY: dict[str, Any] = {
    "actions": "enqueue, allocate, backfill, preempt",
    "tiers": [{"plugins": [{"name": n} for n in ("priority", "gang", "drf", "predicates", "proportion", "binpack")]}],
}


def decided(workload: Workload, delays: Delays, *, every_cycle: bool) -> tuple[list[str], str, int]:
    """Every intent of a run, its event log and how many sessions it took; *every_cycle*: as if figures were read."""
    run = simulation(nodes(2, cpu=PROCESSORS // 2), conf=STEADY, delays=delays, seed=1)
    run.loop.runtime.metered = every_cycle
    said: list[str] = []
    sessions: list[float] = []

    class Listener(Observer):
        def decided(self, intents: Sequence[Intent]) -> None:
            said.extend(f"{run.loop.state.now} {intent!r}" for intent in intents)

    run.loop.observers.append(Listener())
    run.loop.inspect = lambda ssn: sessions.append(ssn.now)
    run.run(specs([job(f"j-{n:02d}", at, t, pods=p) for n, (at, t, p) in enumerate(sorted(workload))]))
    assert not run.failure
    return said, run.log.digest, len(sessions)


@settings(max_examples=examples(60))
@given(workloads, st.sampled_from([Delays(), Delays(bind=0.5, start=2.0, eviction=3.0)]))
def test_cycles_that_are_not_run_where_nobody_waits_change_nothing(workload: Workload, delays: Delays) -> None:
    said, log, sessions = decided(workload, delays, every_cycle=False)
    said_by_all, log_of_all, all_sessions = decided(workload, delays, every_cycle=True)
    assert (said, log) == (said_by_all, log_of_all)
    assert sessions <= all_sessions
