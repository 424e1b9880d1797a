"""Whom a queue refuses is told so in the words of how it stood then, put together when somebody reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice import Plugin, Queue, Session, Task, Verdict, reject
from pumice.engine.fit_error import FitError
from pumice.framework import quota
from pumice.framework.arguments import Arguments
from pumice.framework.placing.queue_refusals import as_it_stands
from pumice.framework.placing.told_later import least_asking
from pumice.framework.session.fit_errors import FitErrors
from pumice.framework.session.refusals import Refusal, Stage, WordedLater
from pumice.testing import cluster, job, queue, session, task_of


def test_a_refusal_is_worded_once_and_only_when_it_is_read() -> None:
    worded: list[str] = []

    def words() -> Refusal:
        worded.append("now")
        return Refusal(Stage.QUEUE, "full", "p", advice="wait", reason="Full")

    refusal = WordedLater(Stage.QUEUE, words)
    assert (refusal.stage, refusal.error, refusal.placed) == (Stage.QUEUE, None, 0)
    assert not worded
    assert (refusal.text, refusal.plugin, refusal.code, refusal.advice) == ("full", "p", "Full", "wait")
    assert (refusal.told, refusal.limits) == ("full", ())
    assert refusal == Refusal(Stage.QUEUE, "full", "p")
    assert worded == ["now"]
    with pytest.raises(AttributeError, match="elsewhere"):
        _ = refusal.elsewhere


class Counts(Plugin):
    """Lets a queue have as many CPUs as it is told to, and says how it stands."""

    name = "counts"
    most = 4000

    def on_session_open(self, ssn: Session) -> None:
        allocatable: Any = self._allocatable
        ssn.add_allocatable_fn(self.name, allocatable, room=lambda q, t: 0, standing=self.standing)

    def _allocatable(self, queue: Queue, task: Task) -> Verdict | None:
        said = self.standing(queue)(task)
        return said() if said is not None else None

    def standing(self, queue: Queue) -> Callable[[Task], Callable[[], Verdict] | None]:
        most = self.most

        def refused(task: Task) -> Callable[[], Verdict] | None:
            return None if task.requests.milli_cpu <= most else lambda: reject(f"at most {most}")

        return refused


def asked(*plugins: Plugin) -> Session:
    ssn = session(cluster("2x8cpu"), queue("q"), job("big", queue="q", cpu=8), job("small", queue="q", cpu=1))
    for plugin in plugins:
        plugin.on_session_open(ssn)
    return ssn


def test_what_is_read_later_is_how_it_was() -> None:
    plugin = Counts(Arguments({}))
    ssn = asked(plugin)
    refusing = as_it_stands(ssn, ssn.queues["q"])
    assert refusing is not None
    said = refusing(task_of(ssn, "big-0"))
    plugin.most = 2000
    assert said is not None
    assert (said.told, said.plugin, said.stage) == ("at most 4000", "counts", Stage.QUEUE)
    assert refusing(task_of(ssn, "small-0")) is None
    assert str(ssn.allocatable(ssn.queues["q"], task_of(ssn, "big-0")).text) == "at most 2000"


def test_a_plugin_that_does_not_say_how_a_queue_stands_has_to_be_asked() -> None:
    ssn = asked(Counts(Arguments({})))
    ssn.add_allocatable_fn("other", lambda queue, task: True, room=lambda queue, task: 9)
    assert as_it_stands(ssn, ssn.queues["q"]) is None


def test_where_nobody_has_a_say_nothing_is_refused() -> None:
    ssn = asked()
    refusing = as_it_stands(ssn, ssn.queues["q"])
    assert refusing is not None
    assert refusing(task_of(ssn, "big-0")) is None


def test_a_plugin_that_fails_when_it_says_how_a_queue_stands_has_to_be_asked_and_is_told_of() -> None:
    class Breaks(Counts):
        name = "breaks"

        def standing(self, queue: Queue) -> Callable[[Task], Callable[[], Verdict] | None]:
            raise ValueError("no")

    ssn = asked(Breaks(Arguments({})))
    assert as_it_stands(ssn, ssn.queues["q"]) is None
    assert "breaks" in str(ssn.errors[0])


def test_a_plugin_that_fails_later_refuses_without_words_or_has_to_be_asked() -> None:
    class Breaks(Counts):
        name = "breaks"

        def standing(self, queue: Queue) -> Callable[[Task], Callable[[], Verdict] | None]:
            def words() -> Verdict:
                raise ValueError("no")

            def refused(task: Task) -> Callable[[], Verdict]:
                if task.name == "small-0":
                    raise ValueError("no")
                return words

            return refused

    ssn = asked(Breaks(Arguments({})))
    refusing = as_it_stands(ssn, ssn.queues["q"])
    assert refusing is not None
    said = refusing(task_of(ssn, "big-0"))
    assert said is not None
    assert (said.told, said.plugin) == ("queue q may not take it", "breaks")
    assert refusing(task_of(ssn, "small-0")) is None


amounts = st.fixed_dictionaries({"cpu": st.integers(0, 3), "gpu": st.integers(0, 3)})


@given(st.lists(amounts, min_size=1, max_size=25), st.integers(0, 4), st.integers(0, 4))
def test_who_asks_for_the_least_is_refused_where_everybody_is(asking: list[dict[str, int]], cpu: int, gpu: int) -> None:
    ssn = session(*(job(f"j{n}", cpu=wants["cpu"], gpu=wants["gpu"]) for n, wants in enumerate(asking)))
    tasks = [task_of(ssn, f"j{n}-0") for n in range(len(asking))]
    least = least_asking(tasks)
    assert set(least) <= set(tasks)
    dims = {d for task in tasks for d, _ in task.klass.items}
    limit = dict.fromkeys(dims, 0) | {d: cpu * 1000 if d == 0 else gpu * 1000 for d in dims if d != 1}

    def refused(some: list[Task]) -> bool:
        return not any(quota.fits(limit, {}, task.klass.items) for task in some)

    assert refused(least) == refused(tasks)


def test_what_this_session_found_out_anew_can_be_added_to_and_what_stands_cannot() -> None:
    errors = FitErrors()
    old, new, more = FitError(text="old"), FitError(text="new"), FitError(text="more")
    errors.stand({"a": {"t": old}, "b": {"t": new}}, lambda uid: uid == "b")
    errors.of("a")["u"] = more
    errors.of("b")["u"] = more
    assert errors["a"] == {"u": more}
    assert errors["b"] == {"t": new, "u": more}
    assert errors.of("c") == {}
