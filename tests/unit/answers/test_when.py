"""When a job will start: learned run times, a cluster played forward, and a range that holds as often as it says."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from dataclasses import replace as replace_scene
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from answer_desks import EVICTS, desk, proven
from msgspec.structs import replace
from typer.testing import CliRunner

from pumice.answers.service import candidates
from pumice.answers.when.answer import span, start_in_words
from pumice.answers.when.calibration import ENOUGH, Calibration, QueueCalibration, StartRange
from pumice.answers.when.forecast import UNKNOWN, when_all
from pumice.answers.when.forward import (
    MOST_SHAPES,
    Amounts,
    Arrival,
    Holder,
    Lane,
    NodeRoom,
    Place,
    Playback,
    PodShape,
    Scene,
    Waiter,
    amounts_sum,
    few,
    forecast,
)
from pumice.answers.when.learned import Learned, LearningWriter, Past, PastJob, StartForecast, learn, size_of
from pumice.answers.when.run_times import GUESS, REMEMBERED, Kind, RunTimes, lifetimes
from pumice.answers.when.scene import GRACE
from pumice.cli.app import app
from pumice.history.files import Folder
from pumice.history.recorder import HistoryRecorder
from pumice.history.stories import read_history
from pumice.model.events import Gone, Seen
from pumice.scheduler.cycle import run_cycle
from pumice.testing import job, node, pod, queue
from pumice.testing.world import flat

ONE = Kind("q", 1)


def times(*seconds: float, kind: Kind = ONE, submitted: float = 0.0) -> RunTimes:
    known = RunTimes()
    for length in seconds * 20:
        known.ended(known.began(kind, submitted, 0.0), length)
    return known


# -- nodes that take nothing -----------------------------------------------------------------------------------------
CORDONED = [node(f"n{n}", cpu=4, unschedulable=True) for n in range(2)]


@pytest.mark.parametrize("nodes", [[], CORDONED[:1], CORDONED, [*CORDONED, *job("runs", on="n0")]])
@pytest.mark.parametrize("queues", [[], [queue("default", capability={"cpu": 2})], [queue("default"), queue("other")]])
def test_where_no_node_takes_pods_every_answer_is_that_it_never_starts(nodes: list[Any], queues: list[Any]) -> None:
    at = desk(*queues, *nodes, job("waits"), job("beside", tasks=2))
    for name in ("waits", "beside"):
        assert at.when(name).answer().verdict == "never"
        assert at.when(name).why_and_when().when is not None
    (new,) = at.attempt_and_wait(flat([job("new")])).answer().jobs
    assert new.when is not None
    assert new.when.verdict == "never"


# -- pods that are being removed -------------------------------------------------------------------------------------
@pytest.mark.parametrize("left", [-900, 0, 30, 600])
def test_a_job_starts_when_the_pods_are_gone_that_are_being_removed_from_its_nodes(left: int) -> None:
    at = desk(node("n1", cpu=2), job("old", tasks=2, on="n1"), job("new", tasks=2), learned=proven())
    for task in list(at.state.jobs["default/old"].tasks.values()):
        gone = datetime.fromtimestamp(at.state.now + left, UTC)
        at.state.apply(Seen(replace(task.pod, metadata=replace(task.pod.metadata, deletion_timestamp=gone))))
    answer = at.when("new").answer()
    assert (answer.verdict, answer.likely) == ("range", pytest.approx(max(left, 1)))
    assert "room is being made for it on n1" in answer.why


@pytest.mark.parametrize("action", ["preempt", "gangpreempt", "reclaim", "gangreclaim"])
def test_a_job_for_which_others_are_evicted_waits_as_long_as_they_take_to_end(action: str) -> None:
    theirs = "a" if "preempt" in action else "b"
    running = [job(f"low{n}", on="n1", queue=theirs, priority=1) for n in range(4)]
    high = job("high", tasks=2, queue="a", priority=10)
    there = (queue("a"), queue("b"), node("n1", cpu=4), *running, high)
    at = desk(*there, actions=f"enqueue, allocate, {action}", learned=proven("a"))
    answer = at.when("high").answer()
    assert (answer.verdict, answer.likely) == ("range", pytest.approx(GRACE))


# -- run times --------------------------------------------------------------------------------------------------------
def test_a_run_time_is_one_of_those_that_are_still_possible() -> None:
    known = times(10.0, 100.0, 1000.0).outlook()

    def drawn(age: float) -> set[float]:
        return {known.draw(ONE, 0.0, age, part / 100) for part in range(100)}

    assert drawn(0) == {10.0, 100.0, 1000.0}
    assert drawn(50) == {100.0, 1000.0}
    assert min(drawn(2000)) > 2000
    assert known.draw(ONE, 0.0, 0, 0.99, declared=60) == 60
    assert known.draw(ONE, 0.0, 80, 0.99, declared=60) == 1000.0
    assert known.draw(Kind("other", 1), 0.0, 0, 0.0) == 10.0
    assert known.draw(Kind("q", 8), 0.0, 0, 0.0) == GUESS.values[0]


def test_a_job_runs_as_long_as_those_that_were_submitted_next_to_it() -> None:
    known = RunTimes()
    for n in range(200):
        known.ended(known.began(ONE, float(n), 0.0), 50.0 if n < 100 else 5000.0)
    found = known.outlook()
    assert {found.draw(ONE, 30.0, 0.0, part / 10) for part in range(10)} == {50.0}
    assert {found.draw(ONE, 170.0, 0.0, part / 10) for part in range(10)} == {5000.0}


def test_runs_that_go_on_count_as_at_least_so_long() -> None:
    known = RunTimes()
    for n in range(20):
        run = known.began(ONE, float(n), 0.0)
        if n % 2:
            known.ended(run, 10.0)
    known.now = 1000.0
    found = known.outlook()
    draws = [found.draw(ONE, 10.0, 0.0, part / 100) for part in range(100)]
    assert sum(time == 10.0 for time in draws) == pytest.approx(50, abs=2)
    assert all(time == 10.0 or time > 1000.0 for time in draws)


def test_what_was_interrupted_and_what_is_old_is_forgotten() -> None:
    known = times(5.0)
    for n in range(REMEMBERED):
        known.ended(known.began(ONE, n + 1.0, 0.0), 70.0)
    known.dropped(known.began(ONE, 900.0, 0.0))
    found = known.outlook()
    assert {found.draw(ONE, at, 0, part / 10) for at in (0.0, 900.0) for part in range(10)} == {70.0}


def test_a_distribution_with_nothing_open_is_the_plain_one() -> None:
    found = lifetimes([(float(n), False) for n in (3, 1, 2, 4)])
    assert [found.at(part) for part in (0.25, 0.5, 0.75, 1.0)] == [1.0, 2.0, 3.0, 4.0]
    assert lifetimes([(1.0, False), (2.0, True)]).at(0.9) is None


# -- playing forward --------------------------------------------------------------------------------------------------
def held(kind: Kind, amount: int, since: float, node: str = "n") -> Holder:
    return Holder(kind, [(node, (amount,))], since)


def wants(job: str, kind: Kind, amount: int, count: int = 1, only: frozenset[str] | None = None) -> Waiter:
    return Waiter(job, kind, ((count, PodShape((amount,), only)),))


def played(scene: Scene, known: RunTimes, seed: int = 0) -> dict[str, float]:
    return Playback(scene, known.outlook()).play(seed)


def test_what_waits_takes_the_room_in_its_order_and_small_ones_slip_in() -> None:
    holders = [held(ONE, 3, -40.0), held(ONE, 1, -90.0)]
    waiters = [wants("big", ONE, 4), wants("small", ONE, 1), wants("huge", ONE, 9)]
    scene = Scene(0.0, {"n": (0,)}, holders, waiters)
    assert played(scene, times(100.0)) == {"small": 10.0, "big": 110.0}
    said = forecast(scene, times(100.0), draws=3)
    assert (said["small"], said["big"], said["huge"]) == (10.0, 110.0, math.inf)
    assert forecast(scene, times(100.0), draws=3, last="small") == {"small": 10.0}


def test_a_pod_needs_its_room_on_one_node_that_it_may_be_on_and_a_gang_all_at_once() -> None:
    holders = [held(ONE, 2, -90.0, "a"), held(ONE, 2, -50.0, "b"), held(ONE, 2, -20.0, "c"), held(ONE, 2, -10.0, "c")]

    def start(waiter: Waiter) -> float | None:
        free = {"a": (0,), "b": (0,), "c": (0,)}
        return played(Scene(0.0, free, holders, [waiter]), times(100.0)).get("job")

    assert start(wants("job", ONE, 2)) == 10.0
    assert start(wants("job", ONE, 1, count=2)) == 10.0
    assert start(wants("job", ONE, 2, count=2)) == 50.0  # on two nodes
    assert start(wants("job", ONE, 4)) == 90.0  # 4 are free after 50 s, but not on one node
    assert start(wants("job", ONE, 2, only=frozenset("b"))) == 50.0
    assert start(wants("job", ONE, 2, only=frozenset("x"))) is None
    assert start(Waiter("job", ONE, ((1, PodShape((2,))), (2, PodShape((1,), frozenset("c")))))) == 80.0
    assert start(Waiter("job", ONE, ((1, PodShape((2,), frozenset("a"))), (1, PodShape((1,), frozenset("a")))))) is None


def test_many_shapes_are_taken_for_few_and_devices_stay_exact() -> None:
    shapes = [PodShape((1000 + n, 5 * n, 1000 * (1 + n % 8))) for n in range(2000)]
    standing = few(shapes)
    assert len(set(standing.values())) < 2 * MOST_SHAPES
    for shape, stands in standing.items():
        assert stands.each[2] == shape.each[2]
        assert all(shape.each[d] / 2 <= stands.each[d] <= shape.each[d] for d in (0, 1))
    assert all(shape == stands for shape, stands in few(shapes[:MOST_SHAPES]).items())


def test_queues_take_turns_by_their_share_and_keep_to_their_limits() -> None:
    rich, poor = Kind("rich", 1), Kind("poor", 1)
    known = times(100.0, kind=rich)
    holders = [held(rich, 1, float(-n)) for n in range(4)]
    waiters = [wants("rich-1", rich, 1), wants("poor-1", poor, 1), wants("poor-2", poor, 1)]
    lanes = {"rich": Lane((2,)), "poor": Lane((2,))}

    def order(lanes: dict[str, Lane]) -> list[str]:
        starts = played(Scene(0.0, {"n": (0,)}, holders, waiters, lanes), known, 1)
        return sorted(starts, key=lambda name: (starts[name], name))

    again = [Arrival(float(n), poor, ((1, PodShape((1,))),)) for n in range(20)]
    scene = Scene(0.0, {"n": (0,)}, holders, waiters[:1], lanes, coming=again)
    assert played(scene, known)["rich-1"] > played(replace_scene(scene, coming=()), known)["rich-1"]
    assert played(replace_scene(scene, lanes={}), known) == played(replace_scene(scene, lanes={}, coming=()), known)
    assert order({}) == ["rich-1", "poor-1", "poor-2"]
    assert order(lanes) == ["poor-1", "poor-2", "rich-1"]
    assert order({"poor": Lane(most=(0,))}) == ["rich-1"]
    assert order({"poor": Lane(most=(1,))})[:2] == ["rich-1", "poor-1"]


def range_of(known: Calibration, seconds: float, now: float) -> StartRange | None:
    return QueueCalibration(known.errors(now)).range_of(seconds)


# -- ranges -----------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_range_holds_in_eight_of_ten_whatever_the_bias_of_the_predictions() -> None:
    rng, known = random.Random(3), Calibration()
    held = [0, 0, 0]
    for n in range(1500):
        said = rng.lognormvariate(8, 1)
        waited = 3 * said * rng.lognormvariate(0, 0.8)
        found = known.predicted(str(n), "q", float(n), said)
        assert (found is None) == (n < ENOUGH)
        if found is not None:
            held = [h + (waited <= at) for h, at in zip(held, (found.low, found.likely, found.high), strict=True)]
        known.started(str(n), n + waited)
    assert [h / (1500 - ENOUGH) for h in held] == pytest.approx([0.06, 0.5, 0.91], abs=0.03)


def test_predictions_that_are_not_biased_are_not_moved() -> None:
    known = Calibration()
    for n in range(200):
        known.predicted(str(n), "q", 0.0, 1000.0)
        known.started(str(n), 1000.0 + 5 * (n - 80))
    found = range_of(known, 1000.0, 5000.0)
    assert found is not None
    assert found.likely == pytest.approx(1000.0)
    assert found.low < found.likely < found.high


def test_jobs_that_still_wait_make_the_range_wider() -> None:
    known = Calibration()
    for n in range(100):
        known.predicted(str(n), "q", 0.0, 1000.0)
        known.started(str(n), 1000.0 + n)
    before = range_of(known, 1000.0, 1100.0)
    for n in range(40):
        known.predicted(f"late-{n}", "q", 0.0, 1000.0)
    after = range_of(known, 1000.0, 90_000.0)
    assert before is not None
    assert after is not None
    assert after.high > 10 * before.high
    for n in range(40):
        known.gone(f"late-{n}")
    assert range_of(known, 1000.0, 90_000.0) == before


def came_out(likely: int, high: int, of: int, queue: str = "q") -> Calibration:
    """So many past ranges of a queue, of which this many jobs started before the likely time and before the end."""
    known = Calibration()
    for n in range(ENOUGH):
        known.predicted(f"first-{n}", "other", 0.0, 1000.0)
        known.started(f"first-{n}", 1000.0 + (n - ENOUGH / 2))
    for n in range(of):
        given = known.predicted(str(n), queue, 10_000.0, 1000.0)
        assert given is not None
        waited = given.likely - 1 if n < likely else given.high - 0.1 if n < high else given.high + 1
        known.started(str(n), 10_000.0 + waited)
    return known


@pytest.mark.parametrize(
    ("likely", "high", "of", "shown"),
    [
        (10, 18, 20, True),
        (7, 16, 20, True),
        (13, 19, 20, True),
        (6, 18, 20, False),  # 30 %
        (14, 18, 20, False),  # 70 %
        (10, 15, 20, False),  # 75 %
        (10, 20, 20, False),  # 100 %
        (9, 17, 19, False),  # too few
        (0, 0, 0, False),
    ],
)
def test_a_start_is_told_only_where_past_ranges_of_the_queue_held(likely: int, high: int, of: int, shown: bool) -> None:
    learned = Learned()
    learned.past.calibration = came_out(likely, high, of)
    learned.past.now = 20_000.0
    other = Kind("fresh", 1)
    scene = Scene(20_000.0, {"n": (0,)}, [held(ONE, 1, 0.0)], [wants("a", ONE, 1), wants("b", other, 1)])
    answers = when_all(scene, learned)
    told, fresh = answers["a"], answers["b"]
    assert (told.verdict, told.low is not None, told.unknown == "") == (("range" if shown else "unknown"), shown, shown)
    assert (fresh.verdict, fresh.low, fresh.likely, fresh.high) == ("unknown", None, None, None)
    assert fresh.unknown == f"0 past jobs of queue fresh show how forecasts come out; {ENOUGH} are needed"
    if not shown and of >= ENOUGH:
        assert told.unknown.startswith(f"forecasts for queue q did not hold: of its last {of} jobs {likely / of:.0%} ")
    if not shown:
        assert start_in_words(told) == f"unknown: {told.unknown}"
        assert (told.low, told.likely, told.high) == (None, None, None)


def test_a_job_that_waits_past_its_range_counts_as_a_range_that_did_not_hold() -> None:
    known = came_out(10, 18, 20)
    assert known.by_queue(["q"], 20_000.0)["q"].doubt == ""
    for n in range(8):
        known.predicted(f"late-{n}", "q", 20_000.0, 1000.0)
    assert known.by_queue(["q"], 20_100.0)["q"].doubt == ""
    assert "did not hold: of its last 28 jobs 36% " in known.by_queue(["q"], 90_000.0)["q"].doubt
    for n in range(8):
        known.gone(f"late-{n}")
    assert known.by_queue(["q"], 90_000.0)["q"].doubt == ""


def test_the_past_is_walked_with_what_was_known_then() -> None:
    told: list[StartForecast] = []
    past = Past(lambda job: True, told.append, room={"n": (1,)})
    events = []
    for n in range(60):
        events += [(10.0 * n, 1, n), (100.0 * n, 2, n), (100.0 * n + 100, 0, n)]
    for at, what, n in sorted(events):
        past.advance(at)
        if what == 0:
            past.ended(str(n))
        elif what == 1:
            past.came(PastJob(str(n), ONE, ((1, PodShape((1,))),), at))
        else:
            past.began(str(n), [("n", (1,))])
    assert [said.job for said in told] == [str(n) for n in range(1, 60)]  # the first one did not wait
    assert past.times.learned == 60
    assert told[40].said == pytest.approx(90.0 * 41, rel=0.35)
    assert past.calibration.outcomes == 59


@pytest.mark.parametrize("seed", range(20))
def test_ranges_are_monotone_and_the_same_for_the_same_seed(seed: int) -> None:
    rng, learned = random.Random(seed), Learned()
    kinds = [Kind(name, size) for name in "ab" for size in (1, 2, 4)]
    for n in range(300):
        learned.past.times.ended(learned.past.times.began(rng.choice(kinds), float(n), 0.0), rng.expovariate(1e-3))
    for n in range(rng.choice([10, 200])):
        learned.past.calibration.predicted(str(n), rng.choice("ab"), 0.0, rng.expovariate(1e-3))
        if rng.random() < 0.9:
            learned.past.calibration.started(str(n), rng.expovariate(1e-3))
    learned.past.now = 5000.0
    holders = [
        held(rng.choice(kinds), rng.choice([1, 2, 4]), 5000 - rng.random() * 1000, rng.choice("xyz")) for _ in range(20)
    ]
    waiters = [wants(str(n), kind, kind.size, rng.choice([1, 1, 3])) for n in range(30) for kind in [rng.choice(kinds)]]
    lanes = {"a": Lane((20,), (30,)), "b": Lane((10,))} if rng.random() < 0.5 else {}
    scene = Scene(5000.0, {"x": (1,), "y": (3,), "z": (0,)}, holders, waiters, lanes)
    answers = when_all(scene, learned)
    assert answers == when_all(scene, learned)
    assert [*answers] == [waiter.job for waiter in waiters]
    for answer in answers.values():
        assert (answer.verdict == "unknown") == bool(answer.unknown)
        if answer.verdict == "range":
            assert answer.low is not None
            assert answer.likely is not None
            assert answer.high is not None
            assert 0 <= answer.low <= answer.likely <= answer.high


# -- asked of a desk --------------------------------------------------------------------------------------------------
def test_a_job_that_can_start_now_says_now_and_one_that_runs_says_so() -> None:
    at = desk(node("n1", cpu=8), job("runs", tasks=2, cpu=1, on="n1"), job("fits", tasks=3, cpu=1))
    assert (at.when("fits").answer().verdict, at.when("fits").answer().low) == ("now", None)
    assert at.when("runs").answer().verdict == "runs"
    assert at.when("runs").answer().why == ""


def test_a_job_that_can_never_start_says_never_and_why() -> None:
    at = desk(
        queue("small", capability={"cpu": 2}),
        node("n1", cpu=8),
        job("runs", tasks=4, cpu=2, on="n1"),
        job("huge", tasks=1, cpu=9),
        job("many", tasks=5, cpu=2),
        job("over", tasks=3, cpu=1, queue="small"),
    )
    for name, words in (("huge", "9"), ("many", "more than there is"), ("over", "queue small may ever have")):
        answer = at.when(name).answer()
        assert (answer.verdict, answer.low, answer.high) == ("never", None, None), name
        assert answer.why
        assert words in answer.why, answer.why


@pytest.mark.parametrize("seed", range(20))
def test_who_has_room_is_known_at_every_moment_as_if_it_were_counted_anew(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [f"n{n}" for n in range(6)]
    free: dict[str, Amounts] = {node: (rng.randint(0, 9), rng.randint(0, 9)) for node in nodes}
    some = [None, frozenset(nodes[:3]), frozenset(nodes[2:])]
    shapes = [PodShape((rng.randint(0, 3), rng.randint(1, 4)), rng.choice(some)) for _ in range(5)]
    asking = [tuple((rng.randint(1, 5), shape) for shape in rng.sample(range(5), rng.randint(1, 2))) for _ in range(12)]
    room = NodeRoom(free, shapes, asking).copy()
    taken: list[list[Place]] = []
    for _ in range(60):
        fits = [sum(shape.times(node, has) for node, has in free.items()) for shape in shapes]
        assert room.open == {n for n, asked in enumerate(asking) if all(fits[s] >= count for count, s in asked)}
        if taken and rng.random() < 0.4:
            given = taken.pop(rng.randrange(len(taken)))
            room.give(given)
            for node, amounts in given:
                free[node] = amounts_sum([free[node], amounts])
        elif (places := room.take(rng.choice(asking))) is not None:
            taken.append(places)
            for node, amounts in places:
                free[node] = amounts_sum([free[node], tuple(-amount for amount in amounts)])
                assert min(free[node]) >= 0


def test_a_job_that_waits_is_given_a_range_with_its_place_and_what_stops_it() -> None:
    at = desk(
        node("n1", cpu=8),
        job("runs", tasks=4, cpu=2, on="n1"),
        job("first", tasks=4, cpu=2, priority=5),
        job("waits", tasks=2, cpu=2),
        learned=proven(),
    )
    question = at.when("waits")
    answer = question.answer()
    assert (answer.verdict, answer.place, answer.waiting, answer.unknown) == ("range", 2, 2, "")
    assert answer.low is not None
    assert answer.high is not None
    assert 0 <= answer.low < answer.high
    assert answer.why == question.why.explanation.text != ""
    assert question.why_and_when().when == answer
    assert UNKNOWN in answer.assumes


def test_room_on_two_nodes_is_no_room_on_one_and_taints_and_selectors_count() -> None:
    at = desk(node("n1", cpu=4), node("n2", cpu=4), *(job(f"r{n}", tasks=1, cpu=3, on=f"n{n}") for n in (1, 2)))
    at.state.apply_all(Seen(obj) for obj in job("waits", tasks=1, cpu=2))
    (said,) = forecast(at.when("waits").scene, RunTimes(), draws=3).values()
    assert 0 < said < math.inf
    picky = replace(pod("picky-0").spec, node_selector={"disk": "fast"})
    at.state.apply_all(Seen(obj) for obj in job("picky", tasks=1, cpu=1, spec=picky))
    (shape,) = [shape for waiter in at.when("picky").scene.waiters if "picky" in waiter.job for _, shape in waiter.pods]
    assert shape.only == frozenset()
    assert at.when("picky").answer().verdict == "never"


def test_a_job_that_is_not_there_yet_is_told_when_it_would_start() -> None:
    at = desk(node("n1", cpu=8), job("runs", tasks=4, cpu=2, on="n1"), learned=proven())
    new = flat([job("new", tasks=2, cpu=1)])
    question = at.attempt_and_wait(new)
    (tried,) = question.answer().jobs
    assert tried.when is not None
    assert tried.when.verdict == "range"
    assert question.tried == replace(at.attempt(new), milliseconds=question.tried.milliseconds)
    at.state.apply_all(Seen(obj) for obj in candidates(at.state, new))
    there = at.when("new").answer()
    assert (tried.when.low, tried.when.high) == (there.low, there.high)
    (fits,) = desk(node("n1", cpu=8)).attempt_and_wait(new).answer().jobs
    assert fits.starts
    assert fits.when is None


def test_what_is_drawn_for_a_job_does_not_depend_on_who_else_is_there() -> None:
    """So that two scenes which are nearly alike can be compared job by job."""
    known = times(*range(100, 2000, 50))
    alone = Scene(0.0, {"n": (0,)}, [dataclasses.replace(held(ONE, 4, 0.0), job="a")], [wants("w", ONE, 4)])
    others = [dataclasses.replace(held(ONE, 1, 0.0, "m"), job="b"), *alone.holders]
    beside = dataclasses.replace(alone, holders=others, free={"n": (0,), "m": (0,)})
    assert forecast(alone, known, draws=3) == forecast(beside, known, draws=3)
    assert len({forecast(alone, known, draws=1, seed=n)["w"] for n in range(20)}) > 5


def test_asking_when_changes_nothing() -> None:
    at = desk(node("n1", cpu=4), job("a", tasks=2, cpu=1), job("b", tasks=4, cpu=1), actions=EVICTS)
    phases = {uid: j.phase for uid, j in at.state.jobs.items()}
    assert at.when("b").answer() == at.when("b").answer()
    assert {uid: j.phase for uid, j in at.state.jobs.items()} == phases
    assert at.cycle.runtime.cycle == 0


DAY = """\
seed: 3
horizon: 9h
cluster: {nodes: [{name: n, count: 2, cpu: 16, memory: 64Gi, gpu: 8}]}
workload:
  generators:
  - name: train
    arrivals: {every: 3m, until: 9h}
    duration: {exponential: 40m}
    gpu: {choice: {1: 2, 2: 1, 4: 1}}
    cpu: 1
