"""What a pod asked and was given of GPUs stands until it is gone, whatever its owner writes on it; in both dialects."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from pumice.model import keys
from pumice.model.api import Container, Pod, PodGroup, PodSpec, ResourceRequirements
from pumice.model.events import Seen
from pumice.scheduler.cycle import run_cycle
from pumice.state.devices import GROUP_LABEL
from pumice.testing import Scenario, job, node

VGPU = ["gang", "predicates", ("deviceshare", {"deviceshare.VGPUEnable": True})]
REGISTERED: dict[str, Any] = {
    "annotations": {keys.VGPU_REGISTER: "GPU-0,10,1000,A,true,hami-core:GPU-1,10,1000,A,true,hami-core"},
    "resources": {"volcano.sh/vgpu-number": 20, "volcano.sh/vgpu-memory": 2000, "volcano.sh/vgpu-cores": 200},
}
FORGED: dict[str, list[str | None]] = {
    keys.GPU_FRACTION: ["0.1", "0.99", None, "x"],
    keys.GPU_MEMORY: ["1", "99999"],
    keys.GPU_DEVICES: ["1", "2"],
    keys.GPU_INDEX: ["1", "0,1", "x", None],
    keys.VGPU_IDS: [
        "none,NVIDIA,0,0:;",
        "GPU-1,NVIDIA,1000,100:;",
        "GPU-0,NVIDIA,1,0:GPU-1,NVIDIA,1000,0:;",
        None,
        "x",
    ],
    GROUP_LABEL: ["made-up", None],
    f"{GROUP_LABEL}/a": ["a"],
}
"""Keys by which a pod says what it asks or got of GPUs -> what its owner may write there; None: it is taken away."""
CASES = [(key, value) for key, values in FORGED.items() for value in values]


def change(pod: Pod, key: str, value: str | None, *, where: str = "annotations") -> Pod:
    told = {k: v for k, v in (getattr(pod.metadata, where) or {}).items() if k != key}
    return structs.replace(
        pod, metadata=structs.replace(pod.metadata, **{where: told | ({key: value} if value else {})})
    )


def pod_of(scenario: Scenario, name: str) -> Pod:
    return next(o for o in scenario.objects if isinstance(o, Pod) and o.metadata.name == name)


def test_every_key_that_says_something_of_gpus_is_tried() -> None:
    assert {*keys.GPU_ANNOTATIONS, keys.GPU_INDEX, keys.VGPU_IDS, GROUP_LABEL} <= set(FORGED)


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize(("key", "value"), CASES)
@pytest.mark.parametrize("dialect", [None, "kai"])
def test_a_share_stays_where_it_is_and_as_large_as_it_is(
    dialect: str | None, key: str, value: str | None, where: str
) -> None:
    """Two tenths of one GPU are used; the other GPU of the node is free for a pod that wants it whole."""
    scenario = Scenario()
    scenario.node("n0", cpu=16, gpu=2)
    for name in ("a", "b"):
        scenario.job(name, cpu=1, task_annotations={keys.GPU_FRACTION: "0.1"})
    assert len(scenario.run(dialect=dialect).binds) == 2
    before = {task.key: (task.devices, task.klass) for task in scenario.state.tasks.values()}
    for name in ("a-0", "b-0"):
        scenario.add(change(pod_of(scenario, name), key, value and value.replace("made-up", name), where=where))
    assert {task.key: (task.devices, task.klass) for task in scenario.state.tasks.values()} == before
    scenario.job("whole", cpu=1, gpu=1)
    scenario.job("another", cpu=1, gpu=1)
    done = scenario.run(dialect=dialect)
    assert len(done.binds) == 1


@pytest.mark.parametrize("key", [GROUP_LABEL, keys.GPU_FRACTION])
@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize("dialect", [None, "kai"])
def test_what_is_written_while_a_bind_is_under_way_moves_no_share(dialect: str | None, key: str, where: str) -> None:
    scenario = Scenario()
    scenario.node("n0", cpu=16, gpu=2)
    scenario.job("a", cpu=1, task_annotations={keys.GPU_FRACTION: "0.6"})
    scenario.run(dialect=dialect)
    scenario.job("b", cpu=1, task_annotations={keys.GPU_FRACTION: "0.2"})
    state = scenario.state
    state.apply(Seen(next(o for o in scenario.objects if o.key == "default/b" and isinstance(o, PodGroup))))
    assembly = scenario._configure(None, None, None, dialect, None)
    run_cycle(state, assembly, scenario.runtime)
    report = run_cycle(state, assembly, scenario.runtime)
    task = state.task_by_key["default/b-0"]
    uid, devices, gpu = task.uid, task.devices, task.klass.gpu
    assert uid in state.assumed, report.refusals
    groups = state.devices.groups_of(task, 0)
    came = change(pod_of(scenario, "b-0"), key, "0.9" if key == keys.GPU_FRACTION else "made-up", where=where)
    state.apply(Seen(structs.replace(came, spec=structs.replace(came.spec, node_name="n0"))))
    after = state.tasks[uid]
    assert (after.devices, after.klass.gpu) == (devices, gpu)
    if dialect == "kai":  # Volcano's has no names of groups
        assert state.devices.groups_of(after, 0) == groups


def cards_asked(name: str, **asked: int) -> list[Any]:
    objects: list[Any] = [*job(name)]
    amounts: dict[str, str | int | float] = {f"volcano.sh/vgpu-{key}": value for key, value in asked.items()}
    spec: PodSpec = structs.replace(
        objects[-1].spec,
        containers=(Container(name="c", resources=ResourceRequirements(limits=amounts, requests=amounts)),),
    )
    return [*objects[:-1], structs.replace(objects[-1], spec=spec)]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("value", FORGED[keys.VGPU_IDS])
def test_a_pod_has_as_much_of_cards_as_it_asks_whatever_it_says(value: str | None, restarted: bool) -> None:
    """One of two cards is taken: of three more such pods one finds room, also after another process leads."""
    scenario = Scenario()
    scenario.add(node("n0", cpu=16, **REGISTERED))
    scenario.add(cards_asked("own", number=1, memory=1000))
    assert len(scenario.run(actions=["allocate"], plugins=VGPU).binds) == 1
    scenario.add(change(pod_of(scenario, "own-0"), keys.VGPU_IDS, value))
    if restarted:
        objects, scenario = scenario.objects, Scenario()
        scenario.add(*objects)
    for name in ("x", "y", "z"):
        scenario.add(cards_asked(name, number=1, memory=1000))
    assert len(scenario.run(actions=["allocate"], plugins=VGPU).binds) == 1
