"""A bind that the cluster refuses for good is tried again seldom, and its job says why, in both dialects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from pumice.config import load
from pumice.framework.registry import default_registry
from pumice.kube.statuses import PodConditions
from pumice.model.api import Condition, Pod
from pumice.model.events import BindFailed, ClusterEvent, Seen
from pumice.model.intents import Bind, Note, StatusUpdate
from pumice.saved import cycle as saved
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.loop import Loop
from pumice.testing import job, node, queue

VOLCANO = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}]
"""
KAI = "{dialect: kai, actions: allocate, tiers: [{plugins: [{name: predicates}, {name: nodeplacement}]}]}"
NO = 'POST /api/v1/namespaces/default/pods/{0}/binding: 403 pods "{0}" is forbidden: webhook "deny" said no'


@dataclass
class Refusing:
    """A cluster in which binds of one job are refused, and all others done."""

    refuses: str
    time: float = 1_700_000_000.0
    refused: bool = True
    events: list[ClusterEvent] = field(default_factory=list)
    intents: list[Any] = field(default_factory=list)
    tries: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.time

    def drain(self) -> list[ClusterEvent]:
        events, self.events = self.events, []
        return events

    def submit(self, intents: Sequence[Any]) -> None:
        self.intents += intents
        for intent in intents:
            if isinstance(intent, Bind) and intent.job == self.refuses:
                text = NO.format(intent.pod.partition("/")[2])
                self.events.append(BindFailed(intent.pod, intent.uid, text, intent.node, self.refused))
                self.tries.append(self.time)


def opened(conf: str, refused: bool = True) -> tuple[Refusing, Loop]:
    objects = [
        queue("default"),
        *(node(f"n{n}", cpu=16) for n in range(2)),
        *job("gang", tasks=20, cpu=1),
        *job("other", tasks=1, cpu=1),
    ]
    backend = Refusing("default/gang", refused=refused, events=[Seen(obj) for obj in objects])
    assembly = assemble(load(conf, catalogue_of(default_registry())).conf, default_registry())
    return backend, Loop(backend, backend, assembly, backend)


def with_condition(pod: Pod, update: StatusUpdate) -> Pod:
    """The pod as the cluster shows it when an update was written."""
    (told,) = update.status["conditions"]
    shown = Condition(told["type"], told["status"], told["reason"], told["message"])
    return structs.replace(pod, status=structs.replace(pod.status, conditions=(shown,)))


@pytest.mark.parametrize("conf", [VOLCANO, KAI], ids=["volcano", "kai"])
def test_a_gang_whose_binds_are_refused_pauses_and_says_why(conf: str) -> None:
    backend, loop = opened(conf)
    conditions, told = PodConditions(), []
    for _ in range(600):
        report = loop.step()
        assert report is not None
        fresh = conditions.updates(report, loop.state)
        backend.events += [Seen(with_condition(loop.state.task_by_key[u.key].pod, u)) for u in fresh]
        told += fresh
        backend.time += 1.0
    tries = sorted(set(backend.tries))
    pauses = [after - before for before, after in pairwise(tries)]
    expected = [2.0, 4, 8, 16, 32, *[60] * (len(pauses) - 5)]
    assert all(least <= pause <= least + 2 for pause, least in zip(pauses, expected, strict=True)), pauses
    assert len(backend.tries) <= 20 * 14
    assert [i.pod for i in backend.intents if isinstance(i, Bind) and i.job == "default/other"] == ["default/other-0"]

    notes = [i for i in backend.intents if isinstance(i, Note) and i.key == "default/gang"]
    assert {(n.reason, n.message) for n in notes} == {
        ("FailedBinding", f"the bind of default/gang-0 (and 19 more) was refused: {NO.format('gang-0')}")
    }
    pods = {u.key: u.status["conditions"][0] for u in told if isinstance(u, StatusUpdate)}
    assert len(pods) == 20
    assert {c["reason"] for c in pods.values()} == {"BindRefused"}
    assert all(NO.format("gang-0") in c["message"] for c in pods.values())
    if conf is VOLCANO:
        groups = [i.status.get("conditions", ()) for i in backend.intents if isinstance(i, StatusUpdate)]
        said = [c for cs in groups for c in cs if c["type"] == "Unschedulable" and c["status"] == "True"]
        assert any(NO.format("gang-0") in c["message"] for c in said)
    assert len(told) + len([i for i in backend.intents if isinstance(i, StatusUpdate)]) < 60


def test_a_bind_that_failed_for_the_moment_is_tried_again_at_once() -> None:
    backend, loop = opened(VOLCANO, refused=False)
    for _ in range(5):
        loop.step()
        backend.time += 1.0
    assert len(set(backend.tries)) == 5


def test_a_pause_is_over_when_the_bind_is_taken_and_starts_anew_with_the_next() -> None:
    backend, loop = opened(VOLCANO)
    for _ in range(20):
        loop.step()
        backend.time += 1.0
    backend.refuses = ""
    for _ in range(60):
        loop.step()
        backend.time += 1.0
    bound = {i.uid: i.node for i in backend.intents if isinstance(i, Bind)}
    for uid, on in bound.items():
        backend.events += [Seen(obj) for obj in job("gang", tasks=20, cpu=1, on=on)[1:] if obj.key == uid]
    loop.step()
    assert loop.state.refused == {}
    assert loop.state.stopped == {}


def test_a_saved_cycle_knows_which_jobs_pause() -> None:
    backend, loop = opened(VOLCANO)
    for _ in range(4):
        loop.step()
        backend.time += 1.0
    loop.take_in()
    kept = saved.refused_of(loop.state)
    assert len(kept) == 20
    assert all(no.bind and no.beneficiary == "default/gang" for no in kept.values())
