"""The status of a vcjob as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pumice.kube.controllers.objects import BATCH, VcJob
from pumice.model.codes import ReasonCode
from pumice.workloads.lifecycle import PENDING, LifecyclePlan
from pumice.workloads.vcjob import PLUGINS, gaps_of

CONDITIONS = 20
"""So many changes of phase are kept."""


def phase_of(job: VcJob) -> str:
    """The phase of a job; a new one is pending."""
    return (job.status.get("state") or {}).get("phase") or PENDING


def status_of(job: VcJob, plan: LifecyclePlan, minimum: int, now: float) -> dict[str, Any]:
    """The status that follows from a plan. Equal to the one that stands if nothing is news."""
    old = job.status
    counts = plan.counts
    status: dict[str, Any] = {"state": _state(job, plan, now), "minAvailable": minimum}
    numbers = {
        "pending": counts.of("Pending"),
        "running": counts.of("Running"),
        "succeeded": counts.of("Succeeded"),
        "failed": counts.of("Failed"),
        "unknown": counts.of("Unknown"),
        "terminating": counts.leaving,
        "version": plan.version,
        "retryCount": plan.retries,
    }
    status.update({name: number for name, number in numbers.items() if number})
    tasks = {role: {"phase": dict(sorted(by.items()))} for role, by in sorted(counts.phases.items()) if by}
    if tasks:
        status["taskStatusCount"] = tasks
    used = {f"plugin-{name}": name for name in sorted(job.spec.plugins or {}) if name in PLUGINS}
    kept = {**(old.get("controlledResources") or {}), **used}
    if kept:
        status["controlledResources"] = kept
    conditions = old.get("conditions") or []
    if plan.phase != (old.get("state") or {}).get("phase"):
        conditions = [*conditions, {"status": plan.phase, "lastTransitionTime": status["state"]["lastTransitionTime"]}]
    status["conditions"] = conditions[-CONDITIONS:]
    return status


def _state(job: VcJob, plan: LifecyclePlan, now: float) -> dict[str, Any]:
    old = job.status.get("state") or {}
    if old.get("phase") == plan.phase and old.get("reason") != ReasonCode.INVALID_SPEC:
        return dict(old)
    state = {"phase": plan.phase, "lastTransitionTime": _time(now)}
    gaps = gaps_of(job.spec)
    if plan.why:
        state |= {"reason": plan.why.partition(":")[0], "message": plan.why}
    elif gaps:
        state |= {"reason": ReasonCode.UNSUPPORTED, "message": "; ".join(gaps)}
    return state


def refused_status(job: VcJob, wrong: Sequence[str], now: float) -> dict[str, Any]:
    """The status of a job that cannot be run as written; all else stays as it was."""
    old = job.status.get("state") or {}
    state = {"phase": phase_of(job), "reason": ReasonCode.INVALID_SPEC, "message": "; ".join(wrong)}
    same = old.get("reason") == ReasonCode.INVALID_SPEC and "lastTransitionTime" in old
    state["lastTransitionTime"] = old["lastTransitionTime"] if same else _time(now)
    return {**job.status, "state": state}


def status_body(job: VcJob, status: dict[str, Any]) -> dict[str, Any]:
    """What is sent: it counts only if the job is still the one that we looked at."""
    meta = job.metadata
    who = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": meta.resource_version}
    return {"apiVersion": BATCH, "kind": "Job", "metadata": who, "status": status}


def _time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
