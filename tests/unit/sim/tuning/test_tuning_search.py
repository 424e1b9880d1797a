"""Tuning: finds what is there, says nothing where there is nothing, never lets a queue lose, is the same each time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from pumice.config import from_data
from pumice.errors import InvalidInput
from pumice.framework.registry import default_registry
from pumice.model.api import QueueObject
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.results import JobRecord, RunRecord, Summary, summarise
from pumice.sim.results.metrics import metric
from pumice.sim.results.statistics import Distribution
from pumice.sim.results.summary import Figures
from pumice.sim.scenario import read_scenario
from pumice.sim.tuning import Race, Tuning, tune
from pumice.sim.tuning.evaluations import Objectives, Occasion, OccasionSplit, Wish, by_seed, weighted
from pumice.sim.tuning.knobs import Candidate, Knob, Point
from pumice.sim.tuning.told import TuningAccount, queue_manifests

CATALOGUE = catalogue_of(default_registry())
KNOBS = [
    Knob("w", "argument", "binpack", "binpack.weight", 0, 10),
    Knob("f", "argument", "overcommit", "f", 1, 3, False),
]
GENERATOR = "{name: g, queue: a, arrivals: {every: 1m, count: 1}, duration: 1m}"
WANTED = Objectives((metric("wait.mean"),), None)


@cache
def candidate(weight: int | None, factor: float | None) -> Candidate:
    """A conf with two numbers in it; what is not given is as in the base."""
    arguments = {"binpack.weight": 1 if weight is None else weight, "binpack.cpu": int(1000 * (factor or 1))}
    data = {"actions": "allocate", "tiers": [{"plugins": [{"name": "binpack", "arguments": arguments}]}]}
    point = tuple((name, value) for name, value in (("w", weight), ("f", factor)) if value is not None)
    return Candidate(from_data(data, CATALOGUE).conf, point=point)


def make(point: Point) -> Candidate:
    return candidate(point.get("w"), point.get("f"))


BASE = candidate(None, None)


JOBS = [
    JobRecord(name=q, queue=q, submit=0, start=9, end=60, duration=51, gpus=1, outcome="completed") for q in ("a", "b")
]
ONE = summarise(RunRecord(name="run", seed=1, horizon=60, jobs=tuple(JOBS)))


def run(wait: float, other: float = 600.0) -> Summary:
    """A run of two queues whose jobs waited so long."""

    def waited(figures: Figures, *waits: float) -> Figures:
        return msgspec.structs.replace(figures, wait=Distribution.of(waits))

    queues = tuple(waited(figures, w) for figures, w in zip(ONE.by_queue, (wait, other), strict=True))
    return msgspec.structs.replace(ONE, total=waited(ONE.total, wait, other), by_queue=queues)


Waits = Callable[[Candidate, Occasion], tuple[float, float]]


class Made:
    """Answers as a function says, and counts."""

    def __init__(self, waits: Waits) -> None:
        self.waits = waits
        self.seen: set[tuple[str, int]] = set()

    def __call__(self, wishes: Iterable[Wish]) -> dict[tuple[str, int], Summary]:
        found = {}
        for one, occasion in wishes:
            self.seen.add((one.key, occasion))
            found[one.key, occasion] = run(*self.waits(one, occasion))
        return found


def noise(one: Candidate, occasion: Occasion, salt: object, spread: float) -> float:
    return math.exp(random.Random(f"{salt}/{one.key}/{occasion}").gauss(0, spread))


def tuned(
    waits: Waits, *, seed: int = 0, wanted: Objectives = WANTED, runs: int = 80, split: OccasionSplit | None = None
) -> Tuning:
    return tune(KNOBS, make, BASE, split or by_seed(range(1, 25)), wanted, Made(waits), runs=runs, seed=seed)


def by_chance(salt: int, one: Any, on: Any) -> tuple[float, float]:
    return 600 * noise(one, on, salt, 0.3), 600.0


@pytest.mark.slow
def test_where_only_chance_differs_nothing_is_recommended() -> None:
    """Forty spaces that do nothing: every value gives other runs, and none is better."""
    silent = sum(not tuned(partial(by_chance, salt), seed=salt).recommended for salt in range(40))
    assert silent >= 36


def test_values_that_change_no_run_are_no_result() -> None:
    found = tuned(lambda one, on: (600.0 + on, 600.0))
    assert not found.recommended
    assert found.winner is None
    assert "none was better" in found.why_not


def planted(one: Candidate, on: Occasion) -> tuple[float, float]:
    """Weight 7 is best: it halves the wait of queue a."""
    weight = dict(one.point).get("w", 1)
    return 6000 * math.exp(-0.7 * (1 - abs(weight - 7) / 6)) * noise(one, on, "planted", 0.1), 600.0


def test_what_is_there_is_found_and_told_with_its_interval() -> None:
    found = tuned(planted)
    assert found.recommended
    assert found.winner is not None
    assert found.comparison is not None
    effect = found.comparison.row("wait.mean").effects[1]
    assert effect is not None
    assert effect.verdict == "better"
    assert found.comparison.seeds == tuple(range(13, 25))
    assert 5 <= dict(found.winner.point)["w"] <= 9


def test_the_occasions_of_the_verdict_have_no_part_in_the_search() -> None:
    made = Made(planted)
    split = by_seed(range(1, 25))
    found = tune(KNOBS, make, BASE, split, WANTED, made, runs=80)
    assert found.winner is not None
    held = set(split.held_out)
    assert {key for key, number in made.seen if number in held} == {BASE.key, found.winner.key}


def test_the_same_seed_gives_the_same_tuning_and_another_one_another_search() -> None:
    first, again, other = tuned(planted, seed=3), tuned(planted, seed=3), tuned(planted, seed=4)
    assert list(first.race.tried) == list(again.race.tried)
    assert first.winner == again.winner
    assert list(first.race.tried) != list(other.race.tried)


def test_a_queue_that_would_lose_stops_a_recommendation() -> None:
    def robbing(one: Candidate, on: Occasion) -> tuple[float, float]:
        wait, _ = planted(one, on)
        return wait, 600.0 * (1 + 0.3 * (dict(one.point).get("w", 1) > 3))

    free = tuned(robbing)
    assert free.recommended
    assert free.losses["b"].grew.estimate == pytest.approx(0.3)
    bound = tuned(robbing, wanted=Objectives(WANTED.figures, 0.05))
    assert bound.winner is None or dict(bound.winner.point).get("w", 1) <= 3


def test_a_queue_that_loses_only_on_the_days_held_out_stops_it_too() -> None:
    split = by_seed(range(1, 25))
    late = set(split.held_out)

    def turning(one: Candidate, on: Occasion) -> tuple[float, float]:
        wait, _ = planted(one, on)
        lost = on in late and dict(one.point).get("w", 1) > 1
        return wait, 900.0 if lost else 600.0

    found = tuned(turning, wanted=Objectives(WANTED.figures, 0.05), split=split)
    assert not found.recommended
    assert "b by 50 %" in found.why_not


@pytest.mark.slow
def test_queues_whose_waits_change_by_chance_do_not_stop_a_recommendation() -> None:
    """A queue that nothing is done to waits now longer, now shorter; on a few days it is longer on average."""

    def chancy(one: Candidate, on: Occasion) -> tuple[float, float]:
        wait, _ = planted(one, on)
        return wait, 600.0 * noise(one, on, "other queue", 0.6)

    wanted = Objectives(WANTED.figures, 0.05)
    assert sum(tuned(chancy, seed=seed, wanted=wanted).recommended for seed in range(10)) >= 9


def test_what_helps_only_in_the_search_is_not_recommended() -> None:
    """The pattern changes: what was better on the first days is worse on the last ones."""

    def shifting(one: Candidate, on: Occasion) -> tuple[float, float]:
        wait, rest = planted(one, on)
        return (wait if on <= 12 else 6000**2 / wait), rest

    found = tuned(shifting)
    assert not found.recommended
    assert "wait.mean: is worse" in found.why_not


def test_of_several_figures_the_first_must_gain_and_no_other_may_lose() -> None:
    wanted = Objectives((metric("wait.mean"), metric("wait.p50")), None)
    assert tuned(planted, wanted=wanted).recommended

    def trading(one: Candidate, on: Occasion) -> tuple[float, float]:
        wait, _ = planted(one, on)
        return wait, 7000.0 if one.key == BASE.key else 9000.0  # the lower is the median, the higher the 99 %

    found = tuned(trading, wanted=Objectives((metric("wait.p50"), metric("wait.p99")), None))
    assert not found.recommended
    assert "worse: wait.p99" in found.why_not


def test_bad_candidates_are_dropped_before_they_cost_all_occasions() -> None:
    found = tuned(planted, runs=80)
    few = [one for one in found.race.tried.values() if one.occasions < 8]
    assert len(few) > len(found.race.tried) / 2
    assert found.race.runs < 80 + 8 * 8


def test_values_without_effect_are_left_out_of_the_winner() -> None:
    found = tuned(lambda one, on: (6000 / (1 + (dict(one.point).get("w", 1) > 5)) + on, 600.0))
    assert found.winner is not None
    assert "f" not in dict(found.winner.point)
    assert dict(found.winner.point)["w"] > 5


def test_finalists_do_not_all_do_the_same() -> None:
    """Of two knobs one does nothing: the choice is between values of the other."""
    found = tuned(lambda one, on: (6000 - 100.0 * dict(one.point).get("w", 1) + on, 600.0), runs=200)
    weights = [dict(one.tried.candidate.point)["w"] for one in found.finalists]
    assert len(weights) > 1
    assert len(set(weights)) == len(weights)


def test_a_split_keeps_the_order_and_enough_for_a_verdict() -> None:
    split = by_seed(range(1, 41))
    assert [len(part) for part in (split.search, split.choose, split.held_out)] == [14, 6, 20]
    assert [o for part in (split.search, split.choose, split.held_out) for o in part] == list(range(1, 41))
    assert len(by_seed(range(9)).held_out) == 6
    with pytest.raises(InvalidInput, match="8 occasions"):
        by_seed(range(8))


def test_weights_of_queues_are_part_of_what_is_told() -> None:
    """A conf cannot hold them, so they are a manifest beside it."""
    winner = Candidate(BASE.conf, (("research", 6),), (("queues.research.weight", 6),))
    knob = Knob("queues.research.weight", "queue", "research", low=1, high=8)
    tuning = Tuning(Race(), (), winner, None, {}, "not tried")
    told = TuningAccount(tuning, (knob,), BASE, {"research": 2}, by_seed(range(9)), WANTED, 0)
    assert told.diff()[-3:] == [" research:", "-  weight: 2", "+  weight: 6"]
    assert told.changes() == [("queues.research.weight", "2", "6", "1..8")]
    [queue] = yaml.safe_load_all(queue_manifests(winner.weights))
    assert (queue["kind"], queue["metadata"]["name"], queue["spec"]) == ("Queue", "research", {"weight": 6})


def test_a_candidate_is_played_with_its_weights_of_queues(tmp_path: Path) -> None:
    text = "cluster: {nodes: [{name: n, cpu: 4}]}\nqueues: [{name: a, weight: 2}, {name: b}]\n"
    (tmp_path / "s.yaml").write_text(f"{text}workload: {{generators: [{GENERATOR}]}}\n")
    scenario = read_scenario(tmp_path / "s.yaml", CATALOGUE)
    weights = [o.spec.weight for o in weighted(scenario, {"a": 7}).setting.objects if isinstance(o, QueueObject)]
    assert weights == [7, 1]
    assert weighted(scenario, {}) is scenario
