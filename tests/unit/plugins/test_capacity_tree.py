"""capacity with a hierarchy: what holds for a queue holds for everything above it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_worlds import opened, queue

from effort import examples
from pumice.framework.plugin import Arguments
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note
from pumice.model.resources import CPU
from pumice.plugins.capacity import Capacity
from pumice.plugins.capacity.tree import QueueTree, common_level
from pumice.testing import Scenario
from pumice.testing.builders import job, node
from pumice.testing.world import task_of

PLUGINS: list[Any] = ["priority", "gang", {"name": "capacity", "enableHierarchy": True}]


def _world(*objects: object, level: int = 0, volcano: bool = False) -> Session:
    plugin = Capacity(Arguments({"ancestorReclaimLevel": level}))
    return opened(plugin, *objects, hierarchy=True, volcano=volcano)  # type: ignore[arg-type]


def _family(**parent: Any) -> list[Any]:
    """root over ``top`` and ``other``; ``top`` over ``left`` and ``right``."""
    return [queue("root"), queue("top", **parent), queue("left", parent="top"), queue("right", parent="top"),
            queue("other")]  # fmt: skip


def test_a_parent_limits_all_its_children_together() -> None:
    scenario = Scenario(*_family(capability={"cpu": 3}), node("n", cpu=16))
    for name in ("left", "right"):
        scenario.add(job(name, tasks=4, min_available=1, queue=name))
    assert len(scenario.run(plugins=PLUGINS).binds) == 3
    assert "(in queue top above it)" in scenario.last.why("right").text
    scenario.assert_invariants()


def test_a_missing_capability_is_inherited_from_the_parent() -> None:
    ssn = _world(*_family(capability={"cpu": 3, "nvidia.com/gpu": 2}), node("n", cpu=16, gpu=8))
    limit = QueueTree(ssn.state.queues, ssn.state.total, hierarchy=True).branches["left"].limit
    assert (limit[CPU], limit.get(1)) == (3000, float("inf"))


def test_a_child_may_use_what_its_siblings_are_not_guaranteed() -> None:
    queues = [queue("root"), queue("top", capability={"cpu": 10}), queue("left", parent="top", guarantee={"cpu": 4}),
              queue("right", parent="top", guarantee={"cpu": 1})]  # fmt: skip
    ssn = _world(*queues, node("n", cpu=16))
    branches = QueueTree(ssn.state.queues, ssn.state.total, hierarchy=True).branches
    assert branches["left"].limit[CPU] == 9000
    assert branches["right"].limit[CPU] == 6000
    assert branches["root"].guarantee.milli_cpu == 0
    assert branches["left"].deserved.milli_cpu == 4000


def test_siblings_compete_by_their_own_shares_and_cousins_by_their_parents() -> None:
    ssn = _world(
        *(queue("root"), queue("a", deserved={"cpu": 8}), queue("b", deserved={"cpu": 2})),
        queue("a1", parent="a", deserved={"cpu": 1}),
        *(queue("a2", parent="a", deserved={"cpu": 4}), queue("b1", parent="b", deserved={"cpu": 2})),
        node("n", cpu=16),
        *(job("x", tasks=1, on="n", queue="a1"), job("y", tasks=1, on="n", queue="b1")),
    )
    of = ssn.queues
    assert ssn.queue_order(of["a2"], of["a1"]) < 0
    assert ssn.queue_order(of["a1"], of["b1"]) < 0, "a holds an eighth of what it deserves, b half"
    assert ssn.queue_order(of["a1"], of["a"]) < 0, "leaves come first"


@pytest.mark.parametrize("volcano", [False, True])
def test_the_share_of_a_parent_follows_placements_unless_volcano_is_wanted(volcano: bool) -> None:
    ssn = _world(
        *(queue("root"), queue("a", deserved={"cpu": 4}), queue("b", deserved={"cpu": 4})),
        *(queue("a1", parent="a"), queue("b1", parent="b"), node("n", cpu=16)),
        *(job("x", tasks=2, on="n", queue="b1"), job("y", tasks=3, queue="a1")),
        volcano=volcano,
    )
    of = ssn.queues
    assert ssn.queue_order(of["a1"], of["b1"]) < 0
    statement = ssn.statement()
    for n in range(3):
        statement.allocate(task_of(ssn, f"y-{n}"), ssn.nodes["n"])
    assert (ssn.queue_order(of["a1"], of["b1"]) < 0) is volcano
    statement.discard()
    assert ssn.queue_order(of["a1"], of["b1"]) < 0


def test_victims_come_first_from_the_queue_that_is_nearest() -> None:
    ssn = _world(*_family(), node("n"))
    of = ssn.queues
    assert ssn.orders.victim_queue_less(of["right"], of["other"], of["left"])
    assert not ssn.orders.victim_queue_less(of["other"], of["right"], of["left"])
    branches = QueueTree(of, ssn.state.total, hierarchy=True).branches
    assert common_level(branches["left"], branches["right"]) == 1
    assert common_level(branches["left"], branches["other"]) == 0


def test_a_job_in_a_queue_with_children_waits_and_is_told_why() -> None:
    scenario = Scenario(*_family(), node("n"))
    scenario.add(job("x", queue="top", min_resources={"cpu": 1}), job("y", queue="left", min_resources={"cpu": 1}))
    scenario.run(plugins=PLUGINS)
    scenario.assert_bound("y")
    scenario.assert_pending("x", because="queue top is not a leaf")


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ([queue("x", parent="nowhere")], "queue x: the parent 'nowhere' of queue x does not exist"),
        ([queue("x", parent="y"), queue("y", parent="x")], "queue x: its line of parents is a cycle: x -> y -> x"),
        ([queue("x", parent="x")], "queue x: its line of parents is a cycle: x -> x"),
        ([queue("x", parent="y"), queue("y", parent="no")], "queue x: the parent 'no' of queue y does not exist"),
    ],
)
def test_a_bad_queue_stops_itself_alone(bad: list[Any], text: str) -> None:
    scenario = Scenario(queue("root"), *bad, node("n"), job("j", queue="x"), job("fine"))
    cycle = scenario.run(plugins=PLUGINS)
    scenario.assert_bound("fine")
    scenario.assert_pending("j", because=text)
    assert Note("Queue", "x", "Warning", ReasonCode.INVALID_QUEUE, text) in cycle.updates
    assert not [u for u in scenario.run().updates if isinstance(u, Note)]


def test_in_volcano_a_bad_queue_stops_everything() -> None:
    scenario = Scenario(queue("root"), queue("x", parent="nowhere"), node("n"), job("fine"))
    scenario.run(plugins=PLUGINS, compat="volcano")
    scenario.assert_pending("fine", because="'nowhere'")
    misplaced = Scenario(*_family(), node("n"), job("x", queue="top"), job("fine"))
    misplaced.run(plugins=PLUGINS, compat="volcano")
    misplaced.assert_pending("fine", because="queue top has jobs and is not a leaf")


def test_without_a_root_queue_there_is_one_without_limits() -> None:
    scenario = Scenario(queue("a"), node("n"), job("x", queue="a"))
    scenario.run(plugins=PLUGINS)
    scenario.assert_bound("x")


@pytest.mark.parametrize(
    ("queues", "who", "text"),
    [
        ([queue("a", guarantee={"cpu": 4}, capability={"cpu": 2})], "a", "guarantee .* must not exceed capability"),
        ([queue("a", capability={"cpu": 2}), queue("b", parent="a", capability={"cpu": 3})], "b", "exceeds that of"),
        ([queue("a", deserved={"cpu": 2}), queue("b", parent="a", deserved={"cpu": 3})], "a", "more deserved"),
        ([queue("a"), queue("b", parent="a", guarantee={"cpu": 3})], "a", "more guarantee|more deserved"),
    ],
)
def test_bounds_that_do_not_add_up_are_named(queues: list[Any], who: str, text: str) -> None:
    ssn = _world(queue("root"), *queues, node("n"))
    notes = [i for i in ssn.outcome.intents if isinstance(i, Note)]
    assert [n.key for n in notes] == [who]
    assert notes[0].message.startswith(f"queue {who}: ")
    assert re.search(text, notes[0].message)


def _reclaim(ssn: Session, reclaimer: str, *candidates: str) -> list[str]:
    victims = ssn.reclaimable(task_of(ssn, reclaimer), [task_of(ssn, c) for c in candidates])
    return sorted(t.name for t in victims or [])


def test_a_parent_within_what_it_deserves_protects_its_children_at_its_level() -> None:
    objects = [
        *(queue("root"), queue("a", deserved={"cpu": 4}), queue("b", deserved={"cpu": 4})),
        *(queue("a1", parent="a", deserved={"cpu": 1}), queue("b1", parent="b", deserved={"cpu": 4}), node("n", cpu=8)),
        *(job("x", tasks=3, on="n", queue="a1"), job("y", queue="b1")),
    ]
    candidates = ("x-0", "x-1", "x-2")
    assert len(_reclaim(_world(*objects), "y-0", *candidates)) == 2
    assert _reclaim(_world(*objects, level=1), "y-0", *candidates) == []


def test_a_parent_gives_back_no_more_than_it_holds_too_much_however_many_children_do() -> None:
    objects = [
        *(queue("root"), queue("a", deserved={"cpu": 4}), queue("b", deserved={"cpu": 4})),
        *(queue(child, parent="a", deserved={"cpu": 1}) for child in ("a1", "a2")),
        *(queue("b1", parent="b", deserved={"cpu": 4}), node("n", cpu=8)),
        *(job("x", tasks=3, on="n", queue="a1"), job("z", tasks=3, on="n", queue="a2"), job("y", queue="b1")),
    ]
    candidates = [f"{name}-{n}" for name in "xz" for n in range(3)]
    assert len(_reclaim(_world(*objects), "y-0", *candidates)) == 4
    assert len(_reclaim(_world(*objects, level=1), "y-0", *candidates)) == 2


def test_siblings_that_deserve_nothing_do_not_reclaim_from_each_other_at_their_level() -> None:
    objects = [*_family(deserved={"cpu": 8}), node("n", cpu=8), job("x", tasks=2, on="n", queue="left"),
               job("y", queue="right")]  # fmt: skip
    assert _reclaim(_world(*objects), "y-0", "x-0", "x-1") == ["x-0", "x-1"]
    assert _reclaim(_world(*objects, level=1), "y-0", "x-0", "x-1") == []


def test_a_queue_may_reclaim_for_what_its_parent_deserves() -> None:
    objects = [*_family(deserved={"cpu": 4}), node("n", cpu=8), job("y", queue="right")]
    for level, may in ((0, False), (1, True)):
        ssn = _world(*objects, level=level)
        assert bool(ssn.preemptive(ssn.queues["right"], [task_of(ssn, "y-0")])) is may


def test_what_is_let_in_below_counts_for_the_parent() -> None:
    scenario = Scenario(*_family(capability={"cpu": 3}), node("n", cpu=16))
    scenario.add(job("x", tasks=2, queue="left", min_resources={"cpu": 2}))
    scenario.add(job("y", tasks=2, queue="right", min_resources={"cpu": 2}))
    scenario.run(actions=["enqueue"], plugins=PLUGINS)
    assert sorted(scenario.job_of(j).phase for j in ("x", "y")) == ["Inqueue", "Pending"]


@st.composite
def trees(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Queues q0…: each below an earlier one or the root, some with bounds, and how many tasks run in each."""
    out = []
    for n in range(draw(st.integers(1, 6))):
        spec: dict[str, Any] = {"parent": draw(st.sampled_from(["root", *(f"q{m}" for m in range(n))]))}
        if draw(st.booleans()):
            spec["capability"] = {"cpu": draw(st.integers(1, 8))}
        if draw(st.booleans()):
            spec["guarantee"] = {"cpu": draw(st.integers(1, 2))}
        out.append({"name": f"q{n}", "spec": spec, "running": draw(st.integers(0, 3))})
    return out


