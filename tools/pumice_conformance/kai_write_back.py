"""The objects of a case of KAI as a cluster would have them when a round has been carried out."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pumice.model.keys import LAST_START, RECEIVED_TYPE
from pumice.state.devices import GROUP_LABEL
from pumice_conformance.cases import Case
from pumice_conformance.kai_rounds import Round


def write_back(case: Case, objects: Mapping[str, Any], seen: Round) -> dict[str, list[dict[str, Any]]]:
    """The objects as a cluster would have them after a round."""
    staying = set((case.data.get("rounds") or {}).get("deleteInTest") or ())
    found: dict[str, list[dict[str, Any]]] = copy.deepcopy(dict(objects))
    holding: set[str] = set()
    for pod in found.get("pods") or ():
        meta = pod["metadata"]
        namespace = meta.get("namespace", "default")
        group = f"{namespace}/{(meta.get('annotations') or {}).get('pod-group-name', '')}"
        task = seen.tasks.get(f"{namespace}/{meta['name']}")
        if task is None:
            continue
        match task["status"]:
            case "Binding":
                _bound(pod, task)
            case "Pipelined":
                _pending(pod)
            case "Releasing" if group not in staying:
                _pending(pod)
            case "Releasing":
                meta["deletionTimestamp"] = meta.get("deletionTimestamp") or case.data["environment"]["now"]
                pod["status"]["phase"] = "Running"
        if pod["status"].get("phase") == "Running" and not meta.get("deletionTimestamp"):
            holding.add(group)
    for claim in found.get("resourceClaims") or ():
        meta = claim["metadata"]
        key = f"{meta.get('namespace', 'default')}/{meta['name']}"
        claim["status"] = seen.claims.get(key, claim.get("status") or {})
    for pod_group in found.get("podGroups") or ():
        meta = pod_group["metadata"]
        notes = dict(meta.get("annotations") or {})
        if f"{meta.get('namespace', 'default')}/{meta['name']}" in holding:
            notes[LAST_START] = notes.get(LAST_START) or _minute_before(case)
        else:
            notes.pop(LAST_START, None)
        meta["annotations"] = notes
    return found


def _minute_before(case: Case) -> str:
    return datetime.fromtimestamp(case.now - 60, UTC).isoformat().replace("+00:00", "Z")


def _bound(pod: dict[str, Any], task: Mapping[str, Any]) -> None:
    pod["spec"]["nodeName"] = task["node"]
    pod["status"] = {**pod.get("status", {}), "phase": "Running"}
    meta = pod["metadata"]
    notes = dict(meta.get("annotations") or {})
    shares = "gpu-fraction" in notes or "gpu-memory" in notes
    notes[RECEIVED_TYPE] = "Fraction" if shares else "Regular"
    meta["annotations"] = notes
    groups = list(task.get("gpuGroups") or ()) if shares else []
    labels = _without_groups(meta)
    if len(groups) == 1:
        labels[GROUP_LABEL] = groups[0]
    else:
        labels |= {f"{GROUP_LABEL}/{g}": g for g in groups}
    meta["labels"] = labels


def _pending(pod: dict[str, Any]) -> None:
    pod["spec"].pop("nodeName", None)
    pod["status"] = {"phase": "Pending"}
    meta = pod["metadata"]
    meta.pop("deletionTimestamp", None)
    meta["labels"] = _without_groups(meta)
    notes = dict(meta.get("annotations") or {})
    notes.pop(RECEIVED_TYPE, None)
    meta["annotations"] = notes


def _without_groups(meta: Mapping[str, Any]) -> dict[str, str]:
    return {k: v for k, v in (meta.get("labels") or {}).items() if not k.startswith(GROUP_LABEL)}
