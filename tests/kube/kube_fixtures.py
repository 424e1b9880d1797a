"""Fixtures of the tests against a real API server: the server, a namespace for each test, kubelets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from kube_bed import ROOT, Bed, Missing, Refusal, until
from kube_world import World


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """An API server with our CRDs and rights. Fails if there are no binaries: it does not skip."""
    try:
        made = Bed(tmp_path_factory.mktemp("bed"))
    except Missing as exc:
        pytest.fail(str(exc), pytrace=False)
    try:
        made.start()
        for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
            made.apply(path)
        made.apply(ROOT / "deploy" / "manifests" / "rbac.yaml")
        for listed in _defined(made):
            until(partial(_listed, made, listed), 20, f"{listed} can be listed")
        yield made
    finally:
        made.stop()


def _defined(bed: Bed) -> list[str]:
    """Where the objects of every kind are that the server was given a definition of."""
    found = bed.call("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    return [
        f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
        for spec in (definition["spec"] for definition in found)
        for version in spec["versions"]
        if version["served"]
    ]


def _listed(bed: Bed, path: str) -> bool:
    """Whether a new kind can be listed: the server needs a moment after it took the definition."""
    try:
        return "items" in bed.call("GET", path)
    except Refusal:
        return False


@pytest.fixture
def world(bed: Bed, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace and nodes of its own for each test."""
    made = World(bed, request.node.name)
    try:
        yield made
    finally:
        made.clean()


@pytest.fixture
def kubelets(bed: Bed) -> Iterator[None]:
    """Bound pods run, finish after the time in their annotation, and go when deleted."""
    try:
        process = bed.kubelets()
    except Missing as exc:
        pytest.fail(str(exc), pytrace=False)
    try:
        yield
        assert process.poll() is None, f"kwok ended with {process.returncode}"
    finally:
        bed.end(process)
