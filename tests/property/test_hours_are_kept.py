"""Nodes are lent at their hours alone and given back afterwards; pods have their cooldown: while time goes on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lawful import lawful
from told_worlds import ToldWorld

from pumice.model.api import Pod
from pumice.testing import job, node

pytestmark = pytest.mark.law

ZONE, PREEMPTABLE, GROUP = "volcano.sh/revocable-zone", "volcano.sh/preemptable", "scheduling.k8s.io/group-name"
LEAST, MOST = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"
DAY = 24 * 60
minutes = st.sampled_from([0, 1, 6 * 60, 12 * 60, 22 * 60, DAY - 1])


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def hours_of(window: tuple[int, int]) -> set[int]:
    """The minutes of the day at which a zone is lent, one by one."""
    found, minute = {window[0]}, (window[0] + 1) % DAY
    while minute != window[1] and minute != window[0]:
        found.add(minute)
        minute = (minute + 1) % DAY
    return found


kinds = st.sampled_from([{ZONE: "*"}, {ZONE: "*"}, {PREEMPTABLE: "true"}, {ZONE: "*", PREEMPTABLE: "false"}, {}])
budgets = st.sampled_from([{}, {}, {LEAST: "1"}, {LEAST: "50%"}, {MOST: "2"}])
steps = st.one_of(
    st.tuples(st.just("job"), st.tuples(st.integers(1, 3), kinds, budgets)),
    st.tuples(st.just("job"), st.tuples(st.integers(1, 3), kinds, budgets)),
    st.tuples(st.just("later"), st.sampled_from([1, 2, 59, 6 * 60, 11 * 60, 22 * 60])),
    st.tuples(st.sampled_from(["end", "restart"]), st.integers(0, 5)),
)


def revocable(pod: Pod) -> bool:
    notes = pod.metadata.annotations or {}
    return notes[ZONE] == "*" if ZONE in notes else notes.get(PREEMPTABLE) == "true"


def may_lose(notes: dict[str, str], total: int, running: int, finished: int) -> int:
    """How many pods a job may lose in one round."""
    if LEAST in notes:
        least = -(-total * int(notes[LEAST][:-1]) // 100) if notes[LEAST].endswith("%") else int(notes[LEAST])
        return max(0, running - least)
    return max(0, int(notes[MOST]) - (total - finished - running)) if MOST in notes else 1


class Lent:
    """A cluster whose zones have hours, looked at after every cycle."""

    def __init__(self, windows: dict[str, tuple[int, int]]) -> None:
        arguments = {f"tdm.revocable-zone.{z}": f"{clock(b)}-{clock(e)}" for z, (b, e) in windows.items()}
        self.hours = {zone: hours_of(window) for zone, window in windows.items()}
        plugins: list[Any] = ["gang", {"name": "tdm", "arguments": arguments}]
        self.told = ToldWorld("allocate, shuffle", [plugins])
        self.zones = {"n-none": "", **{f"n-{zone}": zone for zone in windows}, "n-unknown": "unknown"}
        for name, zone in self.zones.items():
            self.told.add(node(name, cpu=4, labels={ZONE: zone} if zone else {}))
        self.budgets: dict[str, dict[str, str]] = {}
        self.round_at = -1e9

    def is_lent(self, zone: str) -> bool:
        return int(self.told.state.now // 60) % DAY in self.hours.get(zone, ())

    def of_job(self, name: str) -> list[Pod]:
        pods = [o for o in self.told.world.objects if isinstance(o, Pod)]
        return [pod for pod in pods if (pod.metadata.annotations or {})[GROUP] == name]

    def cycle(self) -> None:
        told = self.told
        before = told.running()
        counts = {
            name: (
                len(own := self.of_job(name)),
                sum(1 for p in own if p.key in before),
                sum(1 for p in own if p.status.phase == "Succeeded"),
            )
            for name in self.budgets
        }
        report = told.cycle()
        pods = {o.key: o for o in told.world.objects if isinstance(o, Pod)}
        for key, place in report.binds.items():
            zone = self.zones[place]
            assert not zone or (self.is_lent(zone) and revocable(pods[key]))
        lost: dict[str, int] = {}
        for key in report.evictions:
            zone, notes = self.zones[before[key].spec.node_name], before[key].metadata.annotations or {}
            assert zone in self.hours
            assert not self.is_lent(zone)
            assert notes.get(PREEMPTABLE) != "false"
            lost[notes[GROUP]] = lost.get(notes[GROUP], 0) + 1
        for name, count in lost.items():
            assert count <= may_lose(self.budgets[name], *counts[name])
        if lost:
            assert told.state.now - self.round_at >= 60
            self.round_at = told.state.now


@lawful(200)
@given(
    st.lists(st.tuples(minutes, minutes), min_size=1, max_size=2),
    st.lists(steps, min_size=3, max_size=10),
)
def test_nobody_is_on_a_lent_node_who_may_not_be_and_it_is_given_back_within_budgets(
    windows: list[tuple[int, int]], story: list[Any]
) -> None:
    lent = Lent({f"z{n}": window for n, window in enumerate(windows)})
    told = lent.told
    for at, (what, drawn) in enumerate(story):
        told.state.now += 20
        if what == "job":
            tasks, notes, budget = drawn
            lent.budgets[f"j{at}"] = budget
            told.add(job(f"j{at}", tasks=tasks, min_available=1, task_annotations=notes, annotations=budget))
        elif what == "later":
            told.state.now += 60 * drawn
        elif what == "end" and (running := sorted(told.running())):
            told.state.apply_all(told.world.pod_changed(running[drawn % len(running)], phase="Succeeded"))
        elif what == "restart":
            told.restart()
            lent.round_at = -1e9
        lent.cycle()
    for _ in range(16):  # time enough for all that may go
        told.state.now += 60
        lent.cycle()
        if any(lent.is_lent(zone) for zone in lent.hours):
            return
    for pod in told.running().values():
        notes = pod.metadata.annotations or {}
        if lent.zones[pod.spec.node_name] and notes.get(PREEMPTABLE) != "false":
            assert LEAST in lent.budgets[notes[GROUP]] or MOST in lent.budgets[notes[GROUP]]


# -- cooldowns --------------------------------------------------------------------------------------------------------
COOLDOWN = "volcano.sh/cooldown-time"
events = st.one_of(
    st.tuples(st.just("job"), st.tuples(st.sampled_from([0, 5]), st.sampled_from([0, 60, 600]), st.booleans())),
    st.tuples(st.just("job"), st.tuples(st.sampled_from([0, 5]), st.sampled_from([0, 60, 600]), st.booleans())),
    st.tuples(st.just("later"), st.sampled_from([30, 59, 60, 599, 600])),
    st.tuples(st.just("restart"), st.just(0)),
)


@lawful(120)
@given(st.integers(1, 3), st.lists(events, min_size=3, max_size=12))
def test_nobody_is_evicted_in_his_cooldown_and_afterwards_nobody_of_priority_waits(cpus: int, story: list[Any]) -> None:
    told = ToldWorld("allocate, preempt", [["priority", "gang", "cdp"], ["predicates"]], recreate=True)
    told.add(node("n", cpu=cpus))
    since: dict[str, float] = {}
    cooldown: dict[str, int] = {}
    urgent: dict[str, bool] = {}

    def cycle() -> None:
        before = told.running()
        report = told.cycle()
        for key in report.evictions:
            assert told.state.now >= since[before[key].metadata.uid] + cooldown[key]
        for key in report.binds:
            since[told.running()[key].metadata.uid] = told.state.now

    for at, (what, drawn) in enumerate(story):
        told.state.now += 1
        if what == "job":
            priority, seconds, label = drawn
            key = f"default/j{at}-0"
            cooldown[key], urgent[key] = seconds, priority > 0
            where: Any = {"task_labels" if label else "task_annotations": {COOLDOWN: f"{seconds}s"}}
            told.add(job(f"j{at}", cpu=1, priority=priority, **where))
        elif what == "later":
            told.state.now += drawn
        else:
            told.restart()
        cycle()
    told.state.now += 600
    for _ in range(2 * len(urgent) + 2):
        cycle()
    running = told.running()
    if any(urgent[key] and key not in running for key in urgent):
        assert all(urgent[key] for key in running)
