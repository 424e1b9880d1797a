"""drf: the smallest dominant share goes first, for jobs and for a hierarchy of queues."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_worlds import no_arguments, opened, queue

from effort import examples
from pumice.framework.session.session import Session
from pumice.model.intents import Note
from pumice.model.resources import CPU, MEMORY
from pumice.plugins.drf import Drf
from pumice.plugins.drf.hierarchy import Hierarchy
from pumice.testing import Scenario
from pumice.testing.builders import job, node
from pumice.testing.world import task_of


def _world(*objects: object, hierarchy: bool = False) -> Session:
    return opened(Drf(no_arguments()), *objects, hierarchy=hierarchy)  # type: ignore[arg-type]


def _placed(name: str, path: str, weights: str) -> Any:
    notes = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    return queue(name, annotations=notes)


# -- jobs -----------------------------------------------------------------------------------------------------------
def test_the_job_that_holds_the_smallest_part_of_its_dominant_resource_goes_first() -> None:
    ssn = _world(queue("default"), node("n", cpu=10, memory="100Gi"), job("cpu", cpu=2, on="n"),
                 job("memory", cpu=1, memory="50Gi", on="n"), job("new"))  # fmt: skip
    ordered = sorted(ssn.jobs.values(), key=ssn.orders.job_key())
    assert [j.name for j in ordered] == ["new", "cpu", "memory"]


def test_jobs_take_turns() -> None:
    scenario = Scenario(node("n", cpu=4), job("a", tasks=4, min_available=1), job("b", tasks=4, min_available=1))
    binds = scenario.run(plugins=["gang", "drf"]).binds
    assert sorted(pod.split("/")[1][0] for pod in binds) == ["a", "a", "b", "b"]


def test_the_order_of_waiting_jobs_follows_the_size_of_the_cluster() -> None:
    """A job heavy in cpu has the larger share until cpu is added."""
    scenario = Scenario(node("n", cpu=4, memory="10Gi"))
    scenario.add(job("m", tasks=2, min_available=1, cpu=1, memory="4Gi", on=["n"]))
    scenario.add(job("c", tasks=2, min_available=1, cpu=3, memory="1Gi", on=["n"]))
    assert not scenario.run(5, plugins=["gang", "drf"], actions=["allocate"]).binds
    scenario.add(node("n", cpu=100, memory="10Gi"))
    assert list(scenario.run().binds) == ["default/c-1", "default/m-1"]


def test_only_jobs_that_would_still_hold_as_much_are_preempted() -> None:
    ssn = _world(queue("default"), node("n", cpu=8), job("big", tasks=4, on="n"), job("small", on="n"), job("new"))
    candidates = [task_of(ssn, name) for name in ("big-0", "big-1", "big-2", "big-3", "small-0")]
    victims = ssn.preemptable(task_of(ssn, "new-0"), candidates) or []
    assert sorted(t.name for t in victims) == ["big-1", "big-2", "big-3"], "the last of big goes first; one stays"


def test_shares_of_jobs_are_published() -> None:
    scenario = Scenario(node("n", cpu=4), job("a", tasks=2))
    cycle = scenario.run(plugins=["gang", "drf"])
    assert cycle.gauge("job_share", job_ns="default", job_id="a") == 0.5


# -- queues ---------------------------------------------------------------------------------------------------------
def test_queues_share_by_weight_at_every_level() -> None:
    ssn = _world(
        *(_placed("a", "root/a", "1/1"), _placed("b1", "root/b/b1", "1/1/1"), _placed("b2", "root/b/b2", "1/1/1")),
        node("n", cpu=16),
        *(job("x", tasks=9, on=["n"], queue="a"), job("y", tasks=9, on=["n"], queue="b1")),
        job("z", tasks=9, queue="b2"),
        hierarchy=True,
    )
    of = ssn.queues
    assert ssn.queue_order(of["b2"], of["b1"]) < 0
    assert ssn.queue_order(of["a"], of["b2"]) == 0, "b holds as much as a, whoever of its queues holds it"
    heavy = _world(
        *(_placed("a", "root/a", "1/1"), _placed("b", "root/b", "1/2"), node("n", cpu=16)),
        *(job("x", tasks=9, on=["n"], queue="a"), job("y", tasks=9, on=["n"], queue="b")),
        hierarchy=True,
    )
    assert heavy.queue_order(heavy.queues["b"], heavy.queues["a"]) < 0


def test_a_greedy_queue_does_not_speak_for_its_neighbours() -> None:
    """b1 holds 3 cpus and b2 one: together they count as if each held one."""
    ssn = _world(
        *(_placed("a", "root/a", "1/1"), _placed("b1", "root/b/b1", "1/1/1"), _placed("b2", "root/b/b2", "1/1/1")),
        node("n", cpu=16),
        *(job("x", tasks=9, on=["n"] * 3, queue="a"), job("y", tasks=9, on=["n"] * 3, queue="b1")),
        job("z", tasks=9, on=["n"], queue="b2"),
        hierarchy=True,
    )
    assert ssn.queue_order(ssn.queues["b1"], ssn.queues["a"]) < 0


def test_a_queue_whose_jobs_have_all_they_want_comes_last() -> None:
    ssn = _world(
        *(_placed("a", "root/a", "1/1"), _placed("b", "root/b", "1/1"), node("n", cpu=16)),
        *(job("x", tasks=1, on="n", queue="a"), job("y", tasks=9, on=["n", "n", "n"], queue="b")),
        hierarchy=True,
    )
    assert ssn.queue_order(ssn.queues["b"], ssn.queues["a"]) < 0


def test_a_queue_that_wants_what_nobody_can_have_comes_after_one_that_can_be_served() -> None:
    """All cpu is gone: a waits for cpu in vain, b for memory, of which there is some."""
    ssn = _world(
        *(_placed(name, f"root/{name}", "1/1") for name in ("a", "b", "c")),
        node("n", cpu=4, memory="100Gi"),
        *(job("x", tasks=2, on=["n"], queue="a"), job("y", tasks=2, cpu=0, memory="50Gi", on=["n"], queue="b")),
        job("z", tasks=3, on="n", queue="c"),
        hierarchy=True,
    )
    assert ssn.queue_order(ssn.queues["b"], ssn.queues["a"]) < 0


def test_the_order_of_queues_follows_placements_both_ways() -> None:
    ssn = _world(
        *(_placed("a", "root/a", "1/1"), _placed("b", "root/b", "1/1"), node("n", cpu=16)),
        *(job("x", tasks=5, on=["n"], queue="a"), job("y", tasks=5, queue="b")),
        hierarchy=True,
    )
    of, statement = ssn.queues, ssn.statement()
    assert ssn.queue_order(of["b"], of["a"]) < 0
    for n in range(2):
        statement.allocate(task_of(ssn, f"y-{n}"), ssn.nodes["n"])
    assert ssn.queue_order(of["a"], of["b"]) < 0
    statement.discard()
    assert ssn.queue_order(of["b"], of["a"]) < 0


def test_a_queue_reclaims_only_while_it_still_comes_first() -> None:
    ssn = _world(
        *(_placed("a", "root/a", "1/1"), _placed("b", "root/b", "1/1"), node("n", cpu=8)),
        *(job("x", tasks=9, on=["n"] * 6, queue="a"), job("y", tasks=9, on=["n"] * 2, queue="b")),
        hierarchy=True,
    )
    candidates = [task_of(ssn, f"x-{n}") for n in range(6)]
    assert len(ssn.reclaimable(task_of(ssn, "y-5"), candidates) or []) == 6
    assert ssn.reclaimable(task_of(ssn, "x-7"), [task_of(ssn, "y-0")]) == []
    before = ssn.queue_order(ssn.queues["b"], ssn.queues["a"])
    assert before < 0, "asking about victims changes nothing"


def test_weights_that_are_too_few_are_named_and_count_as_one() -> None:
    ssn = _world(_placed("a", "root/x/a", "1/2"), _placed("b", "root/b", "oops/0.5"), node("n"),
                 job("x", queue="a"), job("y", queue="b"), hierarchy=True)  # fmt: skip
    notes = [i for i in ssn.outcome.intents if isinstance(i, Note)]
    assert [n.key for n in notes] == ["a"]
    assert "must give a weight for each part" in notes[0].message
    assert ssn.queue_order(ssn.queues["a"], ssn.queues["b"]) == 0


def test_a_queue_without_a_path_hangs_on_the_root() -> None:
    ssn = _world(queue("plain"), _placed("a", "root/a", "1/1"), node("n"), job("x", on="n", queue="plain"),
                 job("y", queue="a"), hierarchy=True)  # fmt: skip
    assert ssn.queue_order(ssn.queues["plain"], ssn.queues["a"]) == 0


@settings(max_examples=examples(40), deadline=None)
@given(held=st.lists(st.integers(0, 4), min_size=4, max_size=4), total=st.integers(1, 20))
def test_what_is_kept_between_questions_is_what_a_new_tree_would_say(held: list[int], total: int) -> None:
    paths = ["root/a/x", "root/a/y", "root/b", "root/b/z"]
    queues = [_placed(f"q{n}", path, "1/2/3") for n, path in enumerate(paths)]
    jobs = [job(f"j{n}", tasks=4, min_available=1, queue=f"q{n}") for n in range(4)]
    ssn = _world(*queues, *jobs, node("n", cpu=total, pods=100), hierarchy=True)
    totals = [(d, v) for d, v in sorted(ssn.state.total.items()) if v]
    kept = Hierarchy(ssn.queues.values(), totals)
    pairs = [(a, b) for a in ssn.queues.values() for b in ssn.queues.values()]
    statement = ssn.statement()
    for n, count in enumerate(held):
        for m in range(count):
            statement.allocate(task_of(ssn, f"j{n}-{m}"), ssn.nodes["n"])
            kept.compare(*pairs[1])
        fresh = Hierarchy(ssn.queues.values(), totals)
        for a, b in pairs:
            assert kept.compare(a, b) == fresh.compare(a, b) == pytest.approx(-fresh.compare(b, a))
    assert {CPU, MEMORY} <= {d for d, _ in totals}
