"""What a callback reads of a task decides which tasks share its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumice import Task
from pumice.engine.observed_reads import traced, values
from pumice.testing import job, session, task_of


@pytest.mark.parametrize(
    ("reads", "noted"),
    [
        (lambda t: t.requests, []),
        (lambda t: t.klass, []),
        (lambda t: t.best_effort, []),
        (lambda t: t.labels["a"], ["labels"]),
        (lambda t: (t.priority, t.role, t.priority), ["priority", "role"]),
        (lambda t: t.name, ["job.uid"]),
        (lambda t: t.uid, ["job.uid"]),
        (lambda t: hash(t), ["job.uid"]),
        (lambda t: t == 3, ["job.uid"]),
        (lambda t: repr(t), ["job.uid"]),
        (lambda t: t.job.queue, ["job.queue"]),
        (lambda t: t.job.ready_count, ["job.ready_count"]),
        (lambda t: isinstance(t, Task), []),
    ],
)
def test_what_is_read_is_noted_once_and_what_the_class_says_not(reads: Callable[[Any], Any], noted: list[str]) -> None:
    task = task_of(session(job("a", task_labels={"a": "1"})), "a-0")
    seen: dict[str, None] = {}
    reads(traced(task, seen))
    assert list(seen) == noted


def test_a_traced_task_answers_as_the_task_does_and_cannot_be_written() -> None:
    task = task_of(session(job("a")), "a-0")
    twin = traced(task, {})
    assert (twin.uid, twin.requests, twin.job.name, hash(twin), repr(twin)) == (
        *(task.uid, task.requests, "a", hash(task), repr(task)),
    )
    assert twin == task
    with pytest.raises(AttributeError):
        twin.priority = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del twin.priority


def test_tasks_share_answers_where_they_agree_in_what_was_read() -> None:
    ssn = session(job("a", tasks=2, task_labels={"x": "1"}), job("b", task_labels={"x": "1"}), job("c"))
    a0, a1, b, c = (task_of(ssn, name) for name in ("a-0", "a-1", "b-0", "c-0"))
    labels = {"labels": None}
    assert values(a0, labels) == values(a1, labels) == values(b, labels) != values(c, labels)
    own = {"job.uid": None}
    assert values(a0, own) == values(a1, own) != values(b, own)
    whole = {"job.pending": None}
    """What is no plain value stands for the job itself."""
    assert values(a0, whole) == values(a1, whole) == ("default/a",)
