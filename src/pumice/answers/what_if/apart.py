"""A what-if in a process of its own: it may take seconds, and is given up after some; the caller goes on meanwhile."""

from __future__ import annotations

import gc
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
from pumice.subprocess_runner import IsolatedProcess, NotInTime

SECONDS: Final = 14.0
"""After which it is given up."""
AT_A_TIME: Final = 1000
_one = threading.Lock()


class NotNow(PumiceError):
    """Somebody else's what-if is being answered."""

    retryable = True


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
    directories = [str(path.resolve()) for path in registry.directories]
    try:
        with IsolatedProcess(seconds) as process:
            return process.call(_played, saved, list(_packed(objects)), asked, directories, returns=BothSides)
    except NotInTime:
        raise PumiceError(
            f"what if: no answer within {seconds:g} s; `pumice what-if` on a saved cycle takes the time that it needs"
        ) from None
    except InvalidInput:
        raise
    except PumiceError as exc:
        raise PumiceError(f"what if: {exc}") from exc
    finally:
        _one.release()


def _played(
    saved: SavedCycle, objects: Sequence[tuple[str, bytes]], asked: WhatIf, directories: Sequence[str]
) -> BothSides:
    """Play both sides in the process. *objects*: the class of some, and these, in order; *directories*: of plugins."""
    gc.disable()  # the process ends when it has answered
    registry = default_registry()
    if directories:
        registry = registry.copy()
        for directory in directories:
            registry.load_directory(Path(directory))
    try:
        return play(saved, _unpacked(objects), asked, registry)
    except InvalidConf as exc:
        raise InvalidInput(str(exc)) from exc


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
