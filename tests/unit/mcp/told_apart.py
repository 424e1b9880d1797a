"""Calls that tests have done in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

from pumice.errors import PumiceError
from pumice.sim.study.running import Played


def told_of_itself(_: bytes, where: str) -> Played:
    """Tries to write a file, and says what came of it and which credentials it sees."""
    try:
        Path(where).write_text("here")
        said = ["written"]
    except OSError:
        said = ["refused"]
    raise PumiceError(" ".join([*said, *sorted(name for name in os.environ if "KUBE" in name or "TOKEN" in name)]))


def never_ends(_: bytes) -> Played:
    """Goes on and on."""
    while True:
        pass
