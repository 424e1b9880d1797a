"""The confs under which the laws are tested, and what the laws need to know of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of

Entry = str | dict[str, Any]


@dataclass(frozen=True)
class Policy:
    """A conf as the tests name it."""

    name: str
    actions: str
    tiers: tuple[tuple[Entry, ...], ...]
    configurations: tuple[dict[str, Any], ...] = ()

    @property
    def plugins(self) -> frozenset[str]:
        return frozenset(p if isinstance(p, str) else p["name"] for tier in self.tiers for p in tier)

    @property
    def tree(self) -> bool:
        """Do queues hang below each other?"""
        return any(isinstance(p, dict) and p["name"] == "capacity" for tier in self.tiers for p in tier)

    @property
    def shares(self) -> str:
        """The plugin that shares the cluster between queues, or nothing."""
        return next((p for p in ("capacity", "proportion") if p in self.plugins), "")

    def __repr__(self) -> str:
        return f"<{self.name}>"


TREE: dict[str, Any] = {"name": "capacity", "enableHierarchy": True}
UPPER: tuple[Entry, ...] = ("priority", "gang", "conformance")
LOWER: tuple[Entry, ...] = ("overcommit", "drf", "predicates", "proportion", "nodeorder")
_CAP: tuple[Entry, ...] = ("predicates", "nodeorder")

POLICIES: tuple[Policy, ...] = (
    Policy("default", "enqueue, allocate, backfill", (UPPER, LOWER)),
    Policy("plain", "allocate, backfill", (("priority", "gang", "predicates", "binpack"),)),
    Policy("plain preempt", "allocate, backfill, preempt", (("priority", "gang", "predicates", "nodeorder"),)),
    Policy(
        "helm",
        "enqueue, allocate, preempt, backfill",
        (
            ("priority", {"name": "gang", "enablePreemptable": False}, "conformance"),
            (
                "overcommit",
                {"name": "drf", "enablePreemptable": False},
                "predicates",
                "proportion",
                "nodeorder",
                "binpack",
            ),
        ),
    ),
    Policy("proportion", "enqueue, allocate, preempt, reclaim, backfill", (UPPER, LOWER)),
    Policy("proportion, reclaim first", "enqueue, reclaim, allocate, preempt, backfill", (UPPER, LOWER)),
    Policy("capacity", "enqueue, allocate, backfill, reclaim, preempt", (UPPER, ("capacity", *_CAP))),
    Policy("tree", "enqueue, allocate, reclaim, backfill", (UPPER, (TREE, *_CAP, "gpupack"))),
    Policy("tree, preempt first", "enqueue, preempt, reclaim, allocate", (UPPER, ("sla", TREE, *_CAP, "gpuspread"))),
    Policy(
        "tree, ancestors reclaim",
        "enqueue, allocate, preempt, reclaim",
        (UPPER, ({**TREE, "arguments": {"ancestorReclaimLevel": 1}}, "predicates", "resource-strategy-fit")),
    ),
    Policy("proportion, one tier", "enqueue, allocate, reclaim, preempt, backfill", ((*UPPER, *LOWER),)),
    Policy("capacity, one tier", "enqueue, allocate, reclaim, preempt, backfill", ((*UPPER, "capacity", *_CAP),)),
    Policy("tree, one tier", "enqueue, reclaim, allocate, preempt, backfill", ((*UPPER, TREE, *_CAP),)),
    Policy("gang preempt", "enqueue, allocate, gangpreempt, backfill", (UPPER, ("predicates", "binpack"))),
    Policy("gang reclaim", "enqueue, allocate, gangreclaim, gangpreempt", (UPPER, ("capacity", *_CAP))),
    Policy(
        "nobody shares", "enqueue, allocate, preempt, reclaim, backfill", (("gang", "drf", "predicates", "nodeorder"),)
    ),
    Policy("gangs, nobody shares", "enqueue, allocate, gangreclaim, gangpreempt", (UPPER, ("drf", *_CAP))),
    Policy(
        "dry run",
        "enqueue, allocate, preempt, backfill",
        (UPPER, ("drf", "predicates", "proportion", "nodeorder", "resourcequota", "sjf")),
        ({"name": "preempt", "arguments": {"enableTopologyAwarePreemption": True}},),
    ),
)


_NEAR: tuple[Entry, ...] = ("predicates", "nodeorder", "network-topology-aware")
NEAR_POLICIES: tuple[Policy, ...] = (
    Policy("near", "enqueue, allocate, backfill", (UPPER, ("proportion", *_NEAR))),
    Policy("near, evicting", "enqueue, allocate, preempt, reclaim, backfill", (UPPER, ("capacity", *_NEAR))),
    Policy("near, by gangs", "enqueue, allocate, gangpreempt, gangreclaim, backfill", (UPPER, ("capacity", *_NEAR))),
    Policy(
        "near, gangs first",
        "enqueue, gangreclaim, gangpreempt, allocate",
        ((*UPPER, "capacity", "predicates", "binpack", "network-topology-aware"),),
    ),
)
"""Confs with network-topology-aware."""


def assembly_of(policy: Policy, compat: str | None = None) -> Assembly:
    """The policy made ready."""
    data = {
        "actions": policy.actions,
        "tiers": [{"plugins": [_entry(p) for p in tier]} for tier in policy.tiers],
        "configurations": list(policy.configurations),
    }
    registry = default_registry()
    return assemble(from_data(data, catalogue_of(registry)).conf, registry, compat)


def _entry(plugin: Entry) -> dict[str, Any]:
    return {"name": plugin} if isinstance(plugin, str) else plugin


def first_tier(policy: Policy) -> set[str]:
    """The plugins that decide first, by name; those that were given flags or arguments among them."""
    return {p if isinstance(p, str) else p["name"] for p in policy.tiers[0]}


_ACTIONS = ("enqueue", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim")


@st.composite
def in_any_order(draw: st.DrawFn) -> Policy:
    """A policy whose actions are one that places and any of the others, in any order."""
    policy = draw(st.sampled_from(POLICIES))
    others = draw(st.lists(st.sampled_from(_ACTIONS), max_size=4, unique=True))
    actions = draw(st.permutations([draw(st.sampled_from(["allocate", "easybackfill"])), *others]))
    return replace(policy, name=f"{policy.name}: {', '.join(actions)}", actions=", ".join(actions))
