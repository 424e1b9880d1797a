"""A what-if, put to an instant of a cluster. Any thread may answer it, at leisure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from pumice.answers.what_if.apart import play_apart
from pumice.answers.what_if.effects import WhatIfAnswer, compared
from pumice.answers.what_if.sides import play
from pumice.answers.what_if.supposition import WhatIf
from pumice.answers.when.learned import Learned
from pumice.answers.why import Source
from pumice.errors import ConfigError, InvalidInput
from pumice.framework.registry import Registry
from pumice.model.api import AnyObject
from pumice.saved.cycle import SavedCycle


@dataclass(frozen=True, slots=True)
class WhatIfQuestion:
    """What is supposed, and all that decides the next cycle at the instant at which it was asked."""

    asked: WhatIf
    instant: SavedCycle
    """But for its objects."""
    objects: Sequence[AnyObject]
    registry: Registry
    learned: Learned | None = None
    source: Source = "scheduler"

    def answer(self, *, apart: bool = True) -> WhatIfAnswer:
        """What would differ; *apart*: decided in a process of its own, in a time that is bounded.

        :raises InvalidInput: what is supposed cannot be.
        :raises PumiceError: nobody answers now.
        """
        begun = time.perf_counter()
        decide = play_apart if apart else play
        try:
            sides = decide(self.instant, self.objects, self.asked, self.registry)
        except ConfigError as exc:
            raise InvalidInput(str(exc)) from exc
        found = compared(sides, self.learned, self.asked.job, self.source)
        return msgspec.structs.replace(found, milliseconds=round((time.perf_counter() - begun) * 1000, 1))
