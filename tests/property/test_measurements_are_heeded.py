"""usage and rescheduling go by what is measured, against books of their own, while loads change and pods come."""

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

GIB = 2**30
FRESH = 300
percents = st.tuples(st.integers(0, 100), st.integers(0, 100))
sizes = st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 4]))
"""CPUs and GiB that a pod asks for."""


def asks(pod: Pod) -> tuple[float, float]:
    [container] = pod.spec.containers or ()
    assert container.resources is not None
    wanted: Any = container.resources.requests or {}
    return float(wanted["cpu"]), float(str(wanted["memory"]).removesuffix("Gi"))


class Books:
    """What is asked for on each node of 10 CPUs and 10 GiB: sums of pods that run, kept by nobody but the law."""

    def __init__(self, told: ToldWorld, names: list[str]) -> None:
        self.asked = {name: [0.0, 0.0] for name in names}
        for pod in told.running().values():
            self.take(pod.spec.node_name, asks(pod))

    def take(self, name: str, wanted: tuple[float, float]) -> None:
        for which in (0, 1):
            self.asked[name][which] += wanted[which]

    def room_for(self, name: str, wanted: tuple[float, float]) -> bool:
        return all(self.asked[name][which] + wanted[which] <= 10 for which in (0, 1))


# -- usage ------------------------------------------------------------------------------------------------------------
steps = st.one_of(
    st.tuples(st.just("job"), sizes),
    st.tuples(st.just("job"), sizes),
    st.tuples(st.just("measured"), st.lists(st.none() | percents, min_size=3, max_size=3)),
    st.tuples(st.just("end"), st.integers(0, 5)),
    st.tuples(st.just("later"), st.sampled_from([30, 299, 302])),
)


def usage_score(measured: Any, shadow: list[float], asked: list[float], weights: tuple[int, int]) -> float:
    """The formula of the page, in plain numbers, for what is in use before the task comes."""
    parts = [
        min(measured[which] / 100 + shadow[which], 1.0) if measured is not None else asked[which] / 10 * 0.7
        for which in (0, 1)
    ]
    return sum((1 - part) * weight for part, weight in zip(parts, weights, strict=True)) / sum(weights) * 100 * 5


def estimate(measured: Any, shadow: list[float], wanted: tuple[float, float], weights: tuple[int, int]) -> list[float]:
    """Parts of a node that a task is taken to use that no measurement shows yet."""
    real = measured or (0, 0)
    parts = [min(real[which] / 100 + shadow[which], 1.0) if measured is not None else 0.0 for which in (0, 1)]
    load = sum(part * weight for part, weight in zip(parts, weights, strict=True)) / sum(weights)
    risk = 1.2 if load >= 0.6 else 1.0
    return [min(wanted[which] * 0.7 * risk, wanted[which]) / 10 for which in (0, 1)]


@lawful(200)
@given(
    st.integers(1, 3),
    st.lists(steps, min_size=3, max_size=12),
    st.tuples(st.sampled_from([40, 80]), st.sampled_from([60, 80])),
    st.tuples(st.integers(0, 3), st.integers(1, 2)),
)
def test_no_task_goes_to_a_busy_node_each_to_the_least_loaded_and_none_waits_beside_one(
    nodes: int, story: list[Any], limits: tuple[int, int], weights: tuple[int, int]
) -> None:
    arguments = {
        "thresholds": {"cpu": limits[0], "mem": limits[1]},
        "cpu.weight": weights[0],
        "memory.weight": weights[1],
    }
    told = ToldWorld("allocate", [["gang", {"name": "usage", "arguments": arguments}]])
    names = [f"n{n}" for n in range(nodes)]
    told.add(*(node(name, cpu=10, memory="10Gi") for name in names))
    latest: dict[str, tuple[int, int]] = {}
    since = -1e9
    for at, (what, drawn) in enumerate(story):
        told.state.now += 1
        if what == "job":
            told.add(job(f"j{at}", cpu=drawn[0], memory=f"{drawn[1]}Gi"))
        elif what == "measured":
            latest = {name: one for name, one in zip(names, drawn, strict=False) if one is not None}
            since = told.state.now
        elif what == "end" and (running := sorted(told.running())):
            told.state.apply_all(told.world.pod_changed(running[drawn % len(running)], phase="Succeeded"))
        elif what == "later":
            told.state.now += drawn
        books, shadow = Books(told, names), {name: [0.0, 0.0] for name in names}
        environment = {"node_usage": {n: {"cpu": c, "memory": m} for n, (c, m) in latest.items()}, "usage_time": since}
        report = told.cycle(**environment)
        seen = latest if told.state.now - since <= FRESH else {}
        calm = [n for n in names if n not in seen or all(seen[n][w] <= limits[w] for w in (0, 1))]
        pods = {o.key: o for o in told.world.objects if isinstance(o, Pod)}
        for key, place in report.binds.items():
            wanted = asks(pods[key])
            could = [name for name in calm if books.room_for(name, wanted)]
            assert place in could
            scores = {n: usage_score(seen.get(n), shadow[n], books.asked[n], weights) for n in could}
            assert scores[place] >= max(scores.values()) - 1e-6
            more = estimate(seen.get(place), shadow[place], wanted, weights)
            shadow[place] = [have + new for have, new in zip(shadow[place], more, strict=True)]
            books.take(place, wanted)
        for pod in pods.values():
            if pod.status.phase == "Pending":
                assert not [name for name in calm if books.room_for(name, asks(pod))]


