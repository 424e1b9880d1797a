"""Faults on a real API server, made only when asked for (``make test-kube-faults``): they take minutes.

Moments are drawn from a seed, which is printed; ``PUMICE_FAULTS_SEED`` sets another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from faults_moments import SEED
from faults_proxy import Proxy
from faults_witness import Witness
from kube_bed import Bed
from kube_fixtures import bed, kubelets
from kube_world import World

__all__ = ["bed", "kubelets"]

if "PUMICE_TEST_KUBE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]


def pytest_report_header() -> str:
    """Which moments are tried."""
    return f"faults: PUMICE_FAULTS_SEED={SEED}"


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
