"""What the past says, for whoever asks: read from a folder, and heard from a running scheduler."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue

from pumice.answers.when.listening import Listener
from pumice.answers.when.past import Past, PastJob
from pumice.errors import InvalidInput
from pumice.history.files import Folder, Read
from pumice.history.lines import Line

log = logging.getLogger("pumice.when")

TESTED = 400
"""Past submissions of a history that are predicted again, at most, to see how predictions come out."""
FILES = 8
"""The newest files of a history that are read; each tells at its beginning all that was there."""
EVERY = 60.0
"""Seconds between two submissions that a running scheduler predicts, at least."""


class Learned:
    """Run times and errors. Whoever uses it holds its lock."""

    def __init__(self, every: float = EVERY) -> None:
        self.lock = threading.Lock()
        self.every = every
        self._next = -1e18
        self.past = Past(self._wants)
        self._listener = Listener(self.past)

    def hear(self, lines: Iterable[Line]) -> None:
        """Something happened."""
        with self.lock:
            for line in lines:
                self._listener.hear(line)

    def _wants(self, job: PastJob) -> bool:
        """Whether the start of a job that came just now is predicted: one in a while."""
        if self.past.now < self._next:
            return False
        self._next = self.past.now + self.every
        return True


def learn(path: Path) -> Learned:
    """What a history says.

    :raises InvalidInput: there is none.
    """
    learned = Learned()
    hear_history(Read(path), learned)
    return learned


def hear_history(read: Read, learned: Learned, part: int = 500) -> None:
    """Hear the newest files of a history; the lock is given back between parts.

    :raises InvalidInput: there is nothing in it.
    """
    read.files = read.files[-FILES:]
    lines = iter(read)
    begins = ends = next(lines).at
    for line in lines:
        ends = line.at
    learned.every = max((ends - begins) / TESTED, 1.0)
    some: list[Line] = []
    for line in read:
        some.append(line)
        if len(some) >= part:
            learned.hear(some)
            some = []
    learned.hear(some)
    learned.every = EVERY


class LearningPaper:
    """A history's paper that also tells what is written to whoever learns, on a thread of its own."""

    def __init__(self, learned: Learned, paper: Folder | None = None, read: Path | None = None) -> None:
        """*paper*: where the history is written too; *read*: what was written before, to begin with."""
        self._learned, self._paper = learned, paper
        self._read: Read | None = None
        try:
            self._read = Read(read) if read is not None else None
        except InvalidInput:
            log.info("when: nothing to learn from yet in %s", read)
        self._heard: SimpleQueue[list[Line] | None] = SimpleQueue()
        self._begun = False
        self._thread: threading.Thread | None = None

    @property
    def wants_another(self) -> bool:
        """Whether a new file should begin."""
        return self._paper.wants_another if self._paper is not None else not self._begun

    def another(self) -> None:
        """Begin another file."""
        self._begun = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._listen, name="learning", daemon=True)
            self._thread.start()
        if self._paper is not None:
            self._paper.another()

    def write(self, lines: Iterable[Line]) -> None:
        """Write lines, and have them heard."""
        some = list(lines)
        self._heard.put(some)
        if self._paper is not None:
            self._paper.write(some)

    def close_file(self) -> None:
        """End the file that is written to."""
        self._begun = False
        if self._paper is not None:
            self._paper.close_file()

    def close(self) -> None:
        """End, when all was heard and written."""
        if self._thread is not None:
            self._heard.put(None)
            self._thread.join()
            self._thread = None
        if self._paper is not None:
            self._paper.close()

    def _listen(self) -> None:
        if self._read is not None:
            try:
                hear_history(self._read, self._learned)
            except Exception:
                log.exception("when: the history could not be learned from; what happens from now on is")
        while (some := self._heard.get()) is not None:
            try:
                self._learned.hear(some)
            except Exception:
                log.exception("when: could not learn from what happened")
                return
