"""It does not matter whether events are taken in one by one or together: a gang's pods come, start and go the same."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from state_facts import BASE, facts

from effort import examples
from pumice.model.api import Pod, PodSpec, PodStatus
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import pod

NODES = ("n1", "n2")
FATES = ("stays", "binds", "starts", "starts", "starts", "starts", "ends", "fails", "elsewhere", "deleted", "renamed")


def waiting(number: int, kind: tuple[str, int, str, str], specs: dict[int, PodSpec]) -> Pod:
    """A pod that waits; those that ask for the same share their spec, as in the simulator."""
    group, gpus, role, label = kind
    made = pod(
        f"p-x-{number}", group=group, cpu=1 if gpus >= 0 else 0, gpu=max(gpus, 0), role=role, labels={"is": label}
    )
    return replace(made, spec=specs.setdefault(gpus, made.spec))


def everything(state: ClusterState) -> dict[str, object]:
    return {
        **facts(state),
        "moment": state.moment,
        "versions": {kind: n for kind, n in state.versions.items() if n},
        "order": [list(jobs) for jobs in (state.dirty, state.changed_jobs, state.backlog_changes, state.jobs)],
        "assumed": list(state.assumed),
        "best effort": sorted(state.best_effort),
        "tasks": [(t.key, t.status, t.node_name, t.assumed_at, t.labels) for t in state.tasks.values()],
        "rows": sorted(state.table.touched.since(0) or ()),
        "problems": state.problems,
    }


def later(obj: Pod, fate: str, node: str) -> ClusterEvent | None:
    """What is told next of a pod that was bound to a node."""
    match fate:
        case "starts" | "ends" | "deleted" | "renamed" | "elsewhere":
            on = next(n for n in NODES if n != node) if fate == "elsewhere" else node
            status = PodStatus(phase="Succeeded" if fate == "ends" else "Running")
            meta = obj.metadata
            if fate == "deleted":
                meta = replace(meta, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
            if fate == "renamed":
                meta = replace(meta, labels={"is": "new"})
            return Seen(Pod(metadata=meta, spec=replace(obj.spec, node_name=on), status=status))
        case "fails":
            return Gone("Pod", obj.key)
        case _:
            return None


def live(pods: list[Pod], nodes: list[str], fates: list[str], gone: list[ClusterEvent]) -> None:
    """Let pods come, be bound, have their fates and go, in a state that is told together and in one that is not."""
    together, one_by_one = ClusterState(), ClusterState()

    def tell(events: list[ClusterEvent]) -> None:
        together.apply_all(events)
        for event in events:
            one_by_one.apply(event)
        assert everything(together) == everything(one_by_one)
        assert violations(together) == []

    tell([Seen(obj) for obj in BASE])
    tell([Seen(obj) for obj in pods])
    for state in (together, one_by_one):
        for obj, node, fate in zip(pods, nodes, fates, strict=True):
            task = state.task_by_key[obj.key]
            if task.job_key and fate != "stays":
                state.move(task, TaskStatus.ALLOCATED, state.nodes[node])
                state.confirm(task)
    told = [later(obj, fate, node) for obj, node, fate in zip(pods, nodes, fates, strict=True)]
    tell([event for event in told if event is not None])
    tell(gone)


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_pods_that_come_start_and_go_together_count_as_one_by_one(data: st.DataObject) -> None:
    kinds = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "a", "a", "b", "lost", ""]),
                st.sampled_from([0, 0, 0, 1, 2, -1]),
                st.sampled_from(["", "worker"]),
                st.sampled_from(["one", "another"]),
            ),
            min_size=1,
            max_size=3,
        )
    )
    listed = sorted(data.draw(st.lists(st.integers(0, len(kinds) - 1), min_size=1, max_size=8)))
    specs: dict[int, PodSpec] = {}
    pods = [waiting(number, kinds[kind], specs) for number, kind in enumerate(listed)]
    nodes = [data.draw(st.sampled_from(NODES)) for _ in pods]
    fates = [data.draw(st.sampled_from(FATES)) for _ in pods]
    gone: list[ClusterEvent] = [Gone("Pod", obj.key) for obj in pods if data.draw(st.booleans())]
    if data.draw(st.booleans()):
        gone.insert(data.draw(st.integers(0, len(gone))), Gone("PodGroup", "default/a"))
    live(pods, nodes, fates, gone)


def test_roles_of_a_gang_that_starts_together_are_counted_apart() -> None:
    specs: dict[int, PodSpec] = {}
    pods = [waiting(number, ("a", 0, "chief" if number < 2 else "worker", "one"), specs) for number in range(5)]
    gone: list[ClusterEvent] = [Gone("Pod", obj.key) for obj in pods[1:4]]
    live(pods, ["n1"] * 5, ["starts"] * 5, gone)
