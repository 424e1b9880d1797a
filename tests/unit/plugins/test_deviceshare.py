"""deviceshare: what binds write and nodes say, policies with and without compat, and wrong arguments."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.errors import InvalidInput
from pumice.framework.plugin import Arguments
from pumice.model.api import Container, PodSpec, ResourceRequirements
from pumice.model.intents import Bind
from pumice.plugins.deviceshare import DeviceShare
from pumice.testing import Cycle, Scenario, job, node

VGPU = {"deviceshare.VGPUEnable": True}
OFFER = {"volcano.sh/vgpu-number": 100, "volcano.sh/vgpu-memory": 100_000, "volcano.sh/vgpu-cores": 1000}


def cards(*written: str) -> dict[str, Any]:
    return {"annotations": {"volcano.sh/node-vgpu-register": ":".join(written)}, "resources": OFFER}


def card(
    uuid: str,
    count: int = 10,
    memory: int = 16000,
    kind: str = "NVIDIA-V100",
    health: str = "true",
    mode: str = "hami-core",
) -> str:
    return f"{uuid},{count},{memory},{kind},{health},{mode}"


def vgpu(name: str, *containers: dict[str, Any], **more: Any) -> list[Any]:
    """A job of one pod whose containers ask for these parts of cards."""
    objects = job(name, **more)
    made = tuple(
        Container(name=f"c{n}", resources=ResourceRequirements(limits=named, requests=named))
        for n, asked in enumerate(containers)
        for named in [{f"volcano.sh/vgpu-{k}": v for k, v in asked.items()}]
    )
    return [*objects[:-1], _with(objects[-1], made)]


def _with(pod: Any, containers: tuple[Container, ...]) -> Any:
    import msgspec

    spec: PodSpec = msgspec.structs.replace(pod.spec, containers=containers)
    return msgspec.structs.replace(pod, spec=spec)


def run(scenario: Scenario, compat: str | None = None, **arguments: Any) -> Cycle:
    given = {**VGPU, **{f"deviceshare.{k}": v for k, v in arguments.items()}}
    return scenario.run(actions=["allocate"], plugins=["gang", ("deviceshare", given)], compat=compat)


def notes(done: Cycle) -> dict[str, dict[str, str]]:
    return {i.pod: i.annotations for i in done.intents if isinstance(i, Bind)}


def test_a_bind_says_which_part_of_which_card_each_container_has() -> None:
    scenario = Scenario(node("n1", **cards(card("GPU-0"), card("GPU-1"))))
    scenario.add(*vgpu("a", {"number": 1, "memory": 3000, "cores": 30}, {"number": 2, "memory-percentage": 25}))
    scenario.advance(1000)
    said = notes(run(scenario))["default/a-0"]
    assert said["volcano.sh/vgpu-ids-new"] == "GPU-1,NVIDIA,3000,30:;GPU-1,NVIDIA,4000,0:GPU-0,NVIDIA,4000,0:"
    assert said["volcano.sh/devices-to-allocate"] == said["volcano.sh/vgpu-ids-new"]
    assert (said["volcano.sh/vgpu-node"], said["volcano.sh/bind-phase"]) == ("n1", "allocating")
    assert said["volcano.sh/vgpu-time"] == said["volcano.sh/bind-time"] == "1000"


def test_a_bind_of_shared_or_whole_gpus_says_their_indexes_and_they_are_read_again() -> None:
    offer = {"volcano.sh/gpu-number": 3, "volcano.sh/gpu-memory": 3000}
    scenario = Scenario(node("n1", resources=offer, annotations={"volcano.sh/gpu-unhealthy-ids": "0,x,99"}))
    scenario.add(*job("part", resources={"volcano.sh/gpu-memory": 600}))
    scenario.add(*job("whole", resources={"volcano.sh/gpu-number": 1}))
    arguments = {"deviceshare.GPUNumberEnable": True}
    done = scenario.run(actions=["allocate"], plugins=["gang", ("deviceshare", arguments)])
    said = notes(done)
    assert said["default/part-0"]["volcano.sh/gpu-index"] == "1"
    assert said["default/whole-0"]["volcano.sh/gpu-index"] == "2"
    again = Scenario(*scenario.objects)
    assert (again.task("part-0").devices, again.task("whole-0").devices) == ((1,), (2,))


@pytest.mark.parametrize("index", ["7", "0,1", "-1", "", "a", "1" * 300])
def test_an_index_that_cannot_be_is_not_believed(index: str) -> None:
    offer = {"volcano.sh/gpu-number": 2, "volcano.sh/gpu-memory": 2000}
    notes = {"volcano.sh/gpu-index": index}
    scenario = Scenario(node("n1", resources=offer))
    scenario.add(*job("a", resources={"volcano.sh/gpu-memory": 600}, on="n1", task_annotations=notes))
    assert scenario.task("a-0").devices == (0,)


def test_spread_prefers_a_card_that_nobody_uses_and_volcano_scores_nothing() -> None:
    def scenario() -> Scenario:
        made = Scenario(node("n1", **cards(card("GPU-0"))), node("n2", **cards(card("GPU-1"))))
        used = {"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,3000,30:"}
        made.add(*vgpu("old", {"number": 1, "memory": 3000}, on="n1", task_annotations=used))
        return made.add(*vgpu("new", {"number": 1, "memory": 3000}))

    spread: dict[str, Any] = {"SchedulePolicy": "spread", "ScheduleWeight": 1}
    assert run(scenario(), **spread).binds == {"default/new-0": "n2"}
    assert run(scenario(), "volcano", **spread).binds == {"default/new-0": "n1"}
    assert run(scenario(), SchedulePolicy="binpack", ScheduleWeight=1).binds == {"default/new-0": "n1"}


def test_a_pod_that_says_nothing_counts_on_the_cards_that_it_would_get() -> None:
    scenario = Scenario(node("n1", **cards(card("GPU-0", memory=4000))))
    scenario.add(*vgpu("old", {"number": 1, "memory": 3000}, on="n1"))
    scenario.add(*vgpu("new", {"number": 1, "memory": 2000}))
    run(scenario)
    scenario.assert_pending("new", because="1 with 2000 MiB (the roomiest has 1000 MiB, 100 % of its cores)")


def test_nobody_starts_on_a_card_before_its_last_user_is_gone() -> None:
    scenario = Scenario(node("n1", **cards(card("GPU-0", memory=4000))))
    scenario.add(*vgpu("old", {"number": 1, "memory": 3000}, on="n1", min_available=0))
    scenario.add(*vgpu("new", {"number": 1, "memory": 2000}, priority=5))
    plugins = ["priority", "gang", ("deviceshare", VGPU)]
    first = scenario.run(actions=["enqueue", "preempt", "allocate"], plugins=plugins)
    assert (first.evictions, first.binds) == (["default/old-0"], {})
    assert scenario.run().binds == {"default/new-0": "n1"}


@pytest.mark.parametrize("text", ["GPU-0,x,1,T,true,m", "GPU-0,1", "GPU-0,1,-5,T,true,m", ",".join("x" * 9)])
def test_cards_that_cannot_be_read_are_given_to_nobody(text: str) -> None:
    scenario = Scenario(node("n1", **cards(text))).add(*vgpu("a", {"number": 1}))
    run(scenario)
    scenario.assert_pending("a", because="registered cards that cannot be read")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"VGPUEnable": True, "GPUSharingEnable": True}, "only one of them"),
        ({"GPUNumberEnable": True, "GPUSharingEnable": True}, "only one of them"),
        ({"SchedulePolicy": "tight"}, "must be binpack or spread, got 'tight'"),
        ({"GPUExclusiveRules": ["x"]}, "must be a list of labels"),
        ({"AscendHAMiVNPUEnable": True}, "not in Pumice"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        DeviceShare(Arguments({f"deviceshare.{k}": v for k, v in arguments.items()}))


GEOMETRIES = [
    {
        "models": ["A30"],
        "allowedGeometries": [
            {"group": "g1", "geometries": [{"name": "1g.6gb", "memory": 6144, "count": 4}]},
            {
                "group": "g2",
                "geometries": [
                    {"name": "2g.12gb", "memory": 12288, "count": 1},
                    {"name": "1g.6gb", "memory": 6144, "count": 2},
                ],
            },
            {"group": "g3", "geometries": [{"name": "4g.24gb", "memory": 24576, "count": 1}]},
        ],
    }
]


def mig(uuid: str, **more: Any) -> str:
    return card(uuid, **{"count": 7, "memory": 24576, "kind": "NVIDIA-A30", "mode": "mig", **more})


def slots(*asked: int, scenario: Scenario | None = None, policy: str = "") -> list[str]:
    """Where one pod after the other is, of so many MiB each; nothing where it waits."""
    scenario = scenario or Scenario(node("n1", **cards(mig("GPU-0"))))
    for n, memory in enumerate(asked):
        scenario.add(*vgpu(f"p{n}", {"number": 1, "memory": memory}))
    said = notes(run(scenario, KnownMigGeometries=GEOMETRIES, SchedulePolicy=policy))
    told = [said.get(f"default/p{n}-0", {}).get("volcano.sh/vgpu-ids-new", "") for n in range(len(asked))]
    return [text.partition(",")[0] for text in told]


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        # the first geometry that has an instance of the size, and there the smallest that will do
        ((1000,), ["GPU-0[g1-0]"]),
        ((6144,), ["GPU-0[g1-0]"]),
        ((6145,), ["GPU-0[g2-0]"]),
        ((24576,), ["GPU-0[g3-0]"]),
        # instances one after the other; the card stays cut as it is
        ((1000, 1000, 1000, 1000, 1000), ["GPU-0[g1-0]", "GPU-0[g1-1]", "GPU-0[g1-2]", "GPU-0[g1-3]", ""]),
        ((1000, 8000), ["GPU-0[g1-0]", ""]),
        # other instances of the same geometry can be had beside those in use
        ((8000, 1000, 1000, 1000), ["GPU-0[g2-0]", "GPU-0[g2-1]", "GPU-0[g2-2]", ""]),
        ((24577,), [""]),
    ],
)
def test_a_mig_card_is_cut_by_its_first_geometry_that_will_do_and_stays_so(
    asked: tuple[int, ...], got: list[str]
) -> None:
    assert slots(*asked) == got


def test_an_instance_is_free_again_when_its_pod_is_gone_and_an_empty_card_is_cut_anew() -> None:
    scenario = Scenario(node("n1", **cards(mig("GPU-0"))))
    assert slots(1000, 1000, scenario=scenario) == ["GPU-0[g1-0]", "GPU-0[g1-1]"]
    scenario.finish("default/p0-0")
    scenario.add(*vgpu("q", {"number": 1, "memory": 2000}))
    assert (
        notes(run(scenario, KnownMigGeometries=GEOMETRIES))["default/q-0"]["volcano.sh/vgpu-ids-new"]
        == "GPU-0[g1-0],NVIDIA,2000,0:"
    )
    for name in ("p1-0", "q-0"):
        scenario.finish(f"default/{name}")
    scenario.add(*vgpu("r", {"number": 1, "memory": 20000}))
    assert notes(run(scenario, KnownMigGeometries=GEOMETRIES))["default/r-0"]["volcano.sh/vgpu-ids-new"].startswith(
        "GPU-0[g3-0],"
    )


def test_an_instance_counts_with_all_its_memory_for_the_policy() -> None:
    scenario = Scenario(node("n1", **cards(mig("GPU-0"))), node("n2", **cards(card("GPU-1", memory=24576))))
    scenario.add(*vgpu("a", {"number": 1, "memory": 1000}))
    done = run(scenario, KnownMigGeometries=GEOMETRIES, SchedulePolicy="binpack", ScheduleWeight=1)
    assert done.binds == {"default/a-0": "n1"}  # 6144 of 24576 there, 1000 here


def test_a_pod_gets_cards_of_the_mode_that_it_names() -> None:
    for mode, node_of in (("mig", "n1"), ("hami-core", "n2")):
        scenario = Scenario(node("n1", **cards(mig("GPU-0"))), node("n2", **cards(card("GPU-1", mode=""))))
        scenario.add(*vgpu("a", {"number": 1, "memory": 100}, task_annotations={"volcano.sh/vgpu-mode": mode}))
        assert run(scenario, KnownMigGeometries=GEOMETRIES).binds == {"default/a-0": node_of}


def test_on_a_node_of_both_modes_only_the_cards_of_the_named_one_are_given() -> None:
    scenario = Scenario(node("n1", **cards(mig("GPU-0"), card("GPU-1"))))
    scenario.add(*vgpu("a", {"number": 2, "memory": 100}, task_annotations={"volcano.sh/vgpu-mode": "hami-core"}))
    assert run(scenario, KnownMigGeometries=GEOMETRIES).binds == {}


def test_a_mig_card_that_nobody_says_how_to_cut_is_given_to_nobody_and_volcano_shares_it_as_any_other() -> None:
    for compat, binds in ((None, {}), ("volcano", {"default/a-0": "n1"})):
        scenario = Scenario(node("n1", **cards(mig("GPU-0", kind="NVIDIA-H100"))))
        scenario.add(*vgpu("a", {"number": 1, "memory": 100}))
        done = run(scenario, compat, KnownMigGeometries=GEOMETRIES)
        assert done.binds == binds
    assert "MIG cards that the conf does not say how to cut" in _why("NVIDIA-H100")


def test_the_largest_instance_that_is_free_is_told() -> None:
    assert "(the roomiest has 6144 MiB, 100 % of its cores)" in _why("NVIDIA-A30", 1000)


def _why(kind: str, *running: int) -> str:
    scenario = Scenario(node("n1", **cards(mig("GPU-0", kind=kind))))
    slots(*running, scenario=scenario)
    scenario.add(*vgpu("late", {"number": 1, "memory": 20000}))
    return run(scenario, KnownMigGeometries=GEOMETRIES).why("late").text


@pytest.mark.parametrize(
    ("geometries", "said"),
    [
        ("g1", "must be a list of mappings"),
        ([{"models": []}], r"KnownMigGeometries\[0\].models: must be a list of names"),
        ([{"models": ["A"], "allowedGeometries": [[{"name": "a"}]]}], "allowedGeometries: must be a list of mappings"),
        ([{"models": ["A"], "allowedGeometries": [{"group": "a-b"}]}], "group: must be letters and digits, got 'a-b'"),
        ([{"models": ["A"], "allowedGeometries": [{"group": "a", "geometries": [{"memory": 0}]}]}], "memory: must be"),
        ([{"models": ["A"], "allowedGeometries": [{"group": "a", "geometries": []}] * 2}], "a name of its own"),
    ],
)
def test_a_wrong_geometry_is_named(geometries: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        DeviceShare(Arguments({**VGPU, "deviceshare.KnownMigGeometries": geometries}))