# -- rescheduling -----------------------------------------------------------------------------------------------------
LEAVES = "volcano.sh/preemptable"


def load_of(told: ToldWorld, names: list[str], uses: float) -> dict[str, dict[str, float]]:
    """What nodes are measured to use: so large a part of what their pods ask for."""
    asked = Books(told, names).asked
    return {name: {"cpu": 10 * uses * asked[name][0], "memory": 10 * uses * asked[name][1]} for name in names}


@lawful(120)
@given(
    st.integers(2, 4),
    st.lists(st.tuples(st.integers(0, 3), sizes, st.sampled_from([0, 0, 5]), st.booleans()), min_size=2, max_size=10),
    st.tuples(st.sampled_from([20, 30]), st.sampled_from([30, 50, 60])),
    st.sampled_from([1.0, 0.8]),
)
def test_pods_leave_busy_nodes_for_idle_ones_no_more_than_needed_and_it_ends(
    nodes: int, drawn: list[Any], limits: tuple[int, int], uses: float
) -> None:
    idle_below, busy_above = limits
    params = {
        "thresholds": {"cpu": idle_below, "memory": idle_below},
        "targetThresholds": {"cpu": busy_above, "memory": busy_above},
    }
    strategies = [{"name": "lowNodeUtilization", "params": params}]
    plugins: list[Any] = [
        "gang",
        {"name": "usage", "arguments": {"thresholds": {"cpu": busy_above, "mem": busy_above}}},
        {"name": "rescheduling", "arguments": {"interval": "5m", "strategies": strategies}},
    ]
    told = ToldWorld("allocate, shuffle", [plugins], recreate=True)
    names = [f"n{n}" for n in range(nodes)]
    told.add(*(node(name, cpu=10, memory="10Gi") for name in names))
    for n, (where, (cpu, memory), priority, leaves) in enumerate(drawn):
        name = names[where % nodes]
        if Books(told, names).room_for(name, (cpu, memory)):
            may = {LEAVES: str(leaves).lower()}
            told.add(job(f"j{n}", cpu=cpu, memory=f"{memory}Gi", priority=priority, on=name, task_annotations=may))
    quiet = 0
    for at in range(60):
        told.state.now += 150
        load = load_of(told, names, uses)
        pods = told.running()
        gone = told.cycle(node_usage=load, usage_time=told.state.now).evictions
        quiet = 0 if gone else quiet + 1
        assert not gone or at % 2 == 0  # the interval is two steps; the first cycle begins to count
        idle = [n for n in names if all(p < idle_below for p in load[n].values())]
        room = [sum(busy_above - load[n][what] for n in idle) / 10 for what in ("cpu", "memory")]
        left = {n: [p / 10 for p in load[n].values()] for n in names}
        for key in gone:
            place, wanted = pods[key].spec.node_name, asks(pods[key])
            assert (pods[key].metadata.annotations or {})[LEAVES] == "true"
            assert [
                n
                for n in idle
                if all(
                    load[n][w] / 10 + a <= busy_above / 10 + 1e-9
                    for w, a in zip(("cpu", "memory"), wanted, strict=True)
                )
            ]
            assert max(left[place]) > busy_above / 10 - 1e-9  # still busy: it takes this one too
            left[place] = [have - less for have, less in zip(left[place], wanted, strict=True)]
            room = [have - less for have, less in zip(room, wanted, strict=True)]
        assert min(room) >= -1e-9 or not gone
        if quiet > 4:
            break
    assert quiet > 4, "pods are moved for ever"
