"""Pods with resource claims in KAI's world: devices, quotas, victims, and what a bind writes."""

from __future__ import annotations

from typing import Any

import pytest
from kai_cases import ALL, cluster, decided, job, node, queue, seen
from kai_plans import world
from pumice_conformance.kai_rounds import one_round, prepare, state_of
from pumice_conformance.kai_write_back import write_back

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.kai.view.statement import ChangePlan
from pumice.model import api
from pumice.model.events import BindFailed, Gone, Seen
from pumice.model.intents import Bind, DeviceChoice
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle

GPU_CLASS = {"metadata": {"name": "gpu.example.com"}, "spec": {}}
NIC_CLASS = {"metadata": {"name": "nic.example.com"}, "spec": {}}


def slices(at: str, devices: int, driver: str = "gpu.example.com") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{at}-{driver}"},
        "spec": {
            "driver": driver,
            "pool": {"name": at, "generation": 0, "resourceSliceCount": 1},
            "nodeName": at,
            "devices": [{"name": str(n)} for n in range(devices)],
        },
    }


def claim(
    name: str,
    count: int = 1,
    *,
    queue: str = "q",
    kind: str = "gpu.example.com",
    has: tuple[str, ...] = (),
    users: tuple[str, ...] = (),
    mode: str = "ExactCount",
) -> dict[str, Any]:
    """A claim; *has*: ``node/device`` that it has, usable on that node."""
    exactly = {"deviceClassName": kind, "allocationMode": mode, "count": count}
    made: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"kai.scheduler/queue": queue}},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": {"reservedFor": [{"resource": "pods", "uid": uid} for uid in users]},
    }
    if has:
        where, results = "", []
        for one in has:
            where, _, device = one.partition("/")
            results.append({"request": "r", "driver": kind, "pool": where, "device": device})
        fields = [{"key": "metadata.name", "operator": "In", "values": [where]}]
        selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
        made["status"]["allocation"] = {"devices": {"results": results}, "nodeSelector": selector}
    return made


def claiming(name: str, *claims: str, queue: str = "q", **more: Any) -> dict[str, list[dict[str, Any]]]:
    made = job(name, queue, gpu="0", **more)
    for pod in made["pods"]:
        pod["metadata"]["uid"] = pod["metadata"]["name"]
        pod["spec"]["resourceClaims"] = [{"name": c, "resourceClaimName": c} for c in claims]
    return made


def with_devices(*parts: Any, told: list[Any], claims: list[Any], **more: Any) -> Any:
    case = cluster(*parts, **more)
    case.data["objects"] |= {
        "resourceSlices": told,
        "resourceClaims": claims,
        "deviceClasses": [GPU_CLASS, NIC_CLASS],
    }
    return case


def test_claims_are_served_as_far_as_devices_go() -> None:
    for devices in range(4):
        case = with_devices(
            *(node("n1"), queue("q"), *(claiming(f"j{n}", f"c{n}", minute=n) for n in range(3))),
            told=[slices("n1", devices)],
            claims=[claim(f"c{n}") for n in range(3)],
            actions="allocate",
        )
        got = decided(case)
        assert [got[f"j{n}-0"] for n in range(3)] == ["Binding n1"] * min(devices, 3) + ["Pending"] * (3 - devices)
        assert seen(case).nodes["n1"]["idleGpus"] == max(devices - 3, 0)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (claim("c", queue="other"), "wrong queue label (expected queue: q, claim queue label: other)"),
        (claim("c", users=tuple(f"u{n}" for n in range(256))), "maximum number of consumers (256)"),
        (claim("c", kind="absent.example.com"), "device class absent.example.com does not exist"),
        (claim("other"), 'resourceclaim "c" not found'),
        (claim("c", count=3), "Max GPU resources available in a single node in the default node-pool is topped at 2"),
    ],
)
def test_a_claim_that_nobody_can_serve_is_told(made: dict[str, Any], why: str) -> None:
    case = with_devices(
        node("n1"), queue("q"), claiming("j", "c"), told=[slices("n1", 2)], claims=[made], actions="allocate"
    )
    assert decided(case) == {"j-0": "Pending"}
    at = world(
        *(node("n1"), queue("q"), claiming("j", "c")),
        resourceSlices=[slices("n1", 2)],
        resourceClaims=[made],
        deviceClasses=[GPU_CLASS],
    )
    (task,) = at.tasks.values()
    assert why in at.ssn.pre_predicate(task).text  # type: ignore[arg-type]


