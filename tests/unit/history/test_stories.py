"""Lines become stories: jobs that come back, gaps in which nobody wrote, pods that were lost on the way."""

from __future__ import annotations

import math

from pumice.history.lines import Begins, Evicting, JobLine, Line, NodeGone, NodeLine, Over, Pods, PodsLeft, PodsPlaced
from pumice.history.stories import tell
from pumice.sim.traces.from_history import recorded

TWO = (Pods(2, cpu=1000),)


def job(at: float, name: str = "a/x", created: float | None = None, minimum: int = 2) -> Line:
    return JobLine(at, name, at if created is None else created, queue="q", minimum=minimum, pods=TWO)


def placed(at: float, *pods: str, name: str = "a/x") -> Line:
    return PodsPlaced(at, name, dict.fromkeys(pods, "n"))


def test_a_job_of_the_same_name_is_another_story() -> None:
    told = tell([job(1), placed(2, "p", "q"), Over(5, "a/x", "completed"), job(7, created=6), placed(9, "p", "q")])
    assert [(s.submitted, s.placed, s.ended) for s in told.jobs] == [(1, 2, 5), (7, 9, None)]
    assert [j.name for j in recorded(told).jobs] == ["a.x", "a.x~2"]


def test_more_pods_of_a_job_go_on_with_its_story() -> None:
    told = tell(
        [job(1), placed(2, "p", "q"), Over(5, "a/x", "completed"), job(6, created=1), Over(8, "a/x", "completed")]
    )
    (story,) = told.jobs
    assert (story.placed, story.ended) == (2, 8)


def test_run_time_counts_from_the_last_start_and_losses_on_the_way_are_faults() -> None:
    told = tell(
        [
            Begins(0),
            job(1),
            placed(2, "p", "q"),
            PodsLeft(5, "a/x", ("p",), "failed"),
            placed(9, "p"),
            Evicting(10, "a/x", "q", "n", "preempt", "a/y"),
            PodsLeft(12, "a/x", ("q",), "evicted"),
            placed(20, "q"),
            PodsLeft(33, "a/x", ("p", "q"), "deleted"),
            Over(33, "a/x", "deleted"),
        ]
    )
    found = recorded(told)
    assert [(j.submit_s, j.duration_s) for j in found.jobs] == [(1, 13)]
    assert found.planned == [{"at": 5, "evict": {"a.x": 1}}]
    assert found.eviction_s == 2
    assert found.starts == {"a.x": 2}


def test_what_ended_while_nobody_wrote_ends_when_somebody_does_again() -> None:
    first: list[Line] = [Begins(0), NodeLine(0, "n"), NodeLine(0, "m"), job(1), job(1, "a/y"), placed(2, "p", "q")]
    again: list[Line] = [Begins(100), NodeLine(100, "n"), job(100, "a/y", created=1), Begins(150, goes_on=True)]
    told = tell([*first, *again, NodeLine(150, "n"), job(150, "a/y", created=1), job(151, "a/z")])
    assert [(s.job, s.how, s.ended) for s in told.jobs] == [
        ("a/x", "unseen", 100),
        ("a/y", "", None),
        ("a/z", "", None),
    ]
    assert [(s.node.name, s.until) for s in told.nodes] == [("n", None), ("m", 100)]
    assert told.gaps == [(2, 100)]
    assert any("nobody wrote" in note for note in recorded(told).notes)


def test_nodes_that_go_come_and_close_are_faults() -> None:
    told = tell(
        [
            Begins(10),
            NodeLine(10, "n", cpu=1000),
            NodeGone(20, "n"),
            NodeLine(30, "n", cpu=1000),
            NodeLine(40, "n", cpu=1000, closed=True),
            NodeLine(50, "n", cpu=1000),
            NodeLine(60, "new", cpu=2000),
            NodeGone(70, "new"),
        ]
    )
    assert recorded(told).planned == [
        {"at": 10, "fail": ["n"]},
        {"at": 20, "return": ["n"]},
        {"at": 30, "cordon": ["n"]},
        {"at": 40, "return": ["n"]},
        {"at": 50, "join": [{"name": "new", "cpu": "2", "memory": "0"}]},
        {"at": 60, "fail": ["new"]},
    ]


def test_a_node_whose_pods_went_on_is_closed_and_not_failed() -> None:
    begun: list[Line] = [Begins(0), NodeLine(0, "n", cpu=1000), job(1), placed(2, "p", "q"), NodeGone(3, "n")]
    assert recorded(tell([*begun, PodsLeft(9, "a/x", ("p", "q"), "succeeded")])).planned == [{"at": 3, "cordon": ["n"]}]
    assert recorded(tell([*begun, PodsLeft(9, "a/x", ("p", "q"), "node")])).planned == [{"at": 3, "fail": ["n"]}]


def test_jobs_that_were_not_over_are_said_and_have_no_end() -> None:
    told = tell(
        [Begins(0), job(1), placed(2, "p", "q"), job(3, "a/waits"), job(4, "a/gone"), Over(5, "a/gone", "deleted")]
    )
    found = recorded(told)
    assert [(j.name, j.duration_s) for j in found.jobs] == [("a.x", math.inf), ("a.waits", math.inf)]
    assert any("2 ran or waited at the end" in note for note in found.notes)
    assert any("1 were gone before they had a place" in note for note in found.notes)
