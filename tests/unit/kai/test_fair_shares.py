"""The division of fair shares: its laws, and the specifications in ``--kai-units DIR``."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.kai.plugins.proportion import DividedShare, divide, divide_surplus


def shares(*given: tuple[float, float, float]) -> list[DividedShare]:
    """Queues of (quota, weight, request), without limits."""
    return [DividedShare(f"q{n}", quota, -1, weight, request) for n, (quota, weight, request) in enumerate(given)]


def test_quota_comes_first_and_the_rest_goes_by_weight() -> None:
    queues = shares((2, 1, 10), (2, 3, 10))
    assert divide(12, queues) == 0
    assert [q.fair for q in queues] == [4, 8]


def test_higher_priority_takes_the_surplus_first() -> None:
    queues = shares((0, 1, 6), (0, 1, 6))
    queues[1].priority = 5
    divide(8, queues)
    assert [q.fair for q in queues] == [2, 6]


def test_past_use_lowers_the_share_of_the_surplus() -> None:
    queues = shares((0, 1, 10), (0, 1, 10))
    queues[0].usage = 0.5
    divide(10, queues, 1.0)
    assert queues[0].fair < queues[1].fair


@given(
    st.integers(0, 40),
    st.lists(st.tuples(st.integers(-1, 10), st.integers(0, 4), st.integers(0, 20)), min_size=1, max_size=6),
)
def test_nobody_gets_more_than_he_asks_for_and_nothing_is_made_up(
    total: int, queues: list[tuple[int, int, int]]
) -> None:
    made = shares(*queues)
    left = divide(total, made)
    assert all(0 <= q.fair <= q.request for q in made)
    assert left >= 0
    guaranteed = sum(min(total if q.quota == -1 else q.quota, q.request) for q in made)
    assert sum(q.fair for q in made) <= max(total, guaranteed) + 1e-9
    if left > 0 and guaranteed <= total:
        assert all(q.fair == q.request for q in made if q.weight > 0)


def specifications(units: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (units / "fair-share-division.jsonl").read_text().splitlines()]


def test_the_division_is_that_of_the_specifications(pytestconfig: pytest.Config) -> None:
    where = pytestconfig.getoption("kai_units")
    if not where:
        return  # they are not part of the project
    found = specifications(Path(where))
    assert found
    for spec in found:
        for resource in spec["totals"] if "totals" in spec else (spec["resource"],):
            queues = {key: _share(queue, resource) for key, queue in spec["queues"].items()}
            total = spec["totals"][resource] if "totals" in spec else spec["total"]
            rule = divide_surplus if spec["goFunction"] == "divideOverQuotaResource" else divide
            left = rule(total, list(queues.values()), spec["kValue"])
            for key, queue in queues.items():
                assert queue.fair == pytest.approx(spec["expect"]["fairShare"][key][resource]), spec["id"]
            if "remaining" in spec["expect"]:
                assert left == pytest.approx(spec["expect"]["remaining"]), spec["id"]


def _share(queue: dict[str, Any], resource: str) -> DividedShare:
    given = queue["resources"][resource]
    created = queue.get("creationTimestamp")
    return DividedShare(
        *(queue["uid"], given["deserved"], given["limit"], given["overQuotaWeight"], given["request"]),
        priority=queue["priority"],
        creation=datetime.fromisoformat(created).timestamp() if created else 0.0,
        usage=given["usage"],
        fair=given["fairShare"],
    )
