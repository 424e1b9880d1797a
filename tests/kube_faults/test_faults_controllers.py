"""The controllers are killed, frozen, cut off and refused: jobs get their pods once, and come to their end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from faults_moments import SHORT, STEADY, Kept, moments
from faults_proxy import Fault, Proxy
from faults_witness import Witness
from kube_bed import Bed, until
from kube_jobs import Place, grant_rights
from kube_world import World

PODS = r"/namespaces/[^/]+/pods$"
ENDS = 30.0
"""Seconds within which controllers that lost their lease must be gone: a lease of 3 s, and what may hang."""


@pytest.fixture(scope="module", autouse=True)
def rights(bed: Bed) -> None:
    """The account of the controllers may do what the manifest says."""
    grant_rights(bed)


@pytest.fixture
def place(world: World) -> Iterator[Place]:
    made = Place(world)
    try:
        yield made
    finally:
        for process in world.processes:
            process.kill()
        if not world.bed.serving:
            world.bed.start_server()
        made.clean()


def whole(place: Place, witness: Witness, name: str, pods: int) -> None:
    """The job runs with all its pods, each of which was made once, and completes when they have ended."""
    place.reaches(name, "Running", 90)
    until(lambda: len(place.world.bound()) == pods, 60, "all pods are bound")
    place.world.kubelet()
    place.ends("Succeeded", *place.world.bound())
    place.reaches(name, "Completed", 90)
    witness.check()
    again = {pod: uids for pod, uids in witness.made.items() if len(uids) > 1}
    assert not again, f"made more than once: {again}"
    assert len(witness.made) == pods


def scheduled(place: Place, nodes: int = 2) -> None:
    """Nodes, and a scheduler that nothing happens to."""
    for i in range(nodes):
        place.world.node(f"n{i}", cpu="10")
    place.world.scheduler("--no-leader-elect")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("pod", moments("controllers killed", 2, 11))
def test_a_job_gets_every_pod_once_when_the_controllers_are_killed_at_one(
    place: Place, proxy: Proxy, witness: Witness, pod: int, after: bool
) -> None:
    scheduled(place)
    dead = threading.Event()
    with Kept(place.world, *SHORT, kubeconfig=proxy.controllers, start=place.controllers) as kept:

        def die() -> None:
            kept.current.kill()
            dead.set()

        proxy.add(Fault("cut", PODS, skip=pod, then=die, after=after))
        place.job("train", {"worker": 12})
        assert dead.wait(60), f"pod {pod} was not made"
        until(lambda: kept.led == 2, 40, "the next one leads")
        whole(place, witness, "train", 12)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_controllers_that_are_frozen_past_their_lease_end_and_write_nothing(
    place: Place, proxy: Proxy, witness: Witness, after: bool
) -> None:
    scheduled(place)
    frozen = threading.Event()
    first = place.controllers(*STEADY, kubeconfig=proxy.controllers)
    until(lambda: " leads " in first.log, 40, "the first leads")
    second = place.controllers(*STEADY)

    def freeze() -> None:
        first.freeze()
        frozen.set()

    proxy.add(Fault("cut" if after else "pass", PODS, skip=5, then=freeze, after=after))
    place.job("train", {"worker": 12})
    assert frozen.wait(60), "the sixth pod was not made"
    until(lambda: " leads " in second.log, 40, "the second leads")
    until(lambda: len(place.world.pods()) == 12, 40, "the second makes the rest")
    first.thaw()
    assert first.wait(ENDS) == 1
    whole(place, witness, "train", 12)


@pytest.mark.smoke
def test_controllers_that_are_cut_off_end_in_time_and_others_go_on(
    place: Place, proxy: Proxy, witness: Witness
) -> None:
    scheduled(place)
    first = place.controllers(*SHORT, kubeconfig=proxy.controllers)
    until(lambda: " leads " in first.log, 40, "the first leads")
    second = place.controllers(*SHORT)
    proxy.add(Fault("pass", PODS, skip=5, then=proxy.freeze))
    place.job("train", {"worker": 12})
    assert first.wait(ENDS) == 1
    assert "not renewed within 2 s" in first.log
    whole(place, witness, "train", 12)
    proxy.thaw()
    assert " leads " in second.log


@pytest.mark.parametrize("pod", moments("controllers server", 1, 11))
def test_a_job_gets_every_pod_once_when_the_server_dies_at_one(
    place: Place, proxy: Proxy, witness: Witness, pod: int
) -> None:
    scheduled(place)
    dead = threading.Event()

    def die() -> None:
        place.bed.stop_server(kill=True)
        dead.set()

    proxy.add(Fault("cut", PODS, skip=pod, then=die))
    with Kept(place.world, *SHORT, kubeconfig=proxy.controllers, start=place.controllers):
        place.job("train", {"worker": 12})
        assert dead.wait(60), f"pod {pod} was not made"
        place.bed.start_server()
        whole(place, witness, "train", 12)


@pytest.mark.parametrize("does", [429, 500, 503, "cut"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_job_gets_every_pod_once_when_the_server_refuses_some_for_a_while(
    place: Place, proxy: Proxy, witness: Witness, does: int | str, after: bool
) -> None:
    scheduled(place)
    proxy.add(Fault(does, PODS, skip=2, times=8, after=after))  # type: ignore[arg-type]
    proxy.add(Fault(does, r"/jobs/train/status$", method="PUT", skip=1, times=2, after=after))  # type: ignore[arg-type]
    proxy.add(Fault(does, r"/podgroups$", times=1, after=after))  # type: ignore[arg-type]
    place.controllers("--leader-elect=false", kubeconfig=proxy.controllers)
    place.job("train", {"worker": 12})
    whole(place, witness, "train", 12)
