"""The order in which victims go."""

from __future__ import annotations

from pumice.framework.evicting.victims import victim_queue
from pumice.framework.plugin import Arguments
from pumice.model.task import Task
from pumice.plugins.priority import Priority
from pumice.testing.builders import job, node, pod, queue
from pumice.testing.world import session, task_of


def order(*objects: object, preemptor: str = "new-0") -> list[str]:
    """Every running task in the order in which it would go for the preemptor, by both forms of the order."""
    ssn = session(node("n0"), queue("default"), *objects)  # type: ignore[arg-type]
    ssn.open_plugin(Priority(Arguments()))
    running: list[Task] = list(ssn.nodes["n0"].tasks.values())
    wanted = task_of(ssn, preemptor)
    listed = [t.name for t in ssn.orders.victims(running, wanted)]
    heap = victim_queue(ssn, running, wanted)
    assert [heap.pop().name for _ in running] == listed
    return listed


NEW = job("new", priority=100)


def test_within_a_job_the_last_task_goes_first() -> None:
    assert order(job("old", tasks=3, on="n0"), NEW) == ["old-2", "old-1", "old-0"]


def test_the_job_of_the_lowest_priority_goes_first() -> None:
    jobs = [
        *job("mid", tasks=2, on="n0", priority=5),
        *job("low", on="n0", priority=1),
        *job("top", on="n0", priority=9),
    ]
    assert order(*jobs, NEW) == ["low-0", "mid-1", "mid-0", "top-0"]


def test_tasks_of_jobs_that_compare_equal_go_by_their_own_order() -> None:
    jobs = [*job("a", tasks=2, on="n0", priority=1), *job("b", tasks=2, on="n0", priority=1)]
    assert order(*jobs, NEW) == ["b-1", "b-0", "a-1", "a-0"]


def test_between_queues_the_later_queue_goes_first() -> None:
    jobs = [*job("a", on="n0", queue="qa", priority=1), *job("b", on="n0", queue="qb", priority=9)]
    assert order(queue("qa"), queue("qb"), *jobs, NEW) == ["b-0", "a-0"]


def test_a_task_of_no_job_in_the_session_goes_before_all_others() -> None:
    lost = pod("lost", group="nowhere", on="n0", priority=1000)
    assert order(job("old", on="n0", priority=1), lost, NEW) == ["lost", "old-0"]
