"""What a question may cost the scheduler: so many kinds of pods, so much time, so often for one user; it says so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from pumice import Plugin
from pumice.answers.service import Answers
from pumice.engine.rows import NodeRows
from pumice.errors import InvalidInput, OutOfTime
from pumice.framework.session.runtime import Runtime
from pumice.model import api
from pumice.model.task import Task
from pumice.scheduler import dry
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.question_queue import EVERY, QuestionQueue
from pumice.scheduler.recording import NextCycle
from pumice.testing import Scenario

DIALECTS = [None, "kai"]


def jobs(many: int, kinds: int, group: str = "x{}") -> list[Any]:
    """Jobs with a pod each, of so many kinds."""
    out: list[Any] = []
    for n in range(many):
        notes = {"scheduling.k8s.io/group-name": group.format(n)}
        container = {"name": "c", "resources": {"requests": {"cpu": f"{n % kinds + 1}m"}}}
        spec = {"schedulerName": "pumice", "containers": [container]}
        meta = {"name": f"x{n}", "namespace": "default"}
        out.append(api.decode("PodGroup", {"metadata": meta, "spec": {"minMember": 1, "queue": "default"}}))
        out.append(api.decode("Pod", {"metadata": {**meta, "name": f"x{n}-0", "annotations": notes}, "spec": spec}))
    return out


def one_job(pods: int, kinds: int) -> list[Any]:
    found = jobs(pods, kinds, "x0")
    return [found[0], *found[1::2]]


def answers(dialect: str | None, plugins: list[Any] | None = None) -> tuple[Answers, Scenario]:
    scenario = Scenario()
    for n in range(50):
        scenario.node(f"n{n}", cpu=8)
    scenario.job("a", tasks=2, cpu=1)
    assembly = scenario._configure(None, plugins, None, dialect, None)
    return Answers(NextCycle(scenario.state, assembly, scenario.runtime)), scenario


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("given", [jobs(8000, 8000), jobs(101, 1), one_job(8000, 8000), one_job(101, 101)])
def test_more_than_a_hundred_jobs_or_kinds_of_pods_are_refused_at_once(dialect: str | None, given: list[Any]) -> None:
    desk, _ = answers(dialect)
    began = time.process_time()
    with pytest.raises(InvalidInput, match=r"more than 100 (kinds of pods|jobs)"):
        desk.attempt(given)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("given", [jobs(100, 100), one_job(200, 1), one_job(100, 100)])
def test_a_hundred_are_answered(dialect: str | None, given: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry, "SECONDS", 20.0)  # it takes 0.1 s, on a machine that does nothing else
    assert answers(dialect)[0].attempt(given).jobs


class Slow(Plugin):
    """A policy that takes a while for each kind of pod."""

    name = "slow"

    def batch_predicate(self, task: Task, rows: NodeRows) -> None:
        time.sleep(0.02)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_question_that_takes_too_long_is_given_up_and_leaves_nothing(
    dialect: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry, "SECONDS", 0.2)
    conf: dict[str, Any] = {
        "actions": "allocate",
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, {"name": Slow}]}],
    }
    if dialect:
        conf = {"dialect": "kai", "tiers": [{"plugins": [{"name": "predicates"}, {"name": Slow}]}]}
    desk, scenario = with_conf(conf)
    before = scenario.state.revision, dict(scenario.runtime.memory), set(scenario.state.jobs)
    began = time.monotonic()
    with pytest.raises(OutOfTime, match="no more time for this question"):
        desk.attempt(jobs(100, 100))
    assert time.monotonic() - began < 1.5
    assert (dict(scenario.runtime.memory), set(scenario.state.jobs)) == before[1:]
    report = run_cycle(scenario.state, desk.cycle.assembly, scenario.runtime)
    assert len(report.binds) == 2
    assert report.errors == []


def with_conf(conf: dict[str, Any]) -> tuple[Answers, Scenario]:
    scenario = Scenario()
    for n in range(10):
        scenario.node(f"n{n}", cpu=8)
    scenario.job("a", tasks=2, cpu=1)
    assembly = scenario._configure(None, None, conf, None, None)
    return Answers(NextCycle(scenario.state, assembly, scenario.runtime)), scenario


def test_the_time_of_real_cycles_is_not_counted_and_dry_ones_do_not_add_to_it() -> None:
    desk, scenario = answers(None)
    scenario.runtime.took = 3.0
    desk.attempt(jobs(1, 1))
    assert scenario.runtime.took == 3.0
    assert Runtime().took == 0.0


def turns(queue: QuestionQueue[str], count: int) -> Iterator[list[str]]:
    for _ in range(count):
        told.clear()
        queue.answer("")
        yield list(told)


told: list[str] = []


def test_a_user_gets_one_answer_in_five_turns_and_keeps_no_other_user_back() -> None:
    queue: QuestionQueue[str] = QuestionQueue(lambda: None)
    for n in range(3):
        queue(lambda _, n=n: told.append(f"greedy {n}"), who="greedy")  # type: ignore[misc]
    queue(lambda _: told.append("modest"), who="modest")
    queue(lambda _: told.append("own"))
    seen = list(turns(queue, 3 * EVERY))
    assert seen[0] == ["greedy 0", "modest", "own"]
    assert [said for said in seen if said] == [["greedy 0", "modest", "own"], ["greedy 1"], ["greedy 2"]]
    assert [at for at, said in enumerate(seen) if said] == [0, EVERY, 2 * EVERY]
    assert not queue
