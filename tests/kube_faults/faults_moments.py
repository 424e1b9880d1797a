"""Moments at which things go wrong, drawn from one seed; and a scheduler that is started again whenever it ends."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

from kube_world import Scheduler, World

SEED = int(os.environ.get("PUMICE_FAULTS_SEED", "1"))
STEADY = ("--leader-elect-lease-duration=10s", "--leader-elect-renew-deadline=7s", "--leader-elect-retry-period=1s")
"""Where one replica must lead until something happens: on a busy machine it would lose a shorter lease by itself."""
SHORT = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms")
"""Replicas that take over soon, so that tests need not wait."""
MOST = 10
"""A scheduler that ends more often than this is not started again: something else is wrong."""


def chance(name: str) -> random.Random:
    """A source of chance for one test, always the same for one seed."""
    return random.Random(f"{SEED}/{name}")


def moments(name: str, count: int, last: int) -> list[int]:
    """Some numbers from 0 to *last*, all different, in order."""
    return sorted(chance(name).sample(range(last + 1), count))


class Kept:
    """A process that is started again when it ends, as a Deployment does. Use it with ``with``."""

    def __init__(
        self,
        world: World,
        *flags: str,
        kubeconfig: Path | None = None,
        start: Callable[..., Scheduler] | None = None,
    ) -> None:
        """The scheduler, or what *start* gives."""
        self._world, self._flags, self._kubeconfig = world, flags, kubeconfig
        self._begin = start or world.scheduler
        self._mine: list[Scheduler] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="kept")
        self.current = self._start()
        self.starts = 1
        """How often it was started."""

    def __enter__(self) -> Kept:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(30)

    @property
    def led(self) -> int:
        """How many of them led so far."""
        return sum(" leads " in process.log for process in self._mine)

    def _start(self) -> Scheduler:
        made = self._begin(*self._flags, kubeconfig=self._kubeconfig)
        self._mine.append(made)
        return made

    def _keep(self) -> None:
        while not self._ending.wait(0.1) and self.starts < MOST:
            if self.current.code is not None:
                self.current = self._start()
                self.starts += 1
