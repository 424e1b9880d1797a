"""Calls in a process of its own, which has no credentials, can write no file, and ends when its time is over.

For work that others propose: what it decides reaches nothing but its answer. This module, run as a program, is the
process. Calls go there pickled; answers come back as MessagePack of a known type, for they come from outside.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Final, TypeVar

import msgspec

from pumice.errors import InvalidInput, PumiceError

T = TypeVar("T")

MEMORY: Final = 4 << 30
"""Bytes of address space that the process may have."""
_SIZE: Final = struct.Struct(">Q")
_KEPT: Final = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")


class NotInTime(PumiceError):
    """The time of the process is over."""

    retryable = True


class _Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The report of the process about a call."""

    content: bytes = b""
    invalid: str = ""
    """The problem of the arguments."""
    failure: str = ""


class IsolatedProcess:
    """A process that answers one call after the other; for *seconds* in all, from now on. A context that ends it."""

    def __init__(self, seconds: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(int(seconds) + 5)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
        )
        self._said: deque[bytes] = deque(maxlen=1)
        """The last line that the process wrote to its standard error."""
        self._listener = threading.Thread(target=self._said.extend, args=(self._process.stderr,), daemon=True)
        self._listener.start()
        self._late = threading.Event()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def __enter__(self) -> IsolatedProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        self._listener.join(1.0)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _end(self) -> None:
        self._late.set()
        self._process.kill()

    def call(self, function: Callable[..., T], *args: object, returns: type[T]) -> T:
        """Return what the call returns there.

        :raises NotInTime: the time is over.
        :raises InvalidInput: the function says that its arguments cannot be.
        :raises PumiceError: it failed, and why.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _write(self._process.stdin, pickle.dumps((function, args)))
            reply = msgspec.msgpack.decode(_read(self._process.stdout), type=_Reply)
        except (OSError, EOFError):
            if self._late.is_set():
                raise NotInTime("the time of the process is over") from None
            code = self._process.wait()
            self._listener.join(1.0)
            last = b"".join(self._said).decode("utf-8", "replace").strip()
            raise PumiceError(last or f"the process ended with {code}") from None
        if reply.invalid:
            raise InvalidInput(reply.invalid)
        if not reply.content:
            raise PumiceError(reply.failure or "no answer")
        return msgspec.msgpack.decode(reply.content, type=returns)


def _write(stream: IO[bytes], content: bytes) -> None:
    stream.write(_SIZE.pack(len(content)))
    stream.write(content)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    """Return the next message.

    :raises EOFError: there is none, or not all of it.
    """
    head = stream.read(_SIZE.size)
    content: bytes = stream.read(_SIZE.unpack(head)[0]) if len(head) == _SIZE.size else b""
    if not content:
        raise EOFError
    return content


def main() -> None:
    """Be the process: answer calls until there are no more."""
    import resource  # POSIX alone has it

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a plugin prints is no answer
    logging.disable(logging.CRITICAL)
    for limit, most in ((resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, sys.argv[1])):
        resource.setrlimit(limit, (int(most), int(most)))
    while True:
        try:
            function, args = pickle.loads(_read(sys.stdin.buffer))
        except EOFError:
            return
        try:
            reply = _Reply(content=msgspec.msgpack.encode(function(*args)))
        except InvalidInput as exc:
            reply = _Reply(invalid=str(exc))
        except PumiceError as exc:
            reply = _Reply(failure=str(exc))
        except Exception as exc:
            reply = _Reply(failure=f"{type(exc).__name__}: {exc}")
        _write(answers, msgspec.msgpack.encode(reply))
        gc.collect()


if __name__ == "__main__":
    main()
