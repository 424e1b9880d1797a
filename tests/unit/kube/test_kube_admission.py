"""Jobs that are not let in, and pods that belong to no job, say why: once, and again when the reason is another."""

from __future__ import annotations

from typing import Any

from msgspec.structs import force_setattr

from pumice.framework.session.outcome import Refusal, Stage
from pumice.kube.admission import AGAIN, EVERY, MANY, PATIENCE, Admissions, Ungrouped
from pumice.model.api import AnyObject, Condition, PodGroup
from pumice.model.codes import ReasonCode
from pumice.model.events import Gone, Seen
from pumice.model.intents import Intent, Note, StatusUpdate
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.testing import Scenario, job, pod, queue
from pumice.testing.world import flat


def waiting(*names: str) -> ClusterState:
    state = ClusterState()
    state.now = 1000.0
    state.apply(Seen(queue("default")))
    for name in names:
        state.apply_all(Seen(obj) for obj in flat([job(name, tasks=0)]))
    return state


def cycle(text: str, *jobs: str, intents: tuple[Intent, ...] = ()) -> CycleReport:
    refusals = {f"default/{name}": Refusal(Stage.ENQUEUE, text, "capacity") for name in jobs}
    return CycleReport(0.0, "", list(intents), refusals, {}, {}, {}, {}, {})


def conditions(found: list[Intent]) -> list[tuple[str, str, str, str]]:
    return [
        (i.key, c["type"], c["status"], c["message"])
        for i in found
        if isinstance(i, StatusUpdate)
        for c in i.status["conditions"]
    ]


def test_a_job_that_is_not_let_in_gets_a_condition_and_an_event_with_the_reason() -> None:
    state, told = waiting("a", "b"), Admissions()
    found = told.updates(cycle("no quota", "a"), state)
    text = "not let into queue default (capacity): no quota"
    assert conditions(found) == [("default/a", "Admitted", "False", text)]
    assert [i for i in found if isinstance(i, Note)] == [
        Note("PodGroup", "default/a", "Warning", ReasonCode.UNSCHEDULABLE, text)
    ]


def test_it_is_told_once_and_again_when_the_reason_changed_some_time_ago() -> None:
    state, told = waiting("a"), Admissions()
    assert told.updates(cycle("no quota", "a"), state)
    for _ in range(3):
        state.now += EVERY
        assert told.updates(cycle("no quota", "a"), state) == []
        assert told.updates(cycle("another", "a"), state) == []
    state.now += AGAIN
    assert len(conditions(told.updates(cycle("another", "a"), state))) == 1


def test_who_says_so_already_is_not_written_again_by_a_new_leader() -> None:
    state = waiting("a")
    tell_condition(state, "a", "False", "not let into queue default (capacity): no quota")
    assert Admissions().updates(cycle("no quota", "a"), state) == []


def tell_condition(state: ClusterState, name: str, status: str, message: str) -> None:
    group = state.jobs[f"default/{name}"].group
    assert isinstance(group, PodGroup)
    force_setattr(group.status, "conditions", [Condition(type="Admitted", status=status, message=message)])


def test_who_is_let_in_later_says_so_also_after_a_restart() -> None:
    let_in = StatusUpdate("PodGroup", "default/a", {"phase": "Inqueue"})
    state, told = waiting("a"), Admissions()
    told.updates(cycle("no quota", "a"), state)
    found = told.updates(cycle("", intents=(let_in,)), state)
    assert conditions(found) == [("default/a", "Admitted", "True", "let into its queue")]
    assert told.updates(cycle("", intents=(let_in,)), state) == []
    tell_condition(state, "a", "False", "whatever")
    assert conditions(Admissions().updates(cycle("", intents=(let_in,)), state)) == conditions(found)
    tell_condition(state, "a", "True", "let into its queue")
    assert Admissions().updates(cycle("", intents=(let_in,)), state) == []


def test_many_have_their_turn_one_after_the_other() -> None:
    names = [f"j{n}" for n in range(2 * MANY + 1)]
    state, told = waiting(*names), Admissions()
    counts = []
    for _ in range(4):
        counts.append(len(conditions(told.updates(cycle("no quota", *names), state))))
        state.now += EVERY
    assert counts == [MANY, MANY, 1, 0]


def test_a_real_refusal_is_told_in_the_plugins_words() -> None:
    s = Scenario()
    s.add(queue("small", capability={"cpu": 1})).node("n1", cpu=8)
    s.job("big", tasks=2, cpu=1, queue="small", min_resources={"cpu": 2})
    c = s.run(actions=["enqueue", "allocate"], plugins=["gang", "capacity"])
    found = Admissions().updates(c.report, s.state)
    ((key, *_, message),) = conditions(found)
    assert key == "default/big"
    assert message.startswith("not let into queue small (capacity): ")
    assert "insufficient" in message


def ungrouped(*objects: Any, names: tuple[str, ...] = ("pumice",)) -> tuple[ClusterState, Ungrouped]:
    state, look = ClusterState(scheduler_names=names), Ungrouped()
    state.now = look.now = 1000.0
    see(state, look, queue("default"), *objects)
    return state, look


def see(state: ClusterState, look: Ungrouped, *objects: Any) -> None:
    events = [Seen(obj) for obj in flat(objects)]
    look.handed(events)
    state.apply_all(events)


def ours(name: str, **options: Any) -> AnyObject:
    made = pod(name, **options)
    force_setattr(made.spec, "scheduler_name", options.get("scheduler", "pumice"))
    return made


def test_a_pod_that_names_no_group_is_told_once_after_a_while() -> None:
    state, look = ungrouped(ours("bare"), ours("bound", on="n1"))
    assert look.notes(state) == []
    state.now += PATIENCE
    (note,) = look.notes(state)
    assert (note.kind, note.key, note.reason) == ("Pod", "default/bare", "NoPodGroup")
    assert "it names no PodGroup in the annotation scheduling.k8s.io/group-name" in note.message
    state.now += PATIENCE
    assert look.notes(state) == []


def test_pods_of_other_schedulers_and_those_that_got_a_group_or_went_are_not_told() -> None:
    other = pod("other")
    state, look = ungrouped(other, ours("gets"), ours("goes"), job("j", tasks=1))
    force_setattr(other.spec, "scheduler_name", "default-scheduler")
    see(state, look, ours("gets", group="j"))
    gone = Gone("Pod", "default/goes")
    look.handed([gone])
    state.apply(gone)
    state.now += 10 * PATIENCE
    assert look.notes(state) == []
    assert set(look._nameless) == {"default/other"}


def test_pods_whose_group_does_not_exist_are_told_and_those_whose_group_comes_are_not() -> None:
    group, *pods = job("late", tasks=1)
    state, look = ungrouped(ours("lost-0", group="nowhere"), ours("lost-1", group="nowhere"), *pods)
    assert look.notes(state) == []
    state.now += PATIENCE / 2
    see(state, look, group)
    state.now += PATIENCE
    assert [(n.key, n.message) for n in look.notes(state)] == [
        ("default/lost-0", "PodGroup default/nowhere does not exist"),
        ("default/lost-1", "PodGroup default/nowhere does not exist"),
    ]
    state.now += PATIENCE
    assert look.notes(state) == []
