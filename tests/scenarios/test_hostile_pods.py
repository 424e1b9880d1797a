"""Whatever one pod holds is that pod's problem: the others are scheduled as if it were not there."""

from __future__ import annotations

import pytest

from pumice.model import api
from pumice.model.events import Seen
from pumice.state import handlers, pods
from pumice.state.cluster import ClusterState
from pumice.testing.builders import job, node, pod
from pumice.testing.scenario import Scenario


@pytest.mark.parametrize("name", ["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"])
@pytest.mark.parametrize("value", ["9" * 17, "9" * 400, "9" * 5000, "1e-999999999", "-1", "٣", "0x10", "nan", ""])
def test_an_annotation_that_cannot_be_read_stops_nobody_else(scenario: Scenario, name: str, value: str) -> None:
    scenario.node("n0", cpu=8, gpu=2, labels={"nvidia.com/gpu.memory": "16000"})
    scenario.job("innocent", cpu=1)
    scenario.job("strange", cpu=1, task_annotations={"gpu-fraction": "0.5", name: value})
    assert "default/innocent-0" in scenario.run().binds


def test_an_object_that_breaks_its_handler_is_a_problem_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_in = pods.pod_seen

    def breaks(state: ClusterState, seen: api.Pod) -> None:
        if seen.metadata.name == "odd":
            raise OverflowError("too large for a column")
        taken_in(state, seen)

    monkeypatch.setattr(handlers, "pod_seen", breaks)
    state = ClusterState()
    state.apply_all(Seen(o) for o in (node("n0", cpu=4), *job("j", tasks=1), pod("odd"), pod("even")))
    assert state.problems == {
        ("Pod", "default/odd"): "cannot be taken in: OverflowError: 'too large for a column'",
    }
    assert "default/even" in state.task_by_key


def _claim(mode: str) -> list[api.AnyObject]:
    storage = {"metadata": {"name": "wait"}, "provisioner": "csi.x", "volumeBindingMode": "WaitForFirstConsumer"}
    claim = {
        "metadata": {"name": "c", "namespace": "default", "uid": "cu"},
        "spec": {"storageClassName": "wait", "accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return [api.decode("StorageClass", storage), api.decode("PersistentVolumeClaim", claim)]


_MOUNTS = api.PodSpec(volumes=(api.Volume(name="v", persistent_volume_claim=api.ClaimVolume(claim_name="c")),))


@pytest.mark.parametrize(("mode", "bound"), [("ReadWriteOncePod", 1), ("ReadWriteMany", 2)])
def test_a_claim_for_one_pod_is_used_by_one_pod(scenario: Scenario, mode: str, bound: int) -> None:
    scenario.add(*_claim(mode)).node("n0", cpu=8).node("n1", cpu=8)
    scenario.job("a", cpu=1, spec=_MOUNTS).job("b", cpu=1, spec=_MOUNTS, priority=5)
    assert len(scenario.run().binds) == bound
    scenario.run()
    if bound == 1:
        assert "ReadWriteOncePod access mode" in str(scenario.last.why("a").text)
        scenario.finish("b-0")
        assert list(scenario.run().binds) == ["default/a-0"]


def test_a_gang_cannot_share_a_claim_for_one_pod(scenario: Scenario) -> None:
    scenario.add(*_claim("ReadWriteOncePod")).node("n0", cpu=8).node("n1", cpu=8)
    scenario.job("a", tasks=2, cpu=1, spec=_MOUNTS)
    assert scenario.run().binds == {}


def test_a_pod_that_uses_a_claim_for_one_pod_can_be_preempted_for_it(scenario: Scenario) -> None:
    scenario.add(*_claim("ReadWriteOncePod")).node("n0", cpu=8).node("n1", cpu=8)
    scenario.job("low", cpu=1, on="n0", spec=_MOUNTS, priority=1)
    scenario.job("high", cpu=1, spec=_MOUNTS, priority=5)
    cycle = scenario.run(actions=["enqueue", "allocate", "preempt"], plugins=[["priority", "gang"], ["predicates"]])
    assert cycle.evictions == ["default/low-0"]
