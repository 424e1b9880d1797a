"""Runs one case through the public path and compares what was decided with what was expected."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pumice.config import InvalidConf, from_data
from pumice.errors import PumiceError
from pumice.framework.registry import Registry
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Shard
from pumice.model import api
from pumice.model.events import Seen
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice_conformance import kai
from pumice_conformance.cases import KINDS, Case


class CaseOutcome(Enum):
    """What became of a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    DIFFERS = "differs"


@dataclass(slots=True)
class Result:
    """A case's outcome and what differs."""

    id: str
    outcome: CaseOutcome
    details: list[str] = field(default_factory=list)
    missing: str = ""
    deviations: list[str] | None = None
    """What KAI was seen to do otherwise; None where nobody looked."""


def load_state(case: Case) -> ClusterState:
    """The cluster of a case."""
    state = ClusterState()
    state.now = case.now
    for field_name, kind in KINDS.items():
        for data in case.data.get("objects", {}).get(field_name) or ():
            state.apply(Seen(api.decode(kind, data)))
    return state


def missing_names(case: Case, registry: Registry) -> list[str]:
    """Plugins and actions of the case that do not exist."""
    conf = case.data["conf"]
    actions = [a.strip() for a in str(conf.get("actions", "")).split(",")]
    plugins = [p.get("name") for tier in conf.get("tiers") or () for p in tier.get("plugins") or ()]
    prefix = "kai/" if case.data.get("profile") == "kai" else ""
    missing = [f"action {a}" for a in actions if a and prefix + a not in registry.actions]
    if prefix:
        return missing  # a plugin of KAI that is not there is passed by
    return missing + [f"plugin {p}" for p in plugins if p and registry.get(p) is None]


def prepare(case: Case, registry: Registry) -> Assembly:
    """The configuration of a case made ready."""
    loaded = from_data(case.data["conf"], catalogue_of(registry), source=case.id)
    return assemble(loaded.conf, registry, "volcano" if case.data.get("profile") == "volcano" else None)


def run(case: Case, registry: Registry, *, skip_missing: bool = False) -> Result:
    """Run one case."""
    if case.error:
        return Result(case.id, CaseOutcome.FAILED, [case.error])
    missing = missing_names(case, registry)
    if missing and skip_missing:
        return Result(case.id, CaseOutcome.SKIPPED, missing=", ".join(sorted(set(missing))))
    if case.data.get("profile") == "kai":
        return _run_kai(case, registry)
    try:
        report, problems = decide(case, registry)
    except (InvalidConf, PumiceError) as exc:
        return Result(case.id, CaseOutcome.FAILED, [str(exc)])
    details = problems + compare(case.data["expect"], report, case)
    return Result(case.id, CaseOutcome.FAILED if details else CaseOutcome.PASSED, details)


def _run_kai(case: Case, registry: Registry) -> Result:
    try:
        played = kai.play(case, registry)
    except PumiceError as exc:
        return Result(case.id, CaseOutcome.FAILED, [str(exc)])
    outcome = CaseOutcome.FAILED if played.failures else CaseOutcome.PASSED
    seen = case.data.get("observed")
    return Result(case.id, outcome, played.failures, deviations=played.deviations if seen else None)


def decide(case: Case, registry: Registry) -> tuple[CycleReport, list[str]]:
    """One cycle of a case: its report, and what went wrong beside the decisions."""
    state = load_state(case)
    environment = case.data.get("environment") or {}
    shard = environment.get("shard")
    report = run_cycle(
        state,
        prepare(case, registry),
        Runtime(),
        shard=Shard(shard.get("mode") == "hard", frozenset(shard.get("nodes") or ()))
        if shard and shard.get("mode") in ("hard", "soft")
        else None,
        environment={"node_usage": environment.get("nodeUsage") or {}, "usage_time": case.now},
        details=True,
    )
    return report, [f"plugin error: {e}" for e in report.errors] + [f"invariant: {v}" for v in violations(state)]


def compare(expect: dict[str, Any], report: CycleReport, case: Case) -> list[str]:
    """Every expectation that does not hold, as text."""
    out: list[str] = []

    def check(name: str, got: Any, want: Any) -> None:
        if got != want:
            out.append(f"{name}: expected {want}, got {got}")

    for name, want in expect.items():
        match name:
            case "binds":
                check(name, report.binds, want)
            case "bindCount":
                check(name, len(report.binds), want)
            case "boundPods":
                check(name, sorted(report.binds), sorted(want))
            case "evictions":
                check(name, sorted(report.evictions), sorted(want))
            case "evictionCount":
                check(name, len(report.evictions), want)
            case "pipelined":
                for group, nodes in want.items():
                    got = sorted(set(report.pipelined.get(group, {}).values()))
                    if not got or not set(got) <= set(nodes):
                        out.append(f"pipelined {group}: expected on {nodes}, got {got}")
            case "podGroupPhases":
                check(name, {g: report.phases.get(g) for g in want}, want)
            case "taskStatusCounts":
                for group, counts in want.items():
                    have = report.statuses.get(group, {})
                    check(f"{name} {group}", {s: have.get(s, 0) for s in counts}, counts)
            case "bindCountsByHyperNode":
                check(name, _by_hyper_node(report, case), want)
    return out


def _by_hyper_node(report: CycleReport, case: Case) -> dict[str, int]:
    counts: dict[str, int] = {}
    for hyper in case.data["objects"].get("hyperNodes") or ():
        members = {
            m["selector"]["exactMatch"]["name"]
            for m in hyper["spec"].get("members") or ()
            if m.get("type") == "Node" and "exactMatch" in m.get("selector", {})
        }
        n = sum(1 for node in report.binds.values() if node in members)
        if n:
            counts[hyper["metadata"]["name"]] = n
    return counts
