"""Is the cluster shared as the conf says: who is short, who borrows, which parts nobody uses."""

from __future__ import annotations

from answer_desks import desk

from pumice.answers.queues import Share, Standing, fairness_of
from pumice.testing import job, node, queue


def standing(name: str, *shares: Share, parent: str = "") -> Standing:
    return Standing(queue=name, parent=parent, state="Open", weight=1, waiting=0, jobs=0, shares=list(shares))


def share(resource: str, allocated: float, deserved: float | None, asked: float = 0.0) -> Share:
    return Share(resource=resource, allocated=allocated, deserved=deserved, asked=asked)


def test_who_is_short_is_told_by_whom_his_part_is_held_and_why_his_jobs_wait() -> None:
    at = desk(
        queue("rich"),
        queue("poor"),
        node("n1", cpu=8),
        job("all", queue="rich", tasks=7, cpu=1, on="n1"),
        job("some", queue="poor", cpu=1, on="n1"),
        job("more", queue="poor", tasks=3, cpu=1),
    )
    found = at.fairness()
    (short,) = found.short
    assert (short.queue, short.resource, short.holds, short.deserves, short.asks) == ("poor", "cpu", 1, 4, 3)
    assert (short.short, short.borrowed_by) == (3, {"rich": 3})
    assert short.reasons == {at.why("more").explanation.code: 1}
    (loan,) = found.loans
    assert (loan.queue, loan.amount, loan.lenders) == ("rich", 3, {"poor": 3})
    assert found.shared
    assert not found.reclaims
    assert found.text == (
        "poor holds less cpu than deserved while rich borrows; no action of the conf takes back what is borrowed"
    )
    again = desk(actions="enqueue, allocate, reclaim").fairness()
    assert again.reclaims


def test_a_part_that_is_neither_used_nor_asked_for_is_unused_and_nobody_is_short() -> None:
    queues = [standing("a", share("cpu", 6, 4)), standing("b", share("cpu", 1, 4, asked=1))]
    found = fairness_of(queues, {}, ["allocate", "reclaim"], 0.0, "cycle")
    assert [(one.queue, one.unused) for one in found.unused] == [("b", 2)]
    assert [(one.queue, one.short) for one in found.short] == [("b", 1)]
    assert found.text.endswith("reclaim takes back what is borrowed")
    lone = fairness_of([standing("b", share("cpu", 1, 4, asked=1))], {}, [], 0.0, "cycle")
    assert lone.text == "b holds less than deserved and asks for more, but nobody borrows"
    idle = fairness_of([queues[0], standing("b", share("cpu", 1, 4))], {}, ["allocate"], 0.0, "cycle")
    assert idle.short == []
    assert idle.text == "no queue that asks for more holds less than it deserves; 1 queue borrows what others leave"


def test_queues_above_others_are_not_counted_twice_and_the_largest_part_comes_first() -> None:
    queues = [
        standing("above", share("cpu", 100, 1), parent="root"),
        standing("a", share("cpu", 5, 4), share("memory", 4e9, 2e9), parent="above"),
        standing("b", share("cpu", 3, 4), share("memory", 1e9, 3e9), parent="above"),
    ]
    found = fairness_of(queues, {}, [], 0.0, "cycle")
    assert [(loan.queue, loan.resource) for loan in found.loans] == [("a", "memory"), ("a", "cpu")]


def test_where_nobody_says_what_queues_deserve_nothing_is_said_of_fairness() -> None:
    found = fairness_of([standing("a", share("cpu", 6, None, asked=2))], {}, [], 0.0, "cycle")
    assert (found.shared, found.short, found.loans, found.unused) == (False, [], [], [])
    assert "no plugin of the conf says what queues deserve" in found.text
