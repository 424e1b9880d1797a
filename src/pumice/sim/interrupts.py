"""Ctrl-C and SIGTERM, noticed between two instants: a run that is stopped is stopped whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted:
    """Says whether somebody asked for the end."""

    def __init__(self) -> None:
        self.asked = False

    def _notice(self, number: int, frame: object) -> None:
        if self.asked:  # once more: somebody does not want to wait
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def noticed() -> Iterator[Interrupted]:
    """Within the block a first Ctrl-C (or a SIGTERM that somebody handles) is noted, a second one interrupts."""
    interrupted = Interrupted()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    taken = {n: handler for n, handler in before.items() if callable(handler)}
    for number in taken:
        signal.signal(number, interrupted._notice)
    try:
        yield interrupted
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)
