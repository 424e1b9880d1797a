"""Shared GPUs while binds are under way: the group of an assumed bind counts, is saved, and survives redaction."""

from __future__ import annotations

from collections.abc import Sequence

from kai_cases import cluster, job, node, queue
from pumice_conformance.kai_rounds import prepare, state_of

from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.model.intents import Bind, Intent
from pumice.saved.cycle import SavedCycle
from pumice.saved.redact import redacted
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import record, restored
from pumice.state.cluster import ClusterState
from pumice.state.devices import GROUP_LABEL


def under_way() -> tuple[ClusterState, Assembly, Runtime, str]:
    """A node of two GPUs; binds of a half and of a whole GPU are sent and not seen back; a second half waits."""
    case = cluster(
        *(node("n1", gpu=2), queue("q", quota=-1)),
        *(job("half", "q", fraction="0.5"), job("whole", "q", minute=1), job("late", "q", fraction="0.5", minute=2)),
        actions="allocate",
    )
    assembly, runtime = prepare(case, default_registry()), Runtime()
    late = {"podGroups", "pods"}
    first = {k: [o for o in v if "late" not in str(o["metadata"]["name"])] for k, v in case.data["objects"].items()}
    state = state_of(case, first)
    report = run_cycle(state, assembly, runtime)
    group = next(
        i.annotations[GROUP_LABEL] for i in report.intents if isinstance(i, Bind) and GROUP_LABEL in i.annotations
    )
    state_late = state_of(case, {k: v for k, v in case.data["objects"].items() if k in late})
    for made in (*(j.group for j in state_late.jobs.values()), *(t.pod for t in state_late.tasks.values())):
        if made is not None and made.metadata.name.startswith("late"):
            state.apply(Seen(made))
    return state, assembly, runtime, group


def groups(intents: Sequence[Intent]) -> list[str]:
    return [i.annotations.get(GROUP_LABEL, "") for i in intents if isinstance(i, Bind)]


def test_the_next_share_goes_to_the_gpu_of_a_bind_under_way() -> None:
    state, assembly, runtime, group = under_way()
    assert groups(run_cycle(state, assembly, runtime).intents) == [group]


def test_the_group_of_an_assumed_bind_is_saved_with_the_cycle() -> None:
    state, assembly, runtime, group = under_way()
    saved = record(state, assembly.conf, runtime)
    replayed = restored(saved, default_registry())
    assert groups(replayed.run().report.intents) == [group]


def test_redaction_renames_groups_and_the_decision_stays() -> None:
    state, assembly, runtime, group = under_way()
    saved: SavedCycle = redacted(record(state, assembly.conf, runtime))
    assert group not in str(saved.gpu_groups)
    (mine,) = {g for held in saved.gpu_groups.values() for g in held}
    assert groups(restored(saved, default_registry()).run().report.intents) == [mine]
