"""What tests of faults are given: a world of their own, a way to the server that misbehaves, a witness."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faults_proxy import Proxy
from faults_witness import Witness
from kube_bed import Bed
from kube_world import World


@pytest.fixture
def world(bed: Bed, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace and nodes of its own for each test; the server runs again afterwards."""
    made = World(bed, request.node.name)
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
        if not bed.serving:
            bed.start_server()
        made.clean()


@pytest.fixture
def proxy(bed: Bed) -> Iterator[Proxy]:
    """A way to the server that can be told to misbehave."""
    with Proxy(bed) as made:
        yield made


@pytest.fixture
def witness(world: World) -> Iterator[Witness]:
    """Sees everything that becomes of the world's pods."""
    with Witness(world) as made:
        yield made