def test_a_claim_that_has_devices_is_used_where_they_are() -> None:
    for where in ("n1", "n2"):
        case = with_devices(
            *(node("n1"), node("n2"), queue("q"), claiming("j", "c")),
            told=[slices("n1", 1), slices("n2", 1)],
            claims=[claim("c", has=(f"{where}/0",))],
            actions="allocate",
        )
        assert decided(case) == {"j-0": f"Binding {where}"}


def test_pods_of_one_claim_have_its_devices_together() -> None:
    case = with_devices(
        *(node("n1"), queue("q"), claiming("runs", "c", on=("n1",)), claiming("joins", "c", minute=1)),
        claiming("alone", "d", minute=2),
        told=[slices("n1", 1)],
        claims=[claim("c", has=("n1/0",), users=("runs-0",)), claim("d")],
        actions="allocate",
    )
    assert decided(case) == {"runs-0": "Running n1", "joins-0": "Binding n1", "alone-0": "Pending"}
    assert seen(case).nodes["n1"]["idleGpus"] == 0


def test_devices_that_are_no_gpus_count_in_no_quota() -> None:
    case = with_devices(
        *(node("n1"), queue("q", limit=0), claiming("nic", "c"), claiming("gpu", "d", minute=1)),
        told=[slices("n1", 2, "nic.example.com"), slices("n1", 2)],
        claims=[claim("c", 2, kind="nic.example.com"), claim("d")],
        actions="allocate",
    )
    assert decided(case) == {"nic-0": "Binding n1", "gpu-0": "Pending"}


def test_a_queue_reclaims_devices_and_gets_those_of_the_victim() -> None:
    case = with_devices(
        *(node("n1"), queue("q", quota=1), queue("p", quota=1)),
        *(claiming("over0", "c", queue="p", on=("n1",)), claiming("over1", "d", queue="p", on=("n1",), minute=1)),
        claiming("new", "e", minute=9),
        told=[slices("n1", 2)],
        claims=[
            claim("c", queue="p", has=("n1/0",), users=("over0-0",)),
            claim("d", queue="p", has=("n1/1",), users=("over1-0",)),
            claim("e"),
        ],
    )
    first = one_round(case, prepare(case, default_registry()), case.data["objects"])
    assert {k: t["status"] for k, t in first.tasks.items()} == {
        "default/over0-0": "Running",
        "default/over1-0": "Releasing",
        "default/new-0": "Pipelined",
    }
    objects = write_back(case, case.data["objects"], first)
    second = one_round(case, prepare(case, default_registry()), objects)
    assert second.tasks["default/new-0"] == {"status": "Binding", "node": "n1"}
    (device,) = second.claims["default/e"]["allocation"]["devices"]["results"]
    assert device["device"] == "1"


def test_what_is_taken_back_leaves_claims_as_they_were() -> None:
    at = world(
        *(node("n1"), queue("q"), claiming("old", "c", on=("n1",)), claiming("new", "d", minute=1)),
        resourceSlices=[slices("n1", 1)],
        resourceClaims=[claim("c", has=("n1/0",), users=("old-0",)), claim("d")],
        deviceClasses=[GPU_CLASS],
    )
    assert at.claims is not None
    n1 = at.state.table.by_name["n1"]
    tasks = {t.name: t for t in at.tasks.values()}
    before = list(at.claims.states())
    plan = ChangePlan(at)
    assert not at.claims.fit(tasks["new-0"].task, n1)
    plan.evict(tasks["old-0"], "test")
    assert at.claims.fit(tasks["new-0"].task, n1)
    mark = plan.checkpoint()
    plan.pipeline(tasks["new-0"], n1)
    assert [bool(allocation) for _, allocation, _ in at.claims.states()] == [False, True]
    plan.rollback(mark)
    plan.pipeline(tasks["old-0"], n1)  # nobody has its device: it stays
    assert (tasks["old-0"].stage.value, list(at.claims.states())) == ("Running", before)
    plan.discard()
    assert list(at.claims.states()) == before
    assert (at.nodes.idle_gpus(n1.row), at.nodes.releasing_gpus(n1.row)) == (0, 0)


