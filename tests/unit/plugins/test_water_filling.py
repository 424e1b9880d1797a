"""What queues deserve of a cluster that is poured out by weight."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_worlds import queue

from pumice.model.events import Seen
from pumice.model.queue import MOST_WEIGHT, Queue
from pumice.model.resources import CPU, MEMORY, PODS, TOLERANCE, Resources
from pumice.plugins.proportion.filling import Filling, guarantee_problem, pour, pour_in_rounds, real_capability
from pumice.state.cluster import ClusterState
from pumice.testing.builders import job, node, pod

Rows: TypeAlias = list[list[float]]


@st.composite
def clusters(draw: st.DrawFn, *, guarantees: bool) -> dict[str, Any]:
    """Inputs of `pour`, with limits that follow from total, guarantees and capabilities."""
    count, width = draw(st.integers(1, 6)), draw(st.integers(1, 4))

    def matrix(most: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        rows = st.lists(st.integers(0, most), min_size=width, max_size=width)
        return np.array(draw(st.lists(rows, min_size=count, max_size=count)), dtype=np.float64)

    total = np.array(draw(st.lists(st.integers(0, 100_000), min_size=width, max_size=width)), dtype=np.float64)
    weight = np.array(draw(st.lists(st.integers(1, 10), min_size=count, max_size=count)), dtype=np.float64)
    guarantee = np.floor(total * matrix(1000) / 1000 / count) if guarantees else np.zeros((count, width))
    spare = total - guarantee.sum(axis=0)
    capability = np.where(matrix(1) > 0, matrix(100_000), math.inf)
    limit = np.minimum(spare + guarantee, capability)
    request = matrix(100_000)
    return {"total": total, "weight": weight, "request": request, "limit": limit, "guarantee": guarantee}


def world_of(request: Rows, *, total: list[float], weight: list[float]) -> dict[str, Any]:
    """Inputs of `pour` without guarantees, where only the cluster limits."""
    asked = np.array(request, dtype=np.float64)
    limit, none = np.tile(np.array(total, dtype=np.float64), (len(weight), 1)), np.zeros_like(asked)
    given = {"total": np.array(total, dtype=np.float64), "weight": np.array(weight, dtype=np.float64)}
    return {**given, "request": asked, "limit": limit, "guarantee": none}


@given(clusters(guarantees=False))
def test_no_more_is_given_than_there_is(world: dict[str, Any]) -> None:
    deserved = pour(**world)
    assert (deserved.sum(axis=0) <= world["total"] * (1 + 1e-9) + 1e-6).all()


@given(clusters(guarantees=True))
def test_a_queue_deserves_at_least_its_guarantee_and_at_most_its_limit(world: dict[str, Any]) -> None:
    deserved = pour(**world)
    most = np.maximum(np.minimum(world["limit"], world["request"]), world["guarantee"])
    assert (deserved >= world["guarantee"]).all()
    assert (deserved <= most).all()


@given(clusters(guarantees=True))
def test_beyond_guarantees_no_more_is_given_than_there_is(world: dict[str, Any]) -> None:
    beyond = np.maximum(pour(**world) - world["guarantee"], 0)
    assert (beyond.sum(axis=0) <= world["total"] * (1 + 1e-9) + 1e-6).all()


@given(clusters(guarantees=True))
def test_a_queue_alone_is_poured_what_rounds_would_give(world: dict[str, Any]) -> None:
    alone = {**world, **{k: world[k][:1] for k in ("weight", "request", "limit", "guarantee")}}
    assert np.allclose(pour(**alone), pour_in_rounds(**alone), atol=TOLERANCE)


def _by_the_book(
    total: list[float], weight: list[float], request: Rows, limit: Rows, guarantee: Rows, tolerance: float
) -> Rows:
    """Queue by queue and resource by resource: a queue is done when it has what it wants, or got exactly nothing."""
    deserved = [[0.0] * len(total) for _ in weight]
    open_queues, remaining = set(range(len(weight))), list(total)
    while open_queues:
        parts, given = sum(weight[q] for q in open_queues), [0.0] * len(total)
        for q in sorted(open_queues):
            before = deserved[q]
            poured = [had + left * (weight[q] / parts) for had, left in zip(before, remaining, strict=True)]
            capped = [min(p, m, r) for p, m, r in zip(poured, limit[q], request[q], strict=True)]
            deserved[q] = [max(c, g) for c, g in zip(capped, guarantee[q], strict=True)]
            given = [n + now - had for n, now, had in zip(given, deserved[q], before, strict=True)]
            if (
                all(r - now < tolerance for r, now in zip(request[q], deserved[q], strict=True))
                or deserved[q] == before
            ):
                open_queues.remove(q)
        old, remaining = remaining, [max(left - n, 0.0) for left, n in zip(remaining, given, strict=True)]
        if all(left < tolerance for n, left in enumerate(remaining) if n != PODS) or remaining == old:
            break
    return deserved


BY_THE_BOOK: Final = [
    world_of([[2000, 0, 0, 0], [3000, 0, 0, 3000], [4000, 0, 0, 2000]], total=[7000, 0, 0, 2000], weight=[1, 1, 3]),
    world_of([[3000, 0, 6, 0], [2000, 0, 4, 1000], [9500, 0, 5, 5000]], total=[12000, 0, 99, 4000], weight=[1, 1, 3]),
]
"""What is left of one resource shrinks slowly, and somebody who has all that he may have of another waits for it."""


@pytest.mark.parametrize("world", BY_THE_BOOK)
def test_a_queue_goes_on_getting_until_it_has_what_it_wants_or_gets_exactly_nothing(world: dict[str, Any]) -> None:
    book = _by_the_book(**{name: rows.tolist() for name, rows in world.items()}, tolerance=TOLERANCE)
    assert np.allclose(pour_in_rounds(**world), book, rtol=1e-12, atol=1e-6)


@given(clusters(guarantees=True))
def test_all_queues_together_get_what_each_gets_by_the_book(world: dict[str, Any]) -> None:
    book = _by_the_book(**{name: rows.tolist() for name, rows in world.items()}, tolerance=TOLERANCE)
    assert np.allclose(pour_in_rounds(**world), book, atol=TOLERANCE * (1 + len(world["weight"])))


@given(
    total=st.integers(0, 100_000),
    rows=st.lists(
        st.tuples(st.one_of(st.integers(1, 10), st.integers(1, MOST_WEIGHT)), st.integers(0, 100_000)),
        min_size=1,
        max_size=6,
    ),
)
def test_nothing_is_left_while_somebody_wants_more(total: int, rows: list[tuple[int, int]]) -> None:
    """However heavy one of them is: what it does not want is for the others."""
    weight = np.array([w for w, _ in rows], dtype=np.float64)
    request = np.array([[r] for _, r in rows], dtype=np.float64)
    deserved = pour(np.array([float(total)]), weight, request, np.full_like(request, math.inf), np.zeros_like(request))
    assert abs(deserved.sum() - min(total, request.sum())) <= TOLERANCE * (1 + len(rows))


@given(heavy=st.integers(1, MOST_WEIGHT), limit=st.integers(0, 3000))
def test_what_a_heavy_queue_may_not_have_goes_to_the_others(heavy: int, limit: int) -> None:
    """It wants more memory than it may have, so that it never has all that it wants."""
    request = np.array([[1000.0, 1e12], [2000.0, 0.0]])
    most = np.array([[1000.0, limit], [4000.0, 8e9]])
    deserved = pour(np.array([4000.0, 8e9]), np.array([heavy, 1.0]), request, most, np.zeros_like(request))
    assert abs(deserved[1, 0] - 2000) <= TOLERANCE


@given(
    total=st.integers(1000, 100_000),
    weights=st.lists(st.integers(1, 10), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_queues_that_want_everything_share_by_weight_in_any_order(total: int, weights: list[int], order: Any) -> None:
    order.shuffle(weights)
    request = np.full((len(weights), 1), float(total))
    deserved = pour(np.array([float(total)]), np.array(weights, float), request, request, np.zeros_like(request))
    fair = total * np.array(weights) / sum(weights)
    assert np.allclose(deserved[:, 0], fair, atol=TOLERANCE * sum(weights) + TOLERANCE)


def test_what_a_queue_does_not_want_goes_to_the_others() -> None:
    request = np.array([[2.0], [20.0], [20.0]])
    deserved = pour(np.array([14.0]), np.ones(3), request, request, np.zeros_like(request))
    assert deserved[:, 0].tolist() == [2, 6, 6]


def _queue(**spec: Any) -> Queue:
    return Queue(queue("q", **spec))  # type: ignore[arg-type]


def test_a_capability_without_cpu_or_memory_does_not_limit_them() -> None:
    limit = real_capability(_queue(capability={"nvidia.com/gpu": 2, "cpu": 0}), Resources.of(cpu=8, memory=64, gpu=4))
    assert Resources(limit) == Resources.of(cpu=8, memory=64, gpu=2)


def test_nobody_may_take_what_another_queue_is_guaranteed() -> None:
    limit = real_capability(_queue(guarantee={"cpu": 2}, capability={"cpu": 5}), Resources.of(cpu=6, memory=10))
    assert (limit[CPU], limit[MEMORY]) == (5000, 10)


def test_a_guarantee_above_the_capability_is_a_problem_of_that_queue() -> None:
    assert guarantee_problem(_queue(guarantee={"cpu": 2}, capability={"cpu": 5})) == ""
    assert guarantee_problem(_queue(guarantee={"cpu": 2})) == ""
    problem = guarantee_problem(_queue(guarantee={"cpu": 6}, capability={"cpu": 5}))
    assert problem == "queue q: guarantee Resources(cpu=6) must not exceed capability Resources(cpu=5)"


def test_what_is_deserved_follows_pods_and_nodes() -> None:
    state = ClusterState()
    for obj in (queue("q"), node("n", cpu=8, memory=0, pods=0), *job("j", tasks=3, queue="q")):
        state.apply(Seen(obj))
    filling = Filling()

    def deserved() -> float:
        filling.refresh(state.queues, state.queue_version, state.total)
        return filling.deserved(state.queues["q"])[CPU]

    assert deserved() == 3000
    assert deserved() == 3000
    state.apply(Seen(pod("j-3", group="j", cpu=2)))
    assert deserved() == 5000
    state.apply(Seen(node("n", cpu=4, memory=0, pods=0)))
    assert deserved() == 4000
    state.apply(Seen(queue("q", capability={"cpu": 1})))
    assert deserved() == 1000


def test_a_queue_without_jobs_deserves_nothing() -> None:
    state = ClusterState()
    for obj in (queue("idle", weight=100), queue("q"), node("n", cpu=8), *job("j", tasks=8, queue="q")):
        state.apply(Seen(obj))
    filling = Filling()
    filling.refresh(state.queues, state.queue_version, state.total)
    assert filling.deserved(state.queues["idle"]) == {}
    assert filling.deserved(state.queues["q"])[CPU] == 8000
