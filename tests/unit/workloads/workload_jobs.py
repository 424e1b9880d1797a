"""Jobs for the tests of rules, from a few words."""

from __future__ import annotations

from typing import Any

import msgspec

from pumice.workloads.lifecycle import JobSeen, PodSeen
from pumice.workloads.vcjob import VcJobSpec, answers_of, minimum_of, roles_of


def spec_of(tasks: dict[str, int] | list[dict[str, Any]], **fields: Any) -> VcJobSpec:
    """The spec of a job: tasks with their replicas, or as a manifest writes them."""
    listed = [{"name": name, "replicas": n} for name, n in tasks.items()] if isinstance(tasks, dict) else tasks
    return msgspec.convert({"tasks": listed, **fields}, VcJobSpec)


def pods_of(text: str, version: int = 0) -> list[PodSeen]:
    """``w0 Running, w1 Failed:3, w2 Running leaving``: role and index, phase with an exit code, and more words."""
    found = []
    for part in filter(None, text.split(", ")):
        name, phase, *words = part.split()
        role, index = name.rstrip("0123456789"), int(name[len(name.rstrip("0123456789")) :])
        phase, _, code = phase.partition(":")
        restarts = next((int(w[1:]) for w in words if w.startswith("x")), 0)
        made = next((int(w[1:]) for w in words if w.startswith("v")), version)
        leaving = "leaving" in words
        found.append(
            PodSeen(f"j-{role}-{index}", f"uid-{name}", role, index, made, phase, leaving, int(code or 0), restarts)
        )
    return found


def seen(spec: VcJobSpec, pods: str, *, group: str = "Running", counted: bool = True, **fields: Any) -> JobSeen:
    """A job whose status counted the pods that are there, and those in *lost* by task."""
    roles = roles_of(spec)
    listed = pods_of(pods, fields.get("version", 0))
    lost: dict[str, int] = fields.pop("lost", {})
    counts = {r.name: sum(p.role == r.name for p in listed) + lost.get(r.name, 0) for r in roles} if counted else {}
    return JobSeen(
        roles=roles,
        minimum=minimum_of(spec, roles),
        pods=listed,
        answers=answers_of(spec.policies),
        min_success=spec.min_success,
        max_retry=spec.max_retry,
        counted=counts,
        group_phase=group,
        **{"phase": "Running", **fields},
    )
