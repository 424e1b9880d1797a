"""Why a job waits: the answer, as everybody gets it."""

from __future__ import annotations

from typing import Literal

import msgspec

from pumice.answers.standing import Standing
from pumice.answers.when.answer import WhenAnswer
from pumice.framework.explaining.explain import Explanation

Source = Literal["scheduler", "cycle", "manifests", "objects"]
"""Who answered: the running scheduler, a saved cycle, manifests, or what the objects in the cluster say."""


class WhyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits, where it stands, and what would let it start sooner."""

    explanation: Explanation
    now: float
    """When it was asked, in seconds."""
    since: float | None = None
    """When the job was made."""
    standing: Standing | None = None
    """How its queue stands; None where that cannot be seen."""
    when: WhenAnswer | None = None
    """When it will likely start; None where nobody can say."""
    source: Source = "scheduler"
    unseen: list[str] = []
    """What could not be looked at, and why."""