configurations: {only: {actions: "enqueue, allocate", tiers: [{plugins: [{name: gang}, {name: predicates}]}]}}
"""


@pytest.mark.slow
def test_the_command_gives_a_range_with_what_it_rests_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("day.yaml").write_text(DAY)

    def pumice(*words: str) -> str:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        return result.stdout

    pumice("simulate", "day.yaml", "--history", "past", "--save", "now.cycle")
    waits = next(s.job for s in reversed(read_history(Path("past")).jobs) if s.placed is None)
    said = json.loads(pumice("why", waits, "now.cycle", "--past", "past", "-o", "json"))["when"]
    shown = pumice("why", waits, "now.cycle", "--past", "past")
    ranged = said["verdict"] == "range"
    if ranged:
        assert 0 <= said["low"] < said["likely"] < said["high"]
        assert "likely start " in shown
        assert "holds in 8 of 10 cases" in shown
    else:
        assert said["unknown"].startswith("forecasts for queue default did not hold: of its last ")
    assert "unknown: nothing is known" in pumice("why", waits, "now.cycle")
    none = CliRunner().invoke(app, ["why", "nobody", "now.cycle"])
    assert none.exit_code == 1
    assert "nobody" in none.stderr
    supposed = "now.cycle", "--past", "past", "--more", "9xn-0", "--job", waits
    then = json.loads(pumice("what-if", *supposed, "-o", "json"))["job"]
    assert (then["before"]["verdict"], then["before"]["high"]) == (said["verdict"], said["high"])
    assert then["after"]["fate"] == "starts" or not ranged or then["after"]["high"] < said["high"]
    assert "9 more nodes like n-0" in pumice("what-if", *supposed)
    wrong = CliRunner().invoke(app, ["what-if", "now.cycle", "--more", "many"])
    assert wrong.exit_code == 2
    assert "--more 'many': must be COUNTxNODE" in wrong.stderr
    live = CliRunner().invoke(app, ["why", "a/b", "--past", "past"])
    assert live.exit_code == 2
    assert "--past: only for files" in live.stderr


# -- learning while it runs -------------------------------------------------------------------------------------------
def test_what_a_scheduler_sees_is_learned_beside_what_is_written(tmp_path: Path) -> None:
    """Jobs of one minute on one node, told cycle by cycle: what is learned live is what the files say afterwards."""
    learned = Learned(every=0.0)
    folder = Folder(tmp_path / "past", "me", packs=False)
    writer = LearningWriter(learned, read=tmp_path / "past")
    at = desk(node("n1", cpu=2), now=0.0)
    recorder = HistoryRecorder(at.state, [folder, writer], strict=True)
    for minute in range(30):
        at.state.now = minute * 60.0
        for obj in flat([job(f"j{minute:02}", tasks=1, cpu=2)]):
            at.state.apply(Seen(obj))
            recorder.saw(Seen(obj))
        if minute:
            for kind in ("Pod", "PodGroup"):
                gone = Gone(kind, f"default/j{minute - 1:02}" + ("-0" if kind == "Pod" else ""))
                at.state.apply(gone)
                recorder.saw(gone)
        recorder.deciding("c", lambda: {"tiers": [{"plugins": [{"name": "proportion"}]}]})
        recorder.decided(run_cycle(at.state, at.cycle.assembly, at.cycle.runtime).intents)
    writer.close()
    folder.close()
    assert learned.past.times.learned == 29
    read = learn(tmp_path / "past")
    assert read.past.times.learned == 29
    assert read.past.room == learned.past.room
    assert read.past.room["n1"][0] == 2000
    assert read.past.lanes == learned.past.lanes != {}
    known = learned.past.times.outlook()
    alike = Kind("default", size_of((2000, 0, 0)))
    assert {known.draw(alike, 0.0, 0.0, part / 10) for part in range(10)} == {60.0}


def test_a_history_that_cannot_be_learned_from_does_not_stop_anybody(tmp_path: Path) -> None:
    broken = tmp_path / "past"
    broken.mkdir()
    (broken / "20260101T000000Z-x-00001.jsonl").write_text('{"is": "begins", "at": 0, "version": 99}\n')
    writer = LearningWriter(Learned(), read=broken)
    assert writer.wants_another
    writer.another()
    assert not writer.wants_another
    writer.write([])
    writer.close()


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (675, 15_300, "in 10 min to 5 h"),
        (0, 42, "within 50 s"),
        (65, 3_500, "in 1 min to 1 h"),
        (4_000, 13_000, "in 1 h to 3 h 45 min"),
        (100_000, 1_000_000, "in 27 h to 12 d"),
    ],
)
def test_a_range_is_told_no_more_precisely_than_it_is_known_and_rounded_outwards(
    low: float, high: float, said: str
) -> None:
    assert span(low, high) == said


def test_of_a_job_that_lacks_pods_nobody_says_when_it_starts_and_no_other_waits_for_it() -> None:
    at = desk(node("n1", cpu=4), job("short", tasks=2, cpu=2, min_available=3), job("whole", tasks=3, cpu=2))
    said = at.when("short")
    assert said.answer().verdict == "unknown"
    assert "default/short" not in {waiter.job for waiter in said.scene.waiters}
    assert start_in_words(said.answer()) == "unknown: the job cannot start as it is"


def test_who_never_starts_for_the_part_of_its_queue_is_told_so() -> None:
    queues = [queue(f"q{n}", weight=1) for n in range(4)]
    jobs = [job(f"j{n}", tasks=3, cpu=4, queue=f"q{n}") for n in range(4)]
    said = desk(*queues, *(node(f"n{n}", cpu=16) for n in range(2)), *jobs).when("j1").answer()
    assert said.verdict == "never"
    assert said.why.endswith("it asks for more than the part of queue q1, while others wait that have less than theirs")
