"""Who objects to a class, and for what: followed along the rows that change, it is what counting anew says."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pumice.engine.fit_error import FitError, ReasonCounts
from pumice.engine.objection_count import ObjectionCount
from pumice.engine.scope import Scope
from pumice.engine.views import same_class
from pumice.framework.session.session import Session
from pumice.model.events import Gone, Seen
from pumice.model.reason import reason_id
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.testing import cluster, job, node, session, task_of

SHUT = reason_id("p", "shut")
CROWDED = reason_id("p", "crowded")
S = TaskStatus


def told(ssn: Session, task: Task, *, anew: bool = False) -> tuple[ReasonCounts, int, str]:
    """What is said of a task's class; *anew*: without what was counted before."""
    view = ssn.search.evaluator.view(task)
    if anew:
        view.counted = None
    error = ssn.search.chooser.why_not.error(task, view)
    return error.counts, error.nodes, str(error)


def crowd(seed: int) -> tuple[random.Random, Session]:
    """Forty nodes to some of which a filter objects for good, to others once they are crowded."""
    rng = random.Random(seed)
    nodes = [node(f"n{n:02d}", cpu=rng.randrange(1, 9), memory=f"{rng.randrange(1, 9)}Gi") for n in range(40)]
    others = [job(f"o{n}", cpu=rng.randrange(1, 4), memory=f"{rng.randrange(1, 5)}Gi") for n in range(30)]
    ssn = session(*nodes, *others, job("asked", cpu=4, memory="6Gi"))
    ssn.add_batch_predicate_fn(
        "p",
        lambda task, rows: np.array([SHUT if name < "n05" else 0 for name in rows.names]),
        scope=Scope.STATIC,
        key=same_class,
    )
    ssn.add_batch_predicate_fn(
        "p", lambda task, rows: np.where(rows.pod_count > 1, CROWDED, 0), scope=Scope.NODE, key=same_class, also=True
    )
    return rng, ssn


def stir(rng: random.Random, ssn: Session) -> None:
    """Let some tasks come, leave or go."""
    state = ssn.state
    for _ in range(rng.randrange(1, 4)):
        task = task_of(ssn, f"o{rng.randrange(30)}-0")
        if task.node is None:
            state.set_status(task, S.ALLOCATED, rng.choice(list(state.nodes.values())))
        elif task.status is S.ALLOCATED and rng.random() < 0.5:
            state.set_status(task, S.RELEASING, task.node)
        else:
            state.set_status(task, S.PENDING, None)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_followed_is_what_counting_anew_says(seed: int) -> None:
    rng, ssn = crowd(seed)
    asked, followed = task_of(ssn, "asked-0"), 0
    for _ in range(120):
        stir(rng, ssn)
        before = ssn.search.evaluator.view(asked).counted
        said = told(ssn, asked)
        followed += ssn.search.evaluator.view(asked).counted is before is not None
        assert said == told(ssn, asked, anew=True)
        assert told(ssn, asked) == said
    assert followed == 119  # all but the first


def test_what_was_handed_out_stays_as_it_was() -> None:
    ssn = session(cluster("2x4cpu"), job("big", cpu=4), job("small", cpu=1))
    counts, _, _ = told(ssn, task_of(ssn, "big-0"))
    first = dict(counts.items())
    ssn.state.set_status(task_of(ssn, "small-0"), S.ALLOCATED, ssn.nodes["node-0"])
    assert told(ssn, task_of(ssn, "big-0"))[0] != first
    assert counts == first


@pytest.mark.parametrize("change", [Seen(node("new", cpu=16)), Seen(node("node-0", cpu=2)), Gone("Node", "node-1")])
def test_when_a_node_comes_changes_or_goes_it_is_counted_anew(change: Seen | Gone) -> None:
    ssn = session(cluster("3x4cpu"), job("big", cpu=8))
    asked = task_of(ssn, "big-0")
    told(ssn, asked)
    kept = ssn.search.evaluator.view(asked).counted
    assert isinstance(kept, ObjectionCount)
    ssn.state.apply(change)
    assert told(ssn, asked) == told(ssn, asked, anew=True)
    assert ssn.search.evaluator.view(asked).counted is not kept


def test_what_is_asked_anew_for_every_task_is_not_kept() -> None:
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
    assert told(ssn, asked) == told(ssn, asked, anew=True)
    assert told(ssn, asked)[2] == "0/6 nodes are unavailable: 5 Insufficient cpu."


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