def _allowed(world: list[dict[str, Any]], name: str, more: int) -> bool:
    """May the queue take *more* cpus: walk up by brute force, straight from the specs."""
    of = {w["name"]: w for w in world}

    def parent(queue_name: str) -> str:
        return str(of[queue_name]["spec"]["parent"])

    def held(queue_name: str) -> int:
        below = sum(held(w["name"]) for w in world if w["spec"]["parent"] == queue_name)
        return below + (int(of[queue_name]["running"]) if queue_name in of else 0)

    def guarantee(queue_name: str) -> float:
        return float(of[queue_name]["spec"].get("guarantee", {}).get("cpu", 0))

    def capability(queue_name: str) -> float:
        if queue_name == "root":
            return float("inf")
        own = of[queue_name]["spec"].get("capability")
        return float(own["cpu"]) if own else capability(parent(queue_name))

    def limit(queue_name: str) -> float:
        if queue_name == "root":
            return float("inf")
        above = parent(queue_name)
        siblings = sum(guarantee(w["name"]) for w in world if w["spec"]["parent"] == above)
        return min(max(limit(above) - siblings, 0) + guarantee(queue_name), capability(queue_name))

    if any(w["spec"]["parent"] == name for w in world):
        return False
    at = name
    while at != "root":
        if held(at) + more > limit(at):
            return False
        at = parent(at)
    return True


@settings(max_examples=examples(60), deadline=None)
@given(world=trees(), data=st.data())
def test_the_check_of_a_line_of_queues_agrees_with_a_walk_through_the_specs(
    world: list[dict[str, Any]], data: st.DataObject
) -> None:
    objects: list[Any] = [queue("root"), node("n", cpu=1000, memory=0, pods=1000)]
    objects += [queue(w["name"], **w["spec"]) for w in world]
    objects += [job(f"run-{w['name']}", tasks=w["running"], on="n", queue=w["name"]) for w in world]
    chosen = data.draw(st.sampled_from(world))
    ssn = _world(*objects, job("new", tasks=10, queue=chosen["name"]))
    own, tasks = ssn.queues[chosen["name"]], [task_of(ssn, f"new-{n}") for n in range(10)]
    room = ssn.allocatable_room(own, tasks[0], 10)
    statement = ssn.statement()
    for n, task in enumerate(tasks):
        allowed = _allowed(world, chosen["name"], n + 1)
        assert bool(ssn.allocatable(own, task)) is allowed
        assert (n < room) is allowed
        if not allowed:
            break
        statement.allocate(task, ssn.nodes["n"])
    statement.discard()
    assert ssn.allocatable_room(own, tasks[0], 10) == room
