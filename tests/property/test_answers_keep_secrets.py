"""An answer tells nothing of what its reader may not see: random clusters of several tenants, every policy."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_confs import POLICIES, Policy, assembly_of
from law_worlds import WorldDraw, made, worlds
from lawful import lawful

from pumice.answers.service import Answers
from pumice.answers.visibility import EVERYTHING, Sight, seen
from pumice.framework.session.runtime import Runtime
from pumice.model import api
from pumice.model.events import Seen
from pumice.scheduler.recording import NextCycle
from pumice.state.cluster import ClusterState

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
        told: Any = seen(why, Sight(frozenset((job.namespace,))), names)
        text = json.dumps(told)
        for match in SECRET.finditer(text):
            assert not match.group().startswith("nodule"), text
            tenant = int(match.group(2)) if match.group(2) else int(match.group(1)) % TENANTS
            assert f"tenant{tenant}" == job.namespace, text
        assert told["standing"] is None
        assert told["explanation"]["code"] == why.explanation.code
        whole = seen(why, EVERYTHING, names)
        assert whole == msgspec.to_builtins(why)
