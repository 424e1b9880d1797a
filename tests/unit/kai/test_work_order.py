"""Who goes next, job by job: the order that KAI's actions and its search for victims walk."""

from __future__ import annotations

from kai_cases import job, node, queue
from kai_plans import world

from pumice.kai.search.work_order import WorkOrder


def test_of_two_queues_that_victims_would_leave_with_nothing_the_one_that_holds_more_gives_first() -> None:
    seen = world(
        *(node("n1", gpu=8), queue("a", weight=1), queue("b", weight=1)),
        job("wide", "a", on=("n1",) * 4, pods=4, least=1),
        *(job(f"one{n}", "b", on=("n1",), minute=n + 1) for n in range(3)),
    )
    order = WorkOrder(seen, seen.jobs.values(), victims=True)
    assert [j.name for j in order] == ["one2", "one1", "wide", "one0"]


def test_a_department_is_compared_by_the_queue_that_was_on_top_of_it() -> None:
    """After *other* was served its department is judged by the next job of the same queue, as in KAI."""
    seen = world(
        *(node("n1", gpu=16), queue("one"), queue("two")),
        *(queue("p", parent="one"), queue("q", parent="one"), queue("r", parent="two")),
        *(job("small", "p", minute=0), job("large", "p", pods=3, minute=1), job("other", "q", minute=2)),
        *(job("extra", "q", pods=4, minute=3), job("third", "r", minute=4), job("fourth", "r", pods=3, minute=5)),
    )
    order = WorkOrder(seen, seen.jobs.values())
    assert [j.name for j in order] == ["other", "third", "small", "large", "extra", "fourth"]


def test_a_department_that_was_compared_is_judged_by_its_best_queue_from_then_on() -> None:
    """When *q0* is served *q1* speaks for its department, once: *r0* goes, and then *p0*, before *r1* and *r2*."""
    sizes = {"p": (1, 1), "q": (1, 3), "r": (2, 3, 3)}
    seen = world(
        *(node("n1", gpu=32), queue("one"), queue("two")),
        *(queue("p", parent="one"), queue("q", parent="one"), queue("r", parent="two")),
        *(
            job(f"{name}{n}", name, pods=pods, minute=5 * at + n)
            for at, (name, jobs) in enumerate(sizes.items())
            for n, pods in enumerate(jobs)
        ),
    )
    order = WorkOrder(seen, seen.jobs.values())
    assert [j.name for j in order] == ["q0", "r0", "p0", "p1", "r1", "r2", "q1"]
