"""The six scores for shared GPUs against their definitions, computed node by node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from pumice.engine.rows import NodeRows
from pumice.errors import InvalidInput
from pumice.framework.plugin import Arguments, Plugin
from pumice.framework.session.session import Session
from pumice.model.api import Metadata, Pod, PodSpec, PodStatus
from pumice.model.events import Seen
from pumice.model.resources import CPU
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.plugins.openb import BestFit, DotProd, Fgd, GpuClustering, GpuPacking, RandomNode
from pumice.plugins.openb.fgd import typical_of
from pumice.sim.parts import node
from pumice.sim.run import default_queue
from pumice.sim.traces import TraceJob, TracePod
from pumice.sim.workload import TraceJobs
from pumice.state.cluster import ClusterState
from pumice.testing import Scenario

Shape = tuple[int, int, int]
"""(cpu milli, gpu milli, devices)"""
shapes: st.SearchStrategy[Shape] = st.one_of(
    st.tuples(st.sampled_from([1000, 4000, 9000]), st.just(0), st.just(0)),
    st.tuples(st.sampled_from([1000, 4000]), st.sampled_from([100, 250, 500, 730]), st.just(1)),
    st.tuples(st.sampled_from([1000, 4000, 9000]), st.just(1000), st.sampled_from([1, 2, 4])),
)
TYPICAL: list[tuple[Shape, int]] = [((4000, 500, 1), 5), ((2000, 0, 0), 2), ((9000, 1000, 2), 3), ((64000, 1000, 1), 1)]
clusters = st.tuples(st.lists(st.tuples(st.integers(0, 3), shapes), max_size=14), shapes)


def pod_of(name: str, shape: Shape) -> TraceJob:
    cpu, milli, devices = shape
    return TraceJob(name, 0.0, math.inf, (TracePod(1, cpu, 1 << 30, milli, devices),), 1)


def world(held: list[tuple[int, Shape]], asked: Shape) -> tuple[Session, Task]:
    """Four nodes with pods on them where there is room, and one pod that waits."""
    state = ClusterState()
    state.apply(Seen(default_queue()))
    for n, gpus in enumerate((4, 4, 2, 0)):
        state.apply(Seen(node(f"n{n}", "32", "256Gi", gpus)))
    jobs = TraceJobs()
    for number, (at, shape) in enumerate([*held, (-1, asked)]):
        spec = jobs.job(pod_of(f"j{number}", shape))
        kind = spec.kinds[0]
        scenario_pod = _pod(kind.names[0], kind.spec, kind.annotations)
        state.apply(Seen(scenario_pod))
        task = state.task_by_key[f"default/{kind.names[0]}"]
        target = state.nodes.get(f"n{at}")
        if target is not None and _room(state, task, target.row):
            state.set_status(task, TaskStatus.RUNNING, target)
    return Session(state), task


def _pod(name: str, spec: PodSpec, notes: Mapping[str, str] | None) -> Pod:
    return Pod(
        metadata=Metadata(name=name, namespace="default", uid=name, annotations=notes),
        spec=spec,
        status=PodStatus(phase="Pending"),
    )


def _room(state: ClusterState, task: Task, row: int) -> bool:
    cpu = int(task.requests.get(CPU))
    gpu = task.klass.gpu
    enough = bool(state.devices.fits(np.array([row]), gpu)[0]) if gpu is not None else True
    return enough and cpu <= int(state.table.idle[CPU, row])


def score(plugin: Plugin, ssn: Session, task: Task) -> list[float]:
    ssn.open_plugin(plugin)
    rows = NodeRows(ssn.state.table)
    return [float(v) for v in plugin._score(task, rows)]  # type: ignore[attr-defined]


def devices_of(ssn: Session, row: int) -> list[int]:
    count = int(ssn.state.devices.count[row])
    return [int(v) for v in ssn.state.devices.free(np.array([row]))[0][:count]]


def each(ssn: Session, fn: Callable[[int, list[int]], float]) -> list[float]:
    """The definition applied node by node: fn(free cpu, free per device)."""
    return [fn(int(ssn.state.table.idle[CPU, row]), devices_of(ssn, row)) for row in range(4)]


@given(given_=clusters)
@settings(max_examples=examples(40), deadline=None)
def test_dotprod_is_its_formula(given_: tuple[list[tuple[int, Shape]], Shape]) -> None:
    held, (c, milli, devices) = given_
    ssn, task = world(held, (c, milli, devices))
    g = milli * devices
    want = each(
        ssn, lambda cpu, free: math.trunc(100 * (1 - (cpu / 128e3 * (c / 128e3) + sum(free) / 8e3 * (g / 8e3)) / 2))
    )
    assert score(DotProd(Arguments()), ssn, task) == want


@given(given_=clusters)
@settings(max_examples=examples(40), deadline=None)
def test_bestfit_is_its_formula(given_: tuple[list[tuple[int, Shape]], Shape]) -> None:
    held, (c, milli, devices) = given_
    ssn, task = world(held, (c, milli, devices))
    g = milli * devices
    want = each(ssn, lambda cpu, free: math.trunc(100 * (1 - ((cpu - c) / 128e3 + (sum(free) - g) / 8e3) / 2)))
    assert score(BestFit(Arguments()), ssn, task) == want


@given(given_=clusters)
@settings(max_examples=examples(40), deadline=None)
def test_gpupacking_is_its_rule_where_the_task_fits(given_: tuple[list[tuple[int, Shape]], Shape]) -> None:
    held, (c, milli, devices) = given_
    ssn, task = world(held, (c, milli, devices))

    def rule(_: int, free: list[int]) -> float:
        if not devices:
            return 0
        idle = sum(f == 1000 for f in free)
        if idle == len(free):
            return max(33 - idle, idle)
        chosen = sorted(f for f in free if f >= milli)[:devices]
        needed = sum(f == 1000 for f in chosen)
        return max(50 - needed, 33) if needed else max(100 - sum(f // 10 for f in chosen) // 10, 50)

    got, want = score(GpuPacking(Arguments()), ssn, task), each(ssn, rule)
    for row in range(4):
        if sum(f >= milli for f in devices_of(ssn, row)) >= devices:
            assert got[row] == want[row]


@given(given_=clusters)
@settings(max_examples=examples(40), deadline=None)
def test_gpuclustering_is_its_rule(given_: tuple[list[tuple[int, Shape]], Shape]) -> None:
    held, (c, milli, devices) = given_
    ssn, task = world(held, (c, milli, devices))

    def kind(milli: int, devices: int) -> str:
        return "" if not devices else "part" if milli < 1000 else str(devices)

    def of(other: Task) -> str:
        gpu = other.klass.gpu
        return kind(gpu.milli, gpu.devices) if gpu is not None else ""

    want = []
    for row in range(4):
        on = ssn.state.table.nodes[row]
        assert on is not None
        there = {of(t) for t in on.tasks.values()} - {""}
        mine = kind(milli, devices)
        points = 25 if not there else 0 if mine not in there else 75 if len(there) == 1 else 50
        want.append(points + 25 * (8000 - sum(devices_of(ssn, row))) // 8000 if mine else 0)
    assert score(GpuClustering(Arguments()), ssn, task) == want


def fragment(cpu: int, free: list[int]) -> float:
    """The expected fragment of a node, by its definition."""
    total = sum(n for _, n in TYPICAL)
    expected = 0.0
    for (c, milli, devices), n in TYPICAL:
        runs = devices and cpu >= c and sum(f >= milli for f in free) >= devices
        expected += n / total * (sum(f for f in free if f < milli) if runs else sum(free))
    return expected


@given(given_=clusters)
@settings(max_examples=examples(40), deadline=None)
def test_fgd_descends_the_expected_fragment(given_: tuple[list[tuple[int, Shape]], Shape]) -> None:
    held, (c, milli, devices) = given_
    ssn, task = world(held, (c, milli, devices))
    said = [f"{cpu}/{m}/{d}//{n}" for (cpu, m, d), n in TYPICAL]

    def sigmoid(cpu: int, free: list[int], after: list[int]) -> int:
        change = fragment(cpu, free) - fragment(cpu - c, after)
        return math.trunc(round(100 / (1 + math.exp(-change / 1000)), 9))

    plugin = Fgd(Arguments({"typical": said, "coverage": 1}))
    got = score(plugin, ssn, task)
    for row in range(4):
        cpu, free = int(ssn.state.table.idle[CPU, row]), devices_of(ssn, row)
        if devices == 0 or milli == 1000:
            idle = [d for d, f in enumerate(free) if f == 1000][:devices]
            if len(idle) < devices:
                continue
            choices = [[0 if d in idle else f for d, f in enumerate(free)]]
        else:
            choices = [
                [f - milli if d == n else f for d, f in enumerate(free)] for n, f in enumerate(free) if f >= milli
            ]
        if choices:
            best = max(sigmoid(cpu, free, after) for after in choices)
            assert got[row] == pytest.approx(best, abs=1)


def test_typical_tasks_are_the_most_frequent_that_cover_enough() -> None:
    found = typical_of([((1, 0, 0, ()), 60), ((2, 0, 0, ()), 30), ((3, 0, 0, ()), 10)], 0.9)
    assert [(t.cpu, t.part) for t in found] == [(1, 60 / 90), (2, 30 / 90)]


def test_fgd_keeps_a_device_whole_for_those_who_need_one(scenario: Scenario) -> None:
    """The second device is half taken: the next half goes beside it, although the first device is idle."""
    plugins = ["gang", "predicates", ("fgd", {"typical": "1000/500/1//1, 1000/1000/1//1"})]
    scenario.node("n", cpu=32, gpu=2)
    scenario.job("whole", tasks=1, gpu=1)
    scenario.run(plugins=plugins)
    for n in range(2):
        scenario.job(f"half{n}", tasks=1, task_annotations={"gpu-fraction": "0.5"})
        scenario.run(plugins=plugins)
        if n == 0:
            scenario.remove("whole-0").remove_job("whole")
    assert [task.devices for task in scenario.state.tasks.values()] == [(1,), (1,)]


def test_fgd_refuses_an_argument_that_it_cannot_read() -> None:
    with pytest.raises(InvalidInput, match="must be cpu milli/gpu milli/devices/models/count, got 'much'"):  # noqa: PT012
        ssn, _ = world([], (1000, 0, 0))
        Fgd(Arguments({"typical": ["much"]})).on_session_open(ssn)


def test_random_draws_are_even_and_belong_to_task_and_seed() -> None:
    ssn, task = world([], (1000, 1000, 1))
    first = score(RandomNode(Arguments({"seed": 1})), ssn, task)
    assert first == score(RandomNode(Arguments({"seed": 1})), ssn, task)
    assert first != score(RandomNode(Arguments({"seed": 2})), ssn, task)
    best = [int(np.argmax(score(RandomNode(Arguments({"seed": n})), ssn, task))) for n in range(400)]
    assert all(70 < best.count(row) < 130 for row in range(4))


@pytest.mark.parametrize("pods", [1, 2])
def test_a_score_decides_for_a_pod_alone_and_for_pods_in_company(pods: int) -> None:
    """Half a device fits best where a whole one would be broken for fewer typical pods: on the node of one GPU."""
    typical = ["2000/250/1//3", "4000/1000/1//4", "8000/1000/2//2"]
    fgd = {"name": "fgd", "arguments": {"typical": typical}}
    tiers = [{"plugins": [fgd, {"name": "gang"}, {"name": "predicates"}]}]
    scenario = Scenario().node("n0", cpu=16, gpu=2).node("n1", cpu=16, gpu=1).job("half", tasks=pods, cpu=2, gpu=0.25)
    binds = scenario.run(conf={"actions": "allocate", "tiers": tiers}).binds
    assert set(binds.values()) == {"n1"}
