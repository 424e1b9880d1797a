"""Runs in a process of its own: it is given no credentials, can write no file, and is ended when its time is over.

For whoever plays what a stranger proposes, beside other work. What was played is remembered by whoever asks, so asking
again goes on where the time ended. It is this module, run as a program.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import resource
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Hashable, MutableMapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import IO, Any, Final

import msgspec

from pumice.answers.what_if.apart import surroundings
from pumice.errors import PumiceError
from pumice.sim.study.playing import Played

MEMORY: Final = 4 << 30
"""Bytes of address space that the process may have."""
_SIZE: Final = struct.Struct(">Q")


class NotInTime(PumiceError):
    """The time is over; what was played until then is known."""

    retryable = True


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the process says of a run."""

    played: Played | None = None
    failure: str = ""


class ApartProcess:
    """A process that plays one run after the other; for *seconds* in all, from now on. A context that ends it."""

    def __init__(self, seconds: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(int(seconds) + 5)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=surroundings(),
        )
        self._late = threading.Event()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def __enter__(self) -> ApartProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._process.kill()
        with suppress(OSError):
            self._process.communicate()

    def _end(self) -> None:
        self._late.set()
        self._process.kill()

    def call(self, fn: Callable[..., Played], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Played:
        """What a call comes to there.

        :raises NotInTime: the time is over.
        :raises PumiceError: it failed, and why.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _write(self._process.stdin, pickle.dumps((fn, args, kwargs)))
            told = msgspec.msgpack.decode(_read(self._process.stdout), type=_Told)
        except (OSError, EOFError):
            if self._late.is_set():
                raise NotInTime("the time for playing is over") from None
            raise PumiceError(f"the process that plays has ended with {self._process.wait()}") from None
        if told.played is None:
            raise PumiceError(told.failure or "no answer")
        return told.played


class RememberingExecutor(Executor):
    """Has calls done by a process, each at once, unless the answer is known.

    *known* is added to; a call is known by *about*, which stands for its first argument, the world, and by the others.
    """

    def __init__(self, process: ApartProcess, known: MutableMapping[Hashable, Played], about: Hashable) -> None:
        self._process, self._known, self._about = process, known, about

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """A call that is answered, or failed, when this returns."""
        future: Future[Any] = Future()
        key = (self._about, fn.__name__, *args[1:])
        try:
            if key not in self._known:
                self._known[key] = self._process.call(fn, args, kwargs)
            future.set_result(self._known[key])
        except PumiceError as exc:
            future.set_exception(exc)
        return future


def _write(stream: IO[bytes], content: bytes) -> None:
    stream.write(_SIZE.pack(len(content)))
    stream.write(content)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    """The next message.

    :raises EOFError: there is none, or not all of it.
    """
    head = stream.read(_SIZE.size)
    content: bytes = stream.read(_SIZE.unpack(head)[0]) if len(head) == _SIZE.size else b""
    if not content:
        raise EOFError
    return content


def main() -> None:
    """Be the process: play what is asked for until nobody asks."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a plugin prints is no answer
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1])))
    while True:
        try:
            function, args, kwargs = pickle.loads(_read(sys.stdin.buffer))
        except EOFError:
            return
        try:
            told = _Told(played=function(*args, **kwargs))
        except PumiceError as exc:
            told = _Told(failure=str(exc))
        except Exception as exc:
            told = _Told(failure=f"{type(exc).__name__}: {exc}")
        _write(answers, msgspec.msgpack.encode(told))
        gc.collect()


if __name__ == "__main__":
    main()
