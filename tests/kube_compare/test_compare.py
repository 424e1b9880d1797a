"""The same pods to kube-scheduler and to `pumice run`, on one API server: each pod must get the same node, or none.

A difference must be named on the page of limits (`LIMITS`); one that is gone must leave the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compare_scenarios import SCENARIOS
from compare_side import KUBE, Side
from kube_bed import ROOT, Bed, Missing, free_port
from kube_world import Scheduler

CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
LIMITS = {
    "shares_of_one_device": "Shares of a device",
}
"""Scenario -> the words by which docs/limits.md names the difference."""


@pytest.fixture(scope="module")
def both(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A server with both schedulers at work."""
    folder: Path = tmp_path_factory.mktemp("compare")
    conf = folder / "scheduler.conf"
    conf.write_text(CONF)
    flags = [
        f"--{name}={bed.admin}" for name in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    ]
    try:
        theirs = bed.beside(
            *("kube-scheduler", *flags, "--leader-elect=false", "--bind-address=127.0.0.1"),
            f"--secure-port={free_port()}",
        )
    except Missing as exc:
        pytest.fail(str(exc), pytrace=False)
    ours = Scheduler(folder / "pumice.log", str(bed.scheduler), f"--scheduler-conf={conf}", "--leader-elect=false")
    try:
        yield bed
        assert (theirs.poll(), ours.code) == (None, None), "a scheduler ended"
    finally:
        ours.kill()
        bed.end(theirs)


def outcome(bed: Bed, scheduler: str, name: str) -> tuple[dict[str, str], Any]:
    """Where a scheduler puts the pods of a scenario, and what else the scenario compares."""
    side = Side(bed, scheduler, name)
    try:
        said = SCENARIOS[name](side)
        return side.settled(), said
    finally:
        side.clean()


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_schedulers_place_the_same_pods_on_the_same_nodes(both: Bed, name: str) -> None:
    theirs, ours = outcome(both, KUBE, name), outcome(both, "pumice", name)
    if name in LIMITS:
        assert ours != theirs, f"{name}: no difference any more; take it out of LIMITS and off the page of limits"
    else:
        assert ours == theirs


def test_differences_are_named_on_the_page_of_limits() -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    assert set(LIMITS) <= set(SCENARIOS)
    assert [words for words in LIMITS.values() if words not in page] == []
