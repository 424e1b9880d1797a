"""Answers are what the next cycle would say, and leave nothing behind."""

from __future__ import annotations

import msgspec
import pytest
from answer_desks import EVICTS, desk
from msgspec.structs import replace

from pumice.answers.jobs import NoSuchThing
from pumice.answers.service import Answers, candidates
from pumice.answers.why import TryAnswer, WhyAnswer
from pumice.errors import InvalidInput
from pumice.framework.explaining.explain import Stage
from pumice.model.api import AnyObject, Metadata, NodeObject, Pod, PodGroup, PodSpec
from pumice.model.events import Seen
from pumice.scheduler.cycle import run_cycle
from pumice.testing import job, node, pod, priority_class, queue
from pumice.testing.world import flat


def test_why_says_what_stops_a_job_its_place_and_how_its_queue_stands() -> None:
    at = desk(
        queue("small", capability={"cpu": 4}),
        node("n1", cpu=8),
        job("runs", tasks=2, cpu=1, on="n1", queue="small"),
        job("waits", tasks=3, cpu=1, queue="small"),
    )
    answer = at.why("waits")
    assert answer.explanation.stage is Stage.QUEUE
    assert [(limit.holds, limit.may_have, limit.asks) for limit in answer.explanation.limits] == [(2, 4, 3)]
    assert answer.explanation.position == 1
    assert answer.standing is not None
    (cpu,) = [share for share in answer.standing.shares if share.resource == "cpu"]
    assert (cpu.allocated, cpu.capability, cpu.asked, cpu.borrowed) == (2, 4, 3, 0)
    assert (answer.standing.waiting, answer.standing.jobs) == (1, 2)
    assert answer.now == 1000.0


def test_an_answer_does_not_contradict_itself_where_the_cycle_would_place_others() -> None:
    at = desk(node("n1", cpu=4), job("first", tasks=3, cpu=1), job("second", tasks=3, cpu=1))
    answer = at.why("second")
    assert answer.explanation.code == "NoNodeFits" or answer.explanation.limits
    assert answer.standing is not None
    assert {s.resource: s.allocated for s in answer.standing.shares}["cpu"] == 3
    assert answer.standing.waiting == 1


def test_asking_changes_nothing() -> None:
    at = desk(node("n1", cpu=4), job("a", tasks=2, cpu=1), job("b", tasks=4, cpu=1))
    phases = {uid: j.phase for uid, j in at.state.jobs.items()}
    for _ in range(3):
        assert at.why("b").explanation.code == at.why("default/b").explanation.code
        at.standings()
        at.attempt(flat([job("new", tasks=1, cpu=1)]))
    assert {uid: j.phase for uid, j in at.state.jobs.items()} == phases
    assert sorted(at.state.jobs) == ["default/a", "default/b"]
    assert at.state.assumed == {}
    assert at.cycle.runtime.cycle == 0


def test_a_question_is_answered_where_nobody_waits_and_nobody_reads_figures() -> None:
    at = desk(node("n1", cpu=4), job("runs", cpu=1, on="n1"))
    at.cycle.runtime.metered = False  # as in a simulation
    for _ in range(3):
        run_cycle(at.state, at.cycle.assembly, at.cycle.runtime)
    assert at.why("runs").explanation.stage is Stage.SERVED
    (standing,) = at.standings()
    assert standing.shares[0].deserved == 1
    assert at.cycle.runtime.metered is False


def test_a_row_says_what_why_says() -> None:
    at = desk(node("n1", cpu=4), job("runs", tasks=3, cpu=1, on="n1"), job("big", tasks=3, cpu=1), job("never", cpu=9))
    rows = {row.job: row for row in at.waiting().rows}
    for name in ("big", "never"):
        why = at.why(name).explanation
        assert (rows[f"default/{name}"].reason, rows[f"default/{name}"].text) == (why.code, why.text)
    assert at.waiting().reasons == {"NoNodeFits": 1, "CanNeverFit": 1}
    assert len(at.waiting(most=1).rows) == 1
    assert at.waiting(most=1).waiting == 2


def test_standings_are_of_all_queues_or_of_those_that_are_named() -> None:
    at = desk(queue("a", weight=3), queue("b"), node("n1", cpu=8), job("j", tasks=6, cpu=1, on="n1", queue="b"))
    assert [s.queue for s in at.standings()] == ["a", "b", "default"]
    (b,) = at.standings(["b"])
    (cpu,) = [s for s in b.shares if s.resource == "cpu"]
    assert (cpu.allocated, cpu.deserved, cpu.borrowed) == (6, 6, 0)
    with pytest.raises(NoSuchThing):
        at.standings(["c"])


