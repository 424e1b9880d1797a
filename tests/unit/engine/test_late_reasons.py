"""The reasons for which a class fits nowhere, also if they are read late."""

from __future__ import annotations

import numpy as np

from pumice.engine.diagnosis import FitError
from pumice.engine.scope import Scope
from pumice.framework.session.session import Session
from pumice.model.events import Seen
from pumice.model.reason import reason_id
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.testing import cluster, job, node, session, task_of

SHUT = reason_id("p", "shut")
CROWDED = reason_id("p", "crowded")
S = TaskStatus


def told(ssn: Session, task: Task) -> str:
    """What is said of a task now."""
    return str(ssn.search.chooser.why_not.error(task, ssn.search.evaluator.view(task)))


def test_reasons_that_were_read_stay_as_they_were() -> None:
    ssn = session(cluster("2x4cpu"), job("big", cpu=4), job("small", cpu=1))
    big = task_of(ssn, "big-0")
    error = ssn.search.chooser.why_not.error(big, ssn.search.evaluator.view(big))
    first = dict(error.counts.items())
    ssn.state.set_status(task_of(ssn, "small-0"), S.ALLOCATED, ssn.nodes["node-0"])
    assert told(ssn, big) == "0/2 nodes are unavailable: 1 Insufficient cpu."
    assert error.counts == first


def test_reasons_of_a_filter_that_looks_at_each_task_are_those_of_the_task() -> None:
    ssn = session(cluster("3x4cpu"), job("new", tasks=2, cpu=1))
    refused = {"new-0": SHUT, "new-1": CROWDED}
    ssn.add_batch_predicate_fn("p", lambda task, rows: np.full(len(rows), refused[task.name]), scope=Scope.SESSION)
    for name, text in (("new-0", "shut"), ("new-1", "crowded")):
        found = ssn.search.chooser.choose(task_of(ssn, name))
        assert isinstance(found, FitError)
        assert str(found) == f"0/3 nodes are unavailable: 3 {text}."


def test_who_asks_late_why_a_task_did_not_fit_leaves_nothing_wrong_behind() -> None:
    ssn = session(
        *(node(f"n{n}", cpu=4) for n in range(6)), job("runs", cpu=4, on="n0"), job("a", cpu=4), job("b", cpu=4)
    )
    for n in range(1, 6):
        ssn.state.apply_all(Seen(obj) for obj in job(f"runs{n}", cpu=4, on=f"n{n}"))
    asked, other, room = task_of(ssn, "a-0"), task_of(ssn, "b-0"), ssn.state.nodes["n0"]
    ssn.state.set_status(task_of(ssn, "runs-0"), S.RELEASING, room)
    ssn.state.set_status(other, S.PIPELINED, room)
    error = ssn.search.chooser.choose(asked)
    assert isinstance(error, FitError)
    ssn.state.set_status(other, S.PENDING, None)
    assert "5 Insufficient cpu, 1 had no room when it was asked for" in str(error)
    assert told(ssn, asked) == "0/6 nodes are unavailable: 5 Insufficient cpu."


def test_a_class_that_was_found_to_fit_nowhere_is_told_of_every_node_also_when_one_has_room_by_now() -> None:
    """A promise is taken back when the session is over; the words are read after that."""
    ssn = session(node("n0", cpu=4), node("n1", cpu=2), job("runs", cpu=4, on="n0"), job("a", cpu=4), job("b", cpu=4))
    asked, other, room = task_of(ssn, "a-0"), task_of(ssn, "b-0"), ssn.state.nodes["n0"]
    ssn.state.set_status(task_of(ssn, "runs-0"), S.RELEASING, room)
    ssn.state.set_status(other, S.PIPELINED, room)
    error = ssn.search.chooser.why_not.hopeless(asked)
    assert str(error) == "0/2 nodes are unavailable: 2 Insufficient cpu."
    ssn.state.set_status(other, S.PENDING, None)
    assert str(error) == "0/2 nodes are unavailable: 1 Insufficient cpu, 1 had no room when it was asked for."
