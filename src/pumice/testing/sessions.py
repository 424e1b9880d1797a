"""A session built by hand: a few objects, no configuration, one plugin, one question."""

from __future__ import annotations

from pumice.errors import InvalidInput
from pumice.framework.session.session import Session
from pumice.model.events import Seen
from pumice.model.task import Task
from pumice.state.cluster import ClusterState
from pumice.testing.world import Given, flat, with_default_queue


def session(*objects: Given, now: float = 0.0) -> Session:
    """A session on a cluster of these objects, without tiers: every plugin opened on it counts as enabled.

    ::

        ssn = session(cluster("2x8gpu"), job("train", gpu=1))
        ssn.open_plugin(MyPlugin(Arguments({"weight": "5"})))
        ssn.predicate(task_of(ssn, "train-0"), ssn.nodes["node-0"])

    :raises InvalidInput: an object that cannot be used; names it and the rule.
    """
    state = ClusterState()
    state.now = now
    for obj in with_default_queue(flat(objects)):
        state.apply(Seen(obj))
    if state.problems:
        raise InvalidInput("; ".join(f"{kind} {key}: {text}" for (kind, key), text in state.problems.items()))
    return Session(state)


def task_of(ssn: Session, pod: str) -> Task:
    """The task of a pod, by ``namespace/name`` or the bare name in ``default``.

    :raises InvalidInput: there is none; names those that exist.
    """
    key = pod if "/" in pod else f"default/{pod}"
    found = ssn.state.task_by_key.get(key)
    if found is None:
        known = ", ".join(sorted(ssn.state.task_by_key)) or "none"
        raise InvalidInput(f"pod {key!r}: not in this session; there are {known}")
    return found
