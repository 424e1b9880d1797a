"""What the Go schedulers take for the shapes, and the floors below which Pumice must not fall.

Volcano and KAI were measured in process on a 2-core machine (Xeon 2.8 GHz, shared), deciding only, in 2026-08. KAI's
figures of allocate, preempt, consolidation-half and reclaim-idle are those that it published (Core Ultra 7 165H); about
100 ms of each are for opening the session. Of its other scale scenarios no figures are known.

A floor is a share of the speed of `BASE`, in CPU, measured in turn within one run (``bench.py --against BASE``): a
speed by itself says as much about the machine as about the code. Beside it each shape stays `VOLCANO_TIMES` times
faster than Volcano. A cycle that `BASE` cannot play, or that is too short to be compared, has a longest time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BASE: Final = "136654c0"
"""The fastest state of the source; its floors leave room for a simpler one."""
VOLCANO_TIMES: Final = 15


@dataclass(frozen=True, slots=True)
class Figure:
    """One shape: the figures of others, and its floor."""

    volcano: str = "–"
    kai: str = "–"
    best: float | None = None
    """Volcano's figure as a number: tasks per second, or seconds if a cycle counts."""
    share: float | None = None
    """The least share of the speed of `BASE`."""
    longest: float | None = None
    """The longest time of a cycle, in seconds."""


FIGURES: Final[dict[str, Figure]] = {
    "singles": Figure("129 /s", "94 /s", 129, 0.3),
    "gangs": Figure("135 /s", "105 /s", 135, 0.3),
    "big": Figure("103 /s", best=103, share=0.3),
    "many-classes": Figure("104-176 /s", best=104, share=0.25),
    "affinity": Figure("51 /s", best=51, share=0.3),
    "topology": Figure("4.6 /s", best=4.6, share=0.3),
    "steady": Figure("3.54 s", "5.6 s", 3.54, 0.3),
    "fragmented-gangs": Figure("1.98 s", "> 90 s", 1.98, 0.3),
    "fragmented-singles": Figure("52 /s", "26 /s", 52, 0.3),
    "reclaim": Figure("2.2 s", "27.8 s", 2.2, 0.9),
    "preempt": Figure("4.9 s", best=4.9, share=0.9),
    "own-policy": Figure(share=0.3),
    "small-cycle": Figure(longest=0.0003),
    "kai-idle": Figure(longest=0.006),
    "guide-policy": Figure(longest=1.0),  # 300 single tasks
    "guide-policy-scoped": Figure(longest=2.0),  # 2,000 single tasks
    "kai-allocate": Figure(kai="183 ms"),
    "kai-reclaim-idle": Figure(kai="105 ms"),
    "kai-preempt": Figure(kai="111 ms"),
    "kai-consolidation-half": Figure(kai="188 ms"),
    "kai-reclaim": Figure(kai="27.8 s"),
}
"""By shape; those that are not listed have neither figures of others nor a floor."""
