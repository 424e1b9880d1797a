"""What the Go schedulers reach on the shapes, and what is expected here.

Volcano and KAI were measured in process on a 2-core machine (Xeon 2.8 GHz, shared), deciding only, in 2026-08. KAI's
figures of allocate, preempt, consolidation-half and reclaim-idle are those that it published (Core Ultra 7 165H); about
100 ms of each are for opening the session. Of its other scale scenarios no figures are known.
Where KAI has a figure, the floor of a ``kai-`` shape is a twentieth of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Figure:
    """One shape: figures of others as text, ours as numbers (tasks per second, or seconds where a cycle counts)."""

    volcano: str
    kai: str
    floor: float
    reach: float


FIGURES: Final[dict[str, Figure]] = {
    "singles": Figure("129 /s", "94 /s", 8_000, 13_000),
    "gangs": Figure("135 /s", "105 /s", 10_000, 40_000),
    "big": Figure("103 /s", "–", 10_000, 30_000),
    "many-classes": Figure("104-176 /s", "–", 8_000, 8_000),
    "affinity": Figure("51 /s", "–", 1_000, 5_000),
    "topology": Figure("4.6 /s", "–", 3_000, 10_000),
    "steady": Figure("3.54 s", "5.6 s", 0.100, 0.020),
    "fragmented-gangs": Figure("1.98 s", "> 90 s", 0.5, 0.1),
    "fragmented-singles": Figure("52 /s", "26 /s", 50_000, 50_000),
    "reclaim": Figure("2.2 s", "27.8 s", 0.150, 0.150),
    "preempt": Figure("4.9 s", "–", 0.200, 0.200),
    "kai-allocate": Figure("–", "183 ms", 0.00915, 0.0045),
    "kai-reclaim-idle": Figure("–", "105 ms", 0.00525, 0.0025),
    "kai-preempt": Figure("–", "111 ms", 0.00555, 0.0025),
    "kai-consolidation-half": Figure("–", "188 ms", 0.0094, 0.0045),
    "kai-fill": Figure("–", "–", 5.0, 1.0),
    "kai-fill-beside": Figure("–", "–", 5.0, 1.0),
    "kai-topology": Figure("–", "–", 0.5, 0.1),
    "kai-topology-anywhere": Figure("–", "–", 0.5, 0.1),
    "kai-reclaim": Figure("–", "27.8 s", 1.39, 0.7),
    "kai-reclaim-in-vain": Figure("–", "–", 0.5, 0.2),
    "kai-reclaim-half": Figure("–", "–", 4.0, 1.0),
    "kai-reclaim-last": Figure("–", "–", 0.5, 0.1),
    "kai-reclaim-singles": Figure("–", "–", 30.0, 10.0),
    "kai-reclaim-gangs": Figure("–", "–", 20.0, 2.0),
    "kai-reclaim-full": Figure("–", "–", 2.0, 0.5),
    "kai-consolidation": Figure("–", "–", 0.5, 0.2),
    "own-policy": Figure("–", "–", 8_000, 10_000),
    "guide-policy": Figure("–", "–", 300, 600),
    "guide-policy-scoped": Figure("–", "–", 1_000, 5_000),
    "backlog": Figure("–", "–", 0.050, 0.010),
    "small-cycle": Figure("–", "–", 0.00015, 0.0001),
}
"""By shape. own-policy is measured against gangs of the same run (0.8 of it, all of it); its numbers here are the
least that follows from the floor of gangs."""
