"""Forecasts that are kept: one play says when everybody starts who waits, and answers whoever asks for a while."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from pumice.answers.when import ranges
from pumice.answers.when.answer import WhenAnswer
from pumice.answers.when.forward import Scene
from pumice.answers.when.learned import Learned

log = logging.getLogger("pumice.when")

FRESH: Final = 10.0
"""Seconds for which a forecast is as good as a new one."""
KEPT: Final = 60.0
"""Seconds for which it is given at all, while a new one is made beside."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """When everybody who waited at one instant starts."""

    now: float
    said: Mapping[str, WhenAnswer]

    def of(self, job: str, now: float) -> WhenAnswer:
        """What it says of a job, for somebody who asks later."""
        said, age = self.said[job], max(now - self.now, 0.0)

        def left(seconds: float | None) -> float | None:
            return None if seconds is None else max(seconds - age, 0.0)

        if not age:
            return said
        assumes = [*said.assumes, f"what runs and waits is as it was {age:.0f} s ago"]
        low, likely, high = left(said.low), left(said.likely), left(said.high)
        return msgspec.structs.replace(said, now=now, age=age, low=low, likely=likely, high=high, assumes=assumes)


class Forecasts:
    """The last forecast of one state. Who owns the state asks what there is, any thread plays.

    One that is older than FRESH is still given until it is older than KEPT, and whoever asked brings the scene of which
    the next one is made. So who asks again and again waits for a play only at first.
    """

    def __init__(self) -> None:
        self._last: Forecast | None = None
        self._one = threading.Lock()
        """Of those who play one at a time: who waits for it finds what the other made."""
        self._refreshing: threading.Thread | None = None

    def last(self, job: str, now: float) -> tuple[Forecast | None, bool]:
        """What is to be told of a job, if anything; and whether a new scene is wanted."""
        last = self._last
        if last is None or job not in last.said or not 0.0 <= now - last.now <= KEPT:
            return None, True
        busy = self._refreshing is not None and self._refreshing.is_alive()
        return last, now - last.now > FRESH and not busy

    def play(self, scene: Scene, learned: Learned | None, job: str = "") -> Forecast:
        """Everybody of a scene, played; or what was made meanwhile of one that is not older, and says of *job*."""
        with self._one:
            last = self._last
            if last is not None and last.now >= scene.now and job in last.said:
                return last
            made = self._last = Forecast(scene.now, ranges.when_all(scene, learned))
            return made

    def refresh(self, scene: Scene, learned: Learned | None) -> None:
        """Play on a thread of its own; nobody waits for it."""

        def work() -> None:
            try:
                self.play(scene, learned)
            except Exception:
                log.exception("when: could not play forward; the last forecast is told while it is young")

        self._refreshing = threading.Thread(target=work, name="forecast", daemon=True)
        self._refreshing.start()
