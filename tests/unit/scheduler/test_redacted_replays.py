"""A redacted cycle is replayed where it is made: it decides in the same way, or that is said."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from pumice import Plugin, Unfit
from pumice.config import DEFAULT_CONF, from_data, load
from pumice.framework.registry import Registry, default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.model.task import Task
from pumice.saved.cycle import SavedCycle
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import decisions_of, record, redacted_and_tried, replay
from pumice.state.cluster import ClusterState
from pumice.testing import builders


def of_a_running_scheduler(name: str, registry: Registry, *plugins: str) -> SavedCycle:
    """A cycle of a scheduler that looks after pods with its own name."""
    state, runtime = ClusterState(scheduler_names=[name]), Runtime()
    for obj in [builders.node("n0"), builders.queue("default"), *builders.job("vip", tasks=2, cpu=1)]:
        if obj.kind_name == "Pod":
            obj = structs.replace(obj, spec=structs.replace(obj.spec, scheduler_name=name))  # type: ignore[attr-defined]
        state.apply(Seen(obj))
    catalogue = catalogue_of(registry)
    conf = load(DEFAULT_CONF, catalogue, source="x").conf
    if plugins:
        tiers = [{"plugins": [{"name": plugin} for plugin in ("gang", *plugins)]}]
        conf = from_data({"actions": "allocate", "tiers": tiers}, catalogue).conf
    assembly = assemble(conf, registry)
    saved = record(state, assembly.conf, runtime)
    saved.decisions = decisions_of(run_cycle(state, assembly, runtime).intents)
    assert saved.decisions
    return saved


@pytest.mark.parametrize("name", ["pumice", "volcano", "kai-scheduler", "default-scheduler", "of-the-team"])
def test_a_redacted_cycle_of_a_running_scheduler_decides_the_same(name: str) -> None:
    hidden, same = redacted_and_tried(of_a_running_scheduler(name, default_registry()), default_registry())
    assert same
    assert replay(hidden, default_registry()).decisions == hidden.decisions
    assert b"vip" not in msgspec.json.encode(hidden)


class OnlyVip(Plugin):
    """A policy that decides by a name; without names it decides otherwise."""

    name = "only-vip"

    def predicate(self, task: Task, node: object) -> None:
        if not task.name.startswith("vip"):
            raise Unfit("not for this pod")


def test_a_policy_that_reads_names_is_told() -> None:
    registry = default_registry().copy()
    registry.register("only-vip", OnlyVip)
    hidden, same = redacted_and_tried(of_a_running_scheduler("pumice", registry, "only-vip"), registry)
    assert not same
    assert len(hidden.decisions) == 2