# -- trying -----------------------------------------------------------------------------------------------------------
def test_a_job_that_fits_would_start_where_the_next_cycle_puts_it() -> None:
    at = desk(node("n1", cpu=4), node("n2", cpu=2), job("runs", tasks=2, cpu=1, on="n2"))
    objects = flat([job("new", tasks=3, cpu=1)])
    tried = at.attempt(objects)
    (new,) = tried.jobs
    assert new.starts
    assert new.why is None
    assert sorted(new.placed) == ["default/new-0", "default/new-1", "default/new-2"]
    assert tried.evicted == []
    (effect,) = tried.queues
    assert effect.by_them["cpu"] == 3
    assert {s.resource: s.allocated for s in effect.after.shares}["cpu"] == 5
    at.state.apply_all(Seen(obj) for obj in candidates(at.state, objects))
    assert run_cycle(at.state, at.cycle.assembly, at.cycle.runtime).binds == new.placed


def test_a_job_that_does_not_fit_is_told_why_in_the_same_words_as_one_that_waits() -> None:
    at = desk(node("n1", cpu=4))
    (new,) = at.attempt(flat([job("new", tasks=2, cpu=8)])).jobs
    assert not new.starts
    assert new.why is not None
    assert (new.why.code, new.placed) == ("CanNeverFit", {})


def full() -> Answers:
    low = job("low", tasks=4, cpu=1, on="n1", min_available=1, preemptible=True)
    return desk(priority_class("high", 100), node("n1", cpu=4), low, actions=EVICTS)


def urgent(tasks: int, priority: int | None = None) -> list[AnyObject]:
    """A job of a priority class; its pods as somebody writes them, unless an API server filled in their *priority*."""
    found: list[AnyObject] = []
    for obj in flat([job("urgent", tasks=tasks, cpu=1)]):
        if isinstance(obj, PodGroup):
            found.append(replace(obj, spec=replace(obj.spec, priority_class_name="high")))
        elif isinstance(obj, Pod):
            spec = replace(obj.spec, priority=priority, priority_class_name="high")
            found.append(replace(obj, spec=spec))
    return found


def test_who_would_be_evicted_is_named_with_its_job() -> None:
    tried = full().attempt(urgent(2))
    (one,) = tried.jobs
    assert not one.starts
    assert len(one.promised) == 2
    assert {(e.job, e.node, e.action, e.beneficiary) for e in tried.evicted} == {
        ("default/low", "n1", "preempt", "default/urgent")
    }
    assert len(tried.evicted) == 2


def test_the_priority_of_a_pod_is_that_of_its_class_as_an_api_server_fills_it_in() -> None:
    assert full().attempt(urgent(2)).evicted == full().attempt(urgent(2, 100)).evicted


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([NodeObject(metadata=Metadata(name="n9"))], "Node n9: only PodGroups, pods and the Jobs"),
        (flat([job("there", tasks=1)]), "PodGroup default/there: is there already; `pumice why` says how it stands"),
        ([pod("lonely")], "there is no PodGroup among what is to be tried"),
        (
            [*flat([job("new", tasks=0)]), pod("lost", group="nowhere")],
            "Pod default/lost: names PodGroup 'nowhere', which is not among what is to be tried",
        ),
        (
            [*flat([job("new", tasks=0)]), Pod(metadata=Metadata(name="x"), spec=PodSpec(scheduler_name="volcano"))],
            "Pod default/x: its schedulerName is 'volcano', and only",
        ),
        (flat([job("bad", tasks=1, min_available=-1)]), "minMember must not be negative"),
    ],
)
def test_what_cannot_be_tried_is_named_with_the_rule(objects: list[object], said: str) -> None:
    at = desk(node("n1"), job("there", tasks=1))
    with pytest.raises(InvalidInput) as no:
        at.attempt(objects)  # type: ignore[arg-type]
    assert said in str(no.value)
    assert sorted(at.state.jobs) == ["default/there"]


def test_answers_can_be_written_and_read_again() -> None:
    at = desk(node("n1", cpu=4), job("a", tasks=9, cpu=1), job("b", tasks=9, cpu=1))
    why = at.why("a")
    assert msgspec.json.decode(msgspec.json.encode(why), type=WhyAnswer) == why
    tried = at.attempt(flat([job("new", tasks=2, cpu=8)]))
    assert msgspec.json.decode(msgspec.json.encode(tried), type=TryAnswer) == tried


def test_questions_are_answered_where_nothing_changes_from_cycle_to_cycle() -> None:
    asked = desk(node("n1", cpu=2), job("big", tasks=4, cpu=1))
    for _ in range(3):
        run_cycle(asked.state, asked.cycle.assembly, asked.cycle.runtime)
    assert asked.cycle.runtime.last_cycle is not None, "the next cycle would not be run"
    assert asked.why("big").explanation.stage is not Stage.SERVED
    assert [standing.queue for standing in asked.standings()]
    assert asked.attempt(flat([job("new", tasks=1, cpu=1)])).jobs[0].starts
    assert asked.cycle.runtime.last_cycle is not None
