"""Jobs that are like one which could not be helped are not tried; who is like whom, and what a search leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
from kai_cases import job, node, queue
from kai_plans import world

from pumice.kai.search.helping import Signatures
from pumice.kai.search.solver import Solved, Solver
from pumice.kai.search.work_order import rank
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.world import KaiWorld

NOW = "2026-01-01T00:00:00Z"


def alike(seen: KaiWorld, failed: str, other: str) -> bool:
    """Is the second passed by when the first could not be helped?"""
    known = Signatures(seen, one_table=True)
    known.failed(seen.jobs[f"default/{failed}"])
    return not known.worth_trying(seen.jobs[f"default/{other}"])


def leaving(made: dict[str, Any], at: int) -> dict[str, Any]:
    made["pods"][at]["metadata"]["deletionTimestamp"] = NOW
    return made


def test_jobs_that_ask_for_the_same_are_alike() -> None:
    seen = world(
        node("n1"), queue("q"), job("one", "q"), job("two", "q", minute=1), job("less", "q", gpu="0", minute=2)
    )
    assert alike(seen, "one", "two")
    assert not alike(seen, "one", "less")


@pytest.mark.parametrize("place", ["has one", "leaves it"])
def test_a_pod_without_a_place_counts_whether_it_waits_or_leaves(place: str) -> None:
    two = job("two", "q", on=("n1",), pods=2, least=1, minute=1)
    seen = world(
        *(node("n1", gpu=4), queue("q"), job("one", "q")),
        leaving(two, 0) if place == "leaves it" else two,
    )
    assert alike(seen, "one", "two") is (place == "has one")


def test_who_is_like_whom_is_found_out_once_in_a_session() -> None:
    seen = world(node("n1", gpu=4), queue("q"), job("one", "q", pods=2, least=1), job("two", "q", minute=1))
    one = seen.jobs["default/one"]
    assert not alike(seen, "two", "one")
    ChangePlan(seen).pipeline(next(iter(one.tasks.values())), seen.nodes.nodes[0])
    assert not alike(seen, "two", "one")


def test_jobs_that_wait_keep_their_order_when_a_search_imagined_some_of_them_gone() -> None:
    """*grows* is above its minimum, and would be at it without the pod that a scenario takes from it."""
    seen = world(
        *(node("n1", gpu=4), queue("a"), queue("b", quota=2)),
        *(job("grows", "a", on=("n1",) * 4, pods=5, least=3), job("needs", "b", minute=1)),
    )
    finder = Solver(
        *(seen.ssn, "reclaim", lambda one, other: other is not one.queue, lambda one, other: True),
        lambda scenario: False,
    )
    result, plan = finder.solve(seen.jobs["default/needs"])
    assert (result, plan, finder.simulated > 0) == (Solved.NO, None, True)
    key = rank(seen, victims=False)
    kept = {one.name: known for listed in finder._waiting.listed().values() for known, one in listed}
    assert kept == {one.name: key(one) for one in seen.jobs.values() if one.pending}
