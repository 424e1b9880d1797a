"""A job that lost surplus pods again and again waits before surplus is placed again; its gang does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.config import load
from pumice.framework.registry import default_registry
from pumice.framework.session.rounds import HOUR, Losses
from pumice.model.intents import Evict
from pumice.saved.files import dump, parse
from pumice.saved.redact import redacted
from pumice.scheduler.assembly import catalogue_of
from pumice.scheduler.recording import record, restored
from pumice.scheduler.set_back import set_back
from pumice.testing.builders import queue
from pumice.testing.scenario import Scenario

MINUTE = 60.0
EVICTING: dict[str, dict[str, Any]] = {
    "preempt": {"actions": ["enqueue", "allocate", "preempt"], "plugins": [["priority", "gang", "predicates"]]},
    "reclaim": {
        "actions": ["enqueue", "allocate", "reclaim"],
        "plugins": [["priority", "gang"], ["proportion", "predicates"]],
    },
    "gangpreempt": {"actions": ["enqueue", "allocate", "gangpreempt"], "plugins": [["priority", "gang", "predicates"]]},
    "gangreclaim": {
        "actions": ["enqueue", "allocate", "gangreclaim"],
        "plugins": [["priority", "gang"], ["conformance", "predicates"]],
    },
    "KAI's preempt": {"dialect": "kai"},
    "KAI's reclaim": {"dialect": "kai"},
}


class Arrivals:
    """Short jobs of high priority that come again and again, beside one job that has surplus."""

    def __init__(self, action: str) -> None:
        self.conf, self.other = EVICTING[action], "theirs" if "reclaim" in action else "default"
        self.scenario = Scenario(queue("theirs", weight=3), recreate=True).node("n0", cpu=6, gpu=6)
        self.scenario.job("elastic", tasks=6, min_available=2, cpu=1, gpu=1, priority=1)
        self.lost: dict[str, list[float]] = {}
        """Pod of the job -> when it was evicted."""
        self.placed: list[int] = []
        """How many pods of it have a place after each cycle."""

    def cycle(self) -> None:
        """Run one cycle and note what the job lost."""
        found = self.scenario.run(**self.conf)
        for intent in found.report.intents:
            if isinstance(intent, Evict) and intent.job == "default/elastic":
                self.lost.setdefault(intent.pod, []).append(self.scenario.state.now)
        self.placed.append(self.scenario.job_of("elastic").ready_count)
        self.scenario.advance(1.0)

    def play(self, arrivals: Sequence[tuple[int, float]]) -> None:
        """Let jobs of a size come and go, each after some seconds."""
        for n, (size, wait) in enumerate(arrivals):
            self.scenario.advance(wait)
            self.cycle()
            self.scenario.job(f"short{n}", tasks=size, min_available=size, cpu=1, gpu=1, queue=self.other, priority=9)
            for _ in range(4):
                self.cycle()
            for k in range(size):
                self.scenario.finish(f"short{n}-{k}")
            self.cycle()


def most_in_an_hour(lost: Mapping[str, Sequence[float]]) -> int:
    """The largest number of evictions of one pod within any hour."""
    counts = [sum(1 for at in times if since <= at < since + HOUR) for times in lost.values() for since in times]
    return max(counts, default=0)


@pytest.mark.parametrize("action", EVICTING)
@pytest.mark.parametrize("every", [5.0, 5 * MINUTE])
def test_a_surplus_pod_is_evicted_at_most_six_times_an_hour(action: str, every: float) -> None:
    arrivals = Arrivals(action)
    arrivals.play([(4, every)] * (12 if every > 60 else 8))
    assert 4 <= most_in_an_hour(arrivals.lost) <= 6
    assert min(arrivals.placed) >= 2


def test_the_gang_itself_is_placed_during_the_pause() -> None:
    """Each pod that the gang lacks is placed at once; the surplus waits and says why."""
    arrivals = Arrivals("preempt")
    arrivals.play([(4, 5.0)] * 6)
    scenario = arrivals.scenario
    assert arrivals.placed[-1] == 2
    for pod in ("elastic-0", "elastic-1"):
        scenario.delete(pod)
    scenario.run(3)
    assert scenario.job_of("elastic").ready_count == 2
    scenario.assert_pending(
        "elastic-5", because="lost pods beyond its minimum again and again, 4 times within the last hour"
    )


def test_surplus_waits_for_ten_twenty_and_then_thirty_minutes() -> None:
    arrivals = Arrivals("preempt")
    arrivals.play([(4, 5.0)] * 4)
    waits = []
    for _ in range(4):
        lost = max(max(times) for times in arrivals.lost.values())
        while arrivals.placed[-1] < 6:
            arrivals.scenario.advance(29.0)
            arrivals.cycle()
        waits.append(round((arrivals.scenario.state.now - lost) / MINUTE))
        arrivals.play([(4, 0.0)])
    assert waits == [10, 20, 30, 30]


def test_pods_that_go_one_after_the_other_are_one_loss() -> None:
    """A job that shrinks step by step may grow again at once: nothing that was placed again is lost."""
    arrivals = Arrivals("preempt")
    arrivals.play([(6, 0.0)])
    arrivals.scenario.runtime.losses.clear()
    arrivals.cycle()
    for n in range(4):
        arrivals.scenario.job(f"one{n}", cpu=1, gpu=1, priority=9)
        arrivals.cycle()
        arrivals.cycle()
    assert arrivals.scenario.job_of("elastic").ready_count == 2
    assert [len(lost.times) for lost in arrivals.scenario.runtime.losses.values()] == [1]


def test_losses_are_part_of_a_saved_cycle_and_follow_a_clock_that_is_set_back() -> None:
    scenario = Scenario().node("n0", cpu=2).job("zebra", tasks=2, cpu=1)
    scenario.runtime.losses = {"default/zebra": Losses((1.0, 2.0), 600.0, placed=True)}
    conf = load("actions: allocate\ntiers: [{plugins: [{name: gang}]}]", catalogue_of(default_registry())).conf
    saved = record(scenario.state, conf, scenario.runtime)
    for file, job in ((saved, "default/zebra"), (redacted(saved), "default/job-1")):
        found = restored(parse(dump(file)), default_registry()).runtime.losses
        assert found == {job: Losses((1.0, 2.0), 600.0, placed=True)}
    assert b"zebra" not in msgspec.json.encode(redacted(saved).losses)
    set_back(scenario.state, scenario.runtime, 10.0)
    assert scenario.runtime.losses == {"default/zebra": Losses((-9.0, -8.0), 600.0, placed=True)}


@pytest.mark.law
@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([0.0, 20.0, 300.0, 900.0, 2400.0])), max_size=16))
def test_no_arrival_of_jobs_evicts_a_surplus_pod_more_than_six_times_an_hour(arrivals: list[tuple[int, float]]) -> None:
    for action in ("preempt", "KAI's reclaim"):
        played = Arrivals(action)
        played.play(arrivals)
        assert most_in_an_hour(played.lost) <= 6
        assert min(played.placed, default=2) >= 2
