"""Amounts of resources as people read them."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.model.resources import Number

NOTHING = "nothing"
_GIB = 1 << 30


def short(amounts: Mapping[str, Number]) -> str:
    """What a task or queue has, in a few words: ``4 gpu, 16 cpu, 64Gi``; the pod slot is left out."""
    parts = []
    for name, amount in sorted(amounts.items(), key=lambda item: ("/" not in item[0], item[0])):
        if name == "pods" or not amount:
            continue
        if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
            what = "" if name == "memory" else f" {name}"
            parts.append(f"{amount / _GIB:.4g}Gi{what}")
        else:
            parts.append(f"{amount:g} {name.rpartition('/')[2]}")
    return ", ".join(parts) or NOTHING
