"""A round of a case of KAI beside what is expected of it, and beside what KAI did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pumice.model import quantity
from pumice.state.devices import GROUP_LABEL
from pumice_conformance.cases import Case
from pumice_conformance.kai_rounds import Round


def mismatches(expect: Mapping[str, Any], seen: Round) -> list[str]:
    """What of tasks, jobs and nodes is not as expected."""
    out = []
    for key, want in (expect.get("tasks") or {}).items():
        have = seen.tasks.get(key)
        if have is None:
            out.append(f"task {key}: expected {want}, it does not exist")
            continue
        there = "node" in want and want["status"] != "Pending"
        if have["status"] != want["status"] or (there and have.get("node") != want["node"]):
            out.append(f"task {key}: expected {_brief(want)}, got {_brief(have)}")
        elif "numaZones" in want and want["numaZones"] != have.get("numaZones", []):
            out.append(f"task {key}: expected NUMA zones {want['numaZones']}, got {have.get('numaZones', [])}")
    for key, text in (expect.get("jobErrors") or {}).items():
        if seen.errors.get(key, "") != text:
            out.append(f"job {key}: expected {text!r}, got {seen.errors.get(key, '')!r}")
    for name, amounts in (expect.get("nodes") or {}).items():
        for what, value in amounts.items():
            if what in ("idleGpus", "releasingGpus") and abs(seen.nodes[name][what] - value) > 1e-6:
                out.append(f"node {name}: expected {what} {value:g}, got {seen.nodes[name][what]:g}")
        for zone, wanted in (amounts.get("numaZonesAvailable") or {}).items():
            left = dict(enumerate(seen.zones.get(name, ()))).get(int(zone), {})
            if any(left.get(what) != quantity.milli(text) for what, text in wanted.items()):
                out.append(f"node {name}: expected {wanted} available in NUMA zone {zone}, got {left} thousandths")
    return out


def _brief(task: Mapping[str, Any]) -> str:
    return f"{task['status']}{' on ' + task['node'] if task.get('node') else ''}"


def too_many_calls(expect: Mapping[str, Any], seen: Round, number: int) -> list[str]:
    """Of what more was done in a round than expected."""
    most = expect.get("maxCalls") or {}
    return [
        f"round {number}: {len(seen.calls[kind])} calls of {kind}, at most {n} expected"
        for kind, n in most.items()
        if len(seen.calls[kind]) > n
    ]


class GroupNames:
    """KAI's placeholders for GPUs shared anew -> groups here, which are of one node each, over all rounds of a case."""

    def __init__(self, case: Case) -> None:
        self._known: dict[str, str] = {}
        self._given = {
            value
            for pod in (case.data.get("objects") or {}).get("pods") or ()
            for key, value in (pod["metadata"].get("labels") or {}).items()
            if key == GROUP_LABEL or key.startswith(f"{GROUP_LABEL}/")
        }

    def agree(self, want: list[str], have: list[str]) -> bool:
        """Can the names mean the same GPUs?"""
        if len(want) != len(have):
            return False
        fixed = sorted(w for w in want if not w.startswith("new-"))
        mine = sorted(h for h in have if h in self._given)
        if fixed != mine:
            return False
        fresh = [w for w in want if w.startswith("new-")]
        rest = [h for h in have if h not in self._given]
        for w in [w for w in fresh if w in self._known]:
            if self._known[w] not in rest:
                return False
            rest.remove(self._known[w])
        for w in [w for w in fresh if w not in self._known]:
            free = next((r for r in rest if r not in self._known.values()), None)
            if free is None:
                return False
            rest.remove(free)
            self._known[w] = free
        return True


def deviations(observed: Mapping[str, Any], seen: Round, groups: GroupNames) -> list[str]:
    """What KAI did otherwise in a round."""
    out = []
    for key, want in (observed.get("tasks") or {}).items():
        have = seen.tasks.get(key, {"status": "missing"})
        if have["status"] != want["status"] or want.get("node", have.get("node")) != have.get("node"):
            out.append(f"task {key}: KAI {_brief(want)}, here {_brief(have)}")
        elif "gpuGroups" in want and not groups.agree(list(want["gpuGroups"]), list(have.get("gpuGroups", ()))):
            out.append(f"task {key}: KAI shares {want['gpuGroups']}, here {have.get('gpuGroups')}")
        elif want.get("numaZones", []) != have.get("numaZones", []):
            out.append(f"task {key}: KAI uses NUMA zones {want.get('numaZones', [])}, here {have.get('numaZones', [])}")
    for name, share in (observed.get("fairShare") or {}).items():
        mine = seen.fair_share.get(name, {})
        for what, value in share.items():
            share_here = mine.get(what, 0.0)
            if value >= 1:
                share_here = math.floor(share_here + 1e-6)  # as the cases write shares down
            if abs(share_here - value) > max(1e-6 * abs(value), 1e-6):
                out.append(f"queue {name}: KAI's fair share of {what} {value:g}, here {mine.get(what, 0.0):g}")
    for kind, pods in (observed.get("calls") or {}).items():
        if sorted(set(pods)) != sorted(set(seen.calls[kind])):
            out.append(f"calls of {kind}: KAI {sorted(set(pods))}, here {sorted(set(seen.calls[kind]))}")
    for name, amounts in (observed.get("nodes") or {}).items():
        for what in ("idleGpus", "releasingGpus"):
            if what in amounts and abs(seen.nodes[name][what] - amounts[what]) > 1e-6:
                out.append(f"node {name}: KAI {what} {amounts[what]:g}, here {seen.nodes[name][what]:g}")
    return out