def test_a_bind_writes_the_claim_and_the_next_cycle_knows() -> None:
    case = with_devices(
        *(node("n1"), queue("q"), claiming("one", "c"), claiming("two", "d", minute=1)),
        told=[slices("n1", 1)],
        claims=[claim("c"), claim("d")],
        actions=ALL,
    )
    assembly, runtime = prepare(case, default_registry()), Runtime()
    state = state_of(case, case.data["objects"])
    first = run_cycle(state, assembly, runtime)
    (bind,) = [i for i in first.intents if isinstance(i, Bind)]
    (choice,) = bind.prepare
    assert isinstance(choice, DeviceChoice)
    assert (choice.claim, choice.uid) == ("default/c", "c")
    assert choice.allocation is not None
    assert [r["device"] for r in choice.allocation["devices"]["results"]] == ["0"]
    assert run_cycle(state, assembly, runtime).binds == {}  # the claim does not say it yet


def test_a_claim_needs_the_plugin_that_serves_it() -> None:
    plugins = [{"name": name} for name in ("predicates", "proportion", "nodeplacement")]
    case = with_devices(
        *(node("n1"), queue("q"), claiming("j", "c")),
        told=[slices("n1", 1)],
        claims=[claim("c")],
        actions="allocate",
        conf={"tiers": [{"plugins": plugins}]},
    )
    assert decided(case) == {"j-0": "Pending"}


@pytest.mark.parametrize("claims", [[], [claim("c")]])
def test_gpus_of_drivers_are_there_to_share_also_while_nobody_claims_any(claims: list[Any]) -> None:
    wide = job("wide", "q", pods=9, least=1)
    case = with_devices(
        *(node("n1"), node("n2", gpu=1), queue("q"), wide), told=[slices("n1", 4)], claims=claims, actions="allocate"
    )
    assert seen(case).fair_share["q"]["gpu"] == 5


@pytest.mark.parametrize("claims", [[], [claim("c")]])
@pytest.mark.parametrize(("compat", "whole"), [(None, "n2"), ("kai", "n1")])
def test_gpus_that_are_had_by_claims_are_had_by_nothing_else(compat: str | None, whole: str, claims: list[Any]) -> None:
    """In KAI who asks for whole GPUs gets them too, without a device; who shares one does not."""
    case = with_devices(
        *(node("n1"), node("n2", gpu=1), queue("q"), job("whole", "q"), job("part", "q", fraction="0.5", minute=1)),
        told=[slices("n1", 1)],
        claims=claims,
        actions="allocate",
    )
    got = decided(case, compat)
    assert got["whole-0"] == f"Binding {whole}"
    assert got["part-0"] == ("Binding n2" if compat else "Pending")


SERVING = ("predicates", "dynamicresources", "proportion", "nodeplacement")
BOTH = {
    "kai": {"dialect": "kai", "actions": "allocate", "tiers": [{"plugins": [{"name": name} for name in SERVING]}]},
    "volcano": {"actions": "enqueue, allocate", "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}]},
}


@pytest.mark.parametrize("failed", ["one-0", "one-1"])
@pytest.mark.parametrize("dialect", BOTH)
def test_devices_stay_with_a_claim_while_one_bind_of_its_pods_is_under_way(dialect: str, failed: str) -> None:
    """The bind of one of two pods that share a claim fails; the other pod keeps the devices.

    A device that is no GPU: KAI counts GPUs of claims on nodes too.
    """
    case = with_devices(
        *(node("n1"), queue("q"), claiming("one", "c", pods=2, least=1)),
        told=[slices("n1", 1, "nic.example.com")],
        claims=[claim("c", kind="nic.example.com"), claim("d", kind="nic.example.com")],
        actions="allocate",
    )
    state, runtime = state_of(case, case.data["objects"]), Runtime()
    conf = from_data(BOTH[dialect], catalogue_of(default_registry())).conf
    assembly = assemble(conf, default_registry())
    assert sorted(run_cycle(state, assembly, runtime).binds) == ["default/one-0", "default/one-1"]
    state.apply(BindFailed(f"default/{failed}", failed, "refused", "n1"))
    state.apply(Gone("Pod", f"default/{failed}"))
    late = claiming("two", "d", minute=1)
    for kind, key in (("PodGroup", "podGroups"), ("Pod", "pods")):
        for data in late[key]:
            state.apply(Seen(api.decode(kind, data)))
    for _ in range(3):
        assert run_cycle(state, assembly, runtime).binds == {}
