"""An answer tells nothing of what its reader may not see: random clusters of several tenants, every policy."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_confs import POLICIES, Policy, assembly_of
from law_worlds import WorldDraw, made, worlds
from lawful import lawful

from pumice.answers.questions import QUESTIONS
from pumice.answers.service import Answers
from pumice.answers.visibility import A_NODE, EVERYTHING, FIELDS, OTHERS, Visibility, VisibleNames, for_owner, seen
from pumice.framework.session.runtime import Runtime
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.intents import Note, StatusUpdate
from pumice.scheduler.recording import NextCycle
from pumice.state.cluster import ClusterState
from pumice.testing import Scenario, queue

pytestmark = pytest.mark.law

TENANTS = 3
SECRET = re.compile(r"secret(\d)job|tenant(\d)|nodule\d")


def tenants(world: WorldDraw, tree: bool) -> list[api.AnyObject]:
    """The cluster with names that cannot be mistaken, each job in the namespace of its tenant."""
    found = []
    for obj in made(world, tree=tree).objects:
        text = json.dumps(msgspec.to_builtins(obj))
        text = re.sub(r"\bj(\d)\b", r"secret\1job", text)
        text = re.sub(r"\bn(\d)\b", r"nodule\1", text)
        data = json.loads(text)
        owner = re.search(r"secret(\d)job", data["metadata"]["name"])
        if owner is not None:
            data["metadata"]["namespace"] = f"tenant{int(owner.group(1)) % TENANTS}"
        found.append(api.decode(obj.kind_name, data))
    return found


TEAMS = frozenset(("teama", "teamb"))
EVICTING = ["enqueue, allocate, preempt, reclaim, backfill", "enqueue, easybackfill, preempt", "allocate, gangpreempt"]
UPPER, LOWER = ["priority", "gang", "conformance", "cdp"], ["predicates", "proportion"]


@lawful(60)
@given(st.integers(0, 2**31), st.sampled_from([*EVICTING, "kai"]))
def test_what_is_written_on_an_object_names_nothing_of_other_namespaces(seed: int, actions: str) -> None:
    rng, scenario = random.Random(seed), Scenario(recreate=True)
    for n in range(rng.randint(1, 4)):
        scenario.node(f"node{n}", cpu=rng.choice([2, 4]), gpu=rng.choice([0, 0, 1]))
    for name in ("qa", "qb"):
        scenario.add(queue(name, weight=rng.choice([1, 3]), deserved={"cpu": rng.choice([1, 2, 4])}))
    for n in range(rng.randint(3, 9)):
        team, tasks = rng.choice(sorted(TEAMS)), rng.randint(1, 3)
        scenario.job(
            f"secret-{team}-{n}",
            namespace=team,
            queue=rng.choice(["qa", "qb"]),
            tasks=tasks,
            min_available=rng.choice([1, tasks]),
            cpu=rng.choice([1, 2]),
            priority=rng.choice([1, 5, 10]),
            on=["node0"] if rng.random() < 0.3 else (),
            annotations={"pumice.dev/run-time": rng.choice(["1m", "1h"])},
        )
    given_conf: Any = {"actions": actions.split(", "), "plugins": [UPPER, LOWER]}
    for _ in range(5):
        done = scenario.run(dialect="kai") if actions == "kai" else scenario.run(**given_conf)
        for intent in done.report.intents:
            if isinstance(intent, (Note, StatusUpdate)):
                own = intent.key.partition("/")[0]
                text = json.dumps(msgspec.to_builtins(for_owner(intent, TEAMS)))
                assert not [team for team in TEAMS - {own} if team in text], text
        scenario.advance(rng.choice([1, 30, 200]))


def fields_of(kind: Any, met: set[Any]) -> Iterator[tuple[str, Any]]:
    """(name, type) of every field of an answer, and of all that it is made of."""
    for part in get_args(kind):
        yield from fields_of(part, met)
    if get_origin(kind) is None and kind not in met and isinstance(kind, type):
        met.add(kind)
        if issubclass(kind, msgspec.Struct) or is_dataclass(kind):
            for name, inner in get_type_hints(kind).items():
                yield name, inner
                yield from fields_of(inner, met)


KEYS_AND_TEXTS = {
    *("job", "pod", "beneficiary", "task", "namespace", "queue", "parent", "of"),
    *("text", "detail", "objection", "why", "runs", "unknown"),
    *("evictions", "unblock", "unseen", "assumes", "changes"),
}
"""Fields whose text is looked through for names."""
AMOUNTS = {"tasks", "wants", "lacks", "counts", "holds", "asks", "reasons", "borrowed_by", "lenders", "by_them"}
"""Mappings from statuses, resources, codes or queues."""


def test_every_field_of_every_answer_is_known_to_the_filter() -> None:
    met: set[Any] = set()
    found = {(name, str(kind)) for question in QUESTIONS for name, kind in fields_of(question.answer, met)}
    texts = {name for name, kind in found if "str" in kind}
    assert len(texts) > 30
    assert texts - set(FIELDS) - KEYS_AND_TEXTS - AMOUNTS == set()


def test_a_node_is_hidden_wherever_a_field_is_of_nodes() -> None:
    answer = {"node": "n1", "nodes": {"n1": 2, "n2": 3}, "placed": {"own/p": "n1", "other/p": "n2"}, "example": "n9"}
    names = VisibleNames(frozenset(("own", "other")), frozenset())
    assert seen(answer, Visibility(frozenset(("own",))), names) == {
        "node": A_NODE,
        "nodes": {A_NODE: 5},
        "placed": {"own/p": A_NODE, OTHERS: A_NODE},
        "example": A_NODE,
    }


@pytest.mark.parametrize(
    "text", ["Pod/other/p", "other/p/part", "(other/p)", "other/p.", "'other/p'", "other/p, own/p"]
)
def test_a_name_is_hidden_with_all_that_stands_above_and_below_it(text: str) -> None:
    told = seen({"text": text}, Visibility(frozenset(("own",))), VisibleNames(frozenset(("own", "other"))))["text"]
    assert OTHERS in told
    assert "other/" not in told
    assert ("own/p" in text) == ("own/p" in told)


@lawful(60)
@given(worlds, st.sampled_from(POLICIES))
def test_nothing_of_other_namespaces_nodes_or_queues_is_told(world: WorldDraw, policy: Policy) -> None:
    state = ClusterState()
    state.now = 100.0
    for obj in tenants(world, policy.tree):
        state.apply(Seen(obj))
    desk = Answers(NextCycle(state, assembly_of(policy, None), Runtime()))
    names = desk.names()
    for uid, job in sorted(state.jobs.items()):
        why = desk.why(uid)
        told: Any = seen(why, Visibility(frozenset((job.namespace,))), names)
        text = json.dumps(told)
        for match in SECRET.finditer(text):
            assert not match.group().startswith("nodule"), text
            tenant = int(match.group(2)) if match.group(2) else int(match.group(1)) % TENANTS
            assert f"tenant{tenant}" == job.namespace, text
        assert told["standing"] is None
        assert told["explanation"]["code"] == why.explanation.code
        whole = seen(why, EVERYTHING, names)
        assert whole == msgspec.to_builtins(why)
