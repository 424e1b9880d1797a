"""What the pages show: who borrows from whom, what changed when, and who went for whom."""

from __future__ import annotations

from dashboard_worlds import NOON, desk_over

from pumice.answers.survey import take_survey
from pumice.answers.visibility import EVERYTHING, Sight
from pumice.dashboard.history import MOST_SAMPLES, Chronicle, changes_for
from pumice.dashboard.views import seen_by
from pumice.model.events import EvictFailed, Gone, Seen
from pumice.model.intents import Evict, Intent
from pumice.model.status import TaskStatus
from pumice.scheduler.report import CycleReport
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


def test_what_changed_is_told_at_its_time() -> None:
    desk = desk_over(node("n1", cpu=2), job("a", tasks=1, cpu=1))
    chronicle, state = Chronicle(every=0.0), desk.state
    chronicle.look(state, "one")
    assert list(chronicle.changes) == []
    state.now = NOON + 60
    state.apply_all(Seen(obj) for obj in flat([job("b", tasks=1, cpu=1, on="n1"), node("n2", cpu=2)]))
    chronicle.look(state, "two")
    state.now = NOON + 120
    state.apply(Gone("Node", "n2"))
    evict = Evict("default/b-0", state.task_by_key["default/b-0"].uid, "n1", "preempt", "default/b", "other/boss")
    report = CycleReport(NOON, "two", [evict], {}, {}, {}, {}, {}, {})
    state.apply(Gone("Pod", "default/b-0"))
    chronicle.after(state, report)
    told = [(c.at - NOON, c.what, c.name, c.beneficiary) for c in chronicle.changes]
    assert told == [
        (60, "submitted", "default/b", ""),
        (60, "started", "default/b", ""),
        (60, "node joined", "n2", ""),
        (60, "conf", "two", ""),
        (120, "evicted", "default/b", "other/boss"),
        (120, "node left", "n2", ""),
    ]
    narrow = changes_for(chronicle.changes, Sight(frozenset({"default"}), nodes=False, queues=False))
    assert [c.what for c in narrow] == ["evicted", "conf", "started", "submitted"]
    assert narrow[0].beneficiary == "(another namespace)"


def test_an_eviction_is_told_when_it_happened_and_not_if_it_was_refused() -> None:
    desk = desk_over(node("n1", cpu=2), job("a", tasks=2, cpu=1, on="n1"))
    chronicle, state = Chronicle(every=0.0), desk.state
    tasks = [state.task_by_key[f"default/a-{n}"] for n in range(2)]
    for task in tasks:
        state.set_status(task, TaskStatus.RELEASING, state.nodes["n1"])
        state.assume(task)
    evictions: list[Intent] = [Evict(task.key, task.uid, "n1", "preempt", "default/a", "other/boss") for task in tasks]
    chronicle.after(state, CycleReport(NOON, "one", evictions, {}, {}, {}, {}, {}, {}))
    assert list(chronicle.changes) == []
    state.apply(EvictFailed("default/a-0", tasks[0].uid, "a budget", "n1"))
    state.apply(Gone("Pod", "default/a-1"))
    for _ in range(2):
        chronicle.after(state, CycleReport(NOON, "one", [], {}, {}, {}, {}, {}, {}))
    told = [(c.what, c.name, c.pods) for c in chronicle.changes if c.what == "evicted"]
    assert told == [("evicted", "default/a", 1)]


def test_a_chronicle_is_bounded() -> None:
    desk = desk_over(node("n1", cpu=2))
    chronicle = Chronicle(every=1.0)
    for second in range(3 * MOST_SAMPLES):
        desk.state.now = NOON + second
        chronicle.look(desk.state, "one")
    assert len(chronicle.samples) <= MOST_SAMPLES
    assert chronicle.samples[0].at == NOON


def test_a_job_of_a_queue_that_there_is_not_is_told_so() -> None:
    desk = desk_over(queue("platform"), node("n1", cpu=2), job("a", queue="platfrom", tasks=1, cpu=1))
    (row,) = take_survey(desk).jobs
    assert (row.reason, row.waits) == ("UnknownQueue", True)
    assert "platfrom" in row.text
