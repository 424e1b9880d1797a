"""A what-if in a process of its own: it may take seconds, and is given up after some; who asks goes on meanwhile.

The process is given the instant, what is supposed and where plugins are, and says what it found. It has no
credentials, and what it decides reaches nobody. It is this module, run as a program.
"""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from pumice.answers.what_if.sides import BothSides, play
from pumice.answers.what_if.supposition import WhatIf
from pumice.config.problems import InvalidConf
from pumice.errors import InvalidInput, PumiceError
from pumice.framework.registry import Registry, default_registry
from pumice.model.api import AnyObject
from pumice.saved.cycle import SavedCycle

SECONDS: Final = 14.0
"""After which it is given up."""
AT_A_TIME: Final = 1000
_KEPT: Final = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_one = threading.Lock()


class NotNow(PumiceError):
    """Somebody else's what-if is being answered."""

    retryable = True


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is given."""

    saved: SavedCycle
    objects: list[tuple[str, bytes]]
    """The class of some objects, and these, in order."""
    asked: WhatIf
    directories: list[str]
    """Where plugins are."""


class _Done(msgspec.Struct, frozen=True, kw_only=True):
    """What it says."""

    sides: BothSides | None = None
    invalid: str = ""
    """What is wrong with what is supposed."""
    failure: str = ""


def play_apart(
    saved: SavedCycle, objects: Sequence[AnyObject], asked: WhatIf, registry: Registry, seconds: float = SECONDS
) -> BothSides:
    """Both sides, from a process of its own; one at a time.

    :raises InvalidInput: what is supposed cannot be.
    :raises NotNow: another one is being answered.
    :raises PumiceError: no answer in time, or none at all.
    """
    if not _one.acquire(blocking=False):
        raise NotNow("another what-if is being answered; ask again in a moment")
    try:
        task = _Task(
            saved=saved,
            objects=list(_packed(objects)),
            asked=asked,
            directories=[str(path.resolve()) for path in registry.directories],
        )
        done = _run(msgspec.msgpack.encode(task), seconds)
    finally:
        _one.release()
    if done.invalid:
        raise InvalidInput(done.invalid)
    if done.sides is None:
        raise PumiceError(f"what if: {done.failure or 'no answer'}")
    return done.sides


def _packed(objects: Sequence[AnyObject]) -> Iterator[tuple[str, bytes]]:
    """Objects by class, some at a time: whoever decides in this process has his turns between them."""
    for kind, listed in groupby(objects, type):
        alike = list(listed)
        for first in range(0, len(alike), AT_A_TIME):
            yield f"{kind.__module__}:{kind.__name__}", msgspec.msgpack.encode(alike[first : first + AT_A_TIME])


def _unpacked(packed: Iterable[tuple[str, bytes]]) -> Iterator[AnyObject]:
    for kind, content in packed:
        module, _, name = kind.partition(":")
        yield from msgspec.msgpack.decode(content, type=list[getattr(import_module(module), name)])  # type: ignore[misc]


def surroundings() -> dict[str, str]:
    """What a process that answers is told of where it runs: enough to start, no kubeconfig and no token."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


def _run(task: bytes, seconds: float) -> _Done:
    try:
        ran = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=task,
            capture_output=True,
            timeout=seconds,
            env=surroundings(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PumiceError(
            f"what if: no answer within {seconds:g} s; `pumice what-if` on a saved cycle takes the time that it needs"
        ) from None
    except OSError as exc:
        raise PumiceError(f"what if: no process can be started: {exc}") from exc
    try:
        return msgspec.msgpack.decode(ran.stdout, type=_Done)
    except msgspec.MsgspecError:
        last = ran.stderr.decode("utf-8", "replace").strip().splitlines()
        return _Done(failure=last[-1] if last else f"the process ended with {ran.returncode}")


def _answered(task: _Task) -> _Done:
    try:
        registry = default_registry()
        if task.directories:
            registry = registry.copy()
            for directory in task.directories:
                registry.load_directory(Path(directory))
        return _Done(sides=play(task.saved, _unpacked(task.objects), task.asked, registry))
    except (InvalidInput, InvalidConf) as exc:
        return _Done(invalid=str(exc))
    except PumiceError as exc:
        return _Done(failure=str(exc))


def main() -> None:
    """Be the process: read a task, write what came of it."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a plugin prints is no answer
    logging.disable(logging.CRITICAL)
    gc.disable()  # it ends when it has answered
    task = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Task)
    answers.write(msgspec.msgpack.encode(_answered(task)))
    answers.close()


if __name__ == "__main__":
    main()
