"""What the pages show: who borrows from whom, what changed when, and who went for whom."""

from __future__ import annotations

from dashboard_worlds import NOON, desk_over

from pumice.answers.survey import take_survey
from pumice.answers.visibility import EVERYTHING, Visibility
from pumice.dashboard.history import MOST_SAMPLES, RecentHistory, changes_for
from pumice.dashboard.views import seen_by
from pumice.history.recorder import HistoryRecorder
from pumice.model.events import ClusterEvent, EvictFailed, Gone, Seen
from pumice.model.intents import Evict
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, queue
from pumice.testing.world import flat


def test_a_queue_borrows_from_those_that_leave_their_part_unused() -> None:
    desk = desk_over(
        queue("rich", weight=1),
        queue("poor", weight=1),
        node("n1", cpu=8),
        job("all", queue="rich", tasks=7, cpu=1, on="n1"),
        job("some", queue="poor", tasks=1, cpu=1, on="n1"),
        job("more", queue="poor", tasks=3, cpu=1),
    )
    view = seen_by(take_survey(desk), EVERYTHING)
    loan = next(loan for loan in view.loans() if loan.resource == "cpu")
    assert (loan.queue, loan.amount, loan.lenders) == ("rich", 3.0, {"poor": 3.0})
    (waits,) = view.waiting
    assert (waits.job, waits.place, waits.asks) == ("default/more", 1, {"cpu": 3})
    assert waits.reason
    assert view.reasons() == [(waits.reason, 1)]


def test_a_survey_changes_nothing() -> None:
    desk = desk_over(node("n1", cpu=2), job("a", tasks=2, cpu=1), job("b", tasks=2, cpu=1))
    first, second = take_survey(desk), take_survey(desk)
    assert first == second
    assert not desk.state.assumed


def followed(state: ClusterState) -> tuple[HistoryRecorder, RecentHistory]:
    history = RecentHistory(state, every=0.0)
    recorder = HistoryRecorder(state, [history], strict=True)
    recorder.deciding("one", dict)
    return recorder, history


def happened(recorder: HistoryRecorder, state: ClusterState, *events: ClusterEvent) -> None:
    for event in events:
        state.apply(event)
        recorder.saw(event)


def test_what_changed_is_told_at_its_time() -> None:
    state = desk_over(node("n1", cpu=2), job("a", tasks=1, cpu=1)).state
    recorder, history = followed(state)
    assert list(history.changes) == [], "what was there before is no change"
    state.now = NOON + 60
    happened(recorder, state, *map(Seen, flat([job("b", tasks=1, cpu=1, on="n1"), node("n2", cpu=2)])))
    recorder.deciding("two", dict)
    state.now = NOON + 120
    uid = state.task_by_key["default/b-0"].uid
    recorder.decided([Evict("default/b-0", uid, "n1", "preempt", "default/b", "other/boss")])
    happened(recorder, state, Gone("Pod", "default/b-0"), Gone("Node", "n2"))
    recorder.deciding("two", dict)
    told = [(c.at - NOON, c.what, c.name, c.beneficiary) for c in history.changes]
    assert sorted(told) == sorted(
        [
            (60, "submitted", "default/b", ""),
            (60, "started", "default/b", ""),
            (60, "node joined", "n2", ""),
            (60, "conf", "two", ""),
            (120, "evicted", "default/b", "other/boss"),
            (120, "node left", "n2", ""),
        ]
    )
    assert [at for at, *_ in told] == [60] * 4 + [120] * 2
    narrow = changes_for(history.changes, Visibility(frozenset({"default"}), nodes=False, queues=False))
    assert sorted(c.what for c in narrow) == ["conf", "evicted", "started", "submitted"]
    assert narrow[0].beneficiary == "(another namespace)"


def test_a_job_that_ends_is_told_with_its_queue() -> None:
    state = desk_over(queue("q"), node("n1", cpu=2), job("a", queue="q", tasks=1, cpu=1, on="n1")).state
    recorder, history = followed(state)
    happened(recorder, state, Gone("Pod", "default/a-0"), Gone("PodGroup", "default/a"))
    recorder.deciding("one", dict)
    assert [(c.what, c.name, c.queue) for c in history.changes] == [("ended", "default/a", "q")]


def test_what_a_recorder_lists_that_begins_anew_is_no_change() -> None:
    state = desk_over(node("n1", cpu=2), job("a", tasks=1, cpu=1, on="n1")).state
    recorder, history = followed(state)
    recorder.rest()
    recorder.deciding("one", dict)
    assert list(history.changes) == []


def test_an_eviction_is_told_when_it_happened_and_not_if_it_was_refused() -> None:
    state = desk_over(node("n1", cpu=2), job("a", tasks=2, cpu=1, on="n1")).state
    recorder, history = followed(state)
    tasks = [state.task_by_key[f"default/a-{n}"] for n in range(2)]
    for task in tasks:
        state.set_status(task, TaskStatus.RELEASING, state.nodes["n1"])
        state.assume(task)
    recorder.decided([Evict(task.key, task.uid, "n1", "preempt", "default/a", "other/boss") for task in tasks])
    assert list(history.changes) == []
    happened(recorder, state, EvictFailed("default/a-0", tasks[0].uid, "a budget", "n1"), Gone("Pod", "default/a-1"))
    for _ in range(2):
        recorder.deciding("one", dict)
        recorder.decided([])
    told = [(c.what, c.name, c.pods) for c in history.changes if c.what == "evicted"]
    assert told == [("evicted", "default/a", 1)]


def test_what_is_remembered_of_use_is_bounded() -> None:
    state = desk_over(node("n1", cpu=2)).state
    history = RecentHistory(state, every=1.0)
    for second in range(3 * MOST_SAMPLES):
        state.now = NOON + second
        history.look()
    assert len(history.samples) <= MOST_SAMPLES
    assert history.samples[0].at == NOON


def test_a_job_of_a_queue_that_there_is_not_is_told_so() -> None:
    desk = desk_over(queue("platform"), node("n1", cpu=2), job("a", queue="platfrom", tasks=1, cpu=1))
    (row,) = take_survey(desk).jobs
    assert (row.reason, row.waits) == ("UnknownQueue", True)
    assert "platfrom" in row.text
