"""Names a plugin that does not return, or that takes too much of a cycle, and a cycle that does not end.

A thread looks at the scheduler's stack now and then and finds out which plugin's callback stands in it. Cycles pay
nothing for it: no field is set per call, and a cycle that is over before the next look is never seen.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from pumice.framework.session.session import Session

log = logging.getLogger("pumice.scheduler")


@dataclass(frozen=True, slots=True)
class Sighting:
    """A plugin's callback on the stack: the plugin, the point, and the executing line.

    Plugin and point are empty where no plugin is being asked.
    """

    plugin: str
    point: str
    where: str


@dataclass(frozen=True, slots=True)
class Overrun:
    """A plugin that took too long: at one callback (*stuck*), or in all of a cycle together; or a whole cycle."""

    sighting: Sighting
    seconds: float
    stuck: bool

    def __str__(self) -> str:
        s = self.sighting
        if not s.plugin:
            return f"a cycle has not ended for {self.seconds:.1f} s; it is at {s.where}"
        if self.stuck:
            return f"plugin {s.plugin!r} has not returned from {s.point} for {self.seconds:.1f} s; it is at {s.where}"
        return f"plugin {s.plugin!r} has used about {self.seconds:.1f} s of this cycle, last at {s.point}, {s.where}"


def _warn(overrun: Overrun) -> None:
    (log.error if overrun.stuck else log.warning)("%s", overrun)


class Watchdog:
    """Watches the thread that runs cycles. *budget*: seconds for one callback; *plugin_budget*: for a plugin's cycle;
    *cycle_budget*: for a whole cycle.

    `stuck` is the overrun of a callback or a cycle that is still running; liveness should fail while there is one. Each
    overrun is reported once per cycle.
    """

    def __init__(
        self,
        *,
        budget: float = 10.0,
        plugin_budget: float = 5.0,
        cycle_budget: float = 300.0,
        interval: float = 0.1,
        report: Callable[[Overrun], None] = _warn,
    ) -> None:
        self._budget, self._plugin_budget, self._interval, self._report = budget, plugin_budget, interval, report
        self._cycle_budget = cycle_budget
        self._watched: tuple[int, float] | None = None
        self._cycle: tuple[int, float] | None = None
        self._since = 0.0
        self._frame: FrameType | None = None
        self._used: dict[str, float] = {}
        self._reported: set[tuple[str, bool]] = set()
        self.stuck: Overrun | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pumice-watchdog", daemon=True)
        self._thread.start()

    @contextmanager
    def cycle(self) -> Iterator[None]:
        """The calling thread runs a cycle within the block."""
        self._watched = (threading.get_ident(), time.monotonic())
        try:
            yield
        finally:
            self._watched = None
            self.stuck = None

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._interval):
            self._look()

    def _look(self) -> None:
        watched = self._watched
        if watched != self._cycle:
            self._cycle, self._frame, self._used = watched, None, {}
            self._reported.clear()
        if watched is None:
            return
        top = sys._current_frames().get(watched[0])
        if top is None:
            return
        try:
            found = locate(top)
        except Exception:  # what is looked at changes meanwhile: a session half made, a table that grows
            log.debug("could not see what the cycle does; looking again", exc_info=True)
            found = None
        now = time.monotonic()
        late: Overrun | None = None
        if now - watched[1] >= self._cycle_budget:
            late = Overrun(Sighting("", "", _line(top)), now - watched[1], True)
        if found is None:
            self._frame = None
        else:
            sighting, frame = found
            if frame is not self._frame:
                self._frame, self._since = frame, now
            used = self._used[sighting.plugin] = self._used.get(sighting.plugin, 0.0) + self._interval
            if now - self._since >= self._budget:
                late = Overrun(sighting, now - self._since, True)
            elif used >= self._plugin_budget:
                self._tell(Overrun(sighting, used, False))
        self.stuck = late if self._watched == watched else None
        if late is not None:
            self._tell(late)

    def _tell(self, overrun: Overrun) -> None:
        key = (overrun.sighting.plugin, overrun.stuck)
        if key not in self._reported:
            self._reported.add(key)
            self._report(overrun)


def locate(top: FrameType) -> tuple[Sighting, FrameType] | None:
    """The innermost callback of a plugin on a stack, and its frame; None where no plugin is being asked."""
    frames = []
    frame: FrameType | None = top
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    session = next((s for f in frames if (s := _session_in(f)) is not None), None)
    if session is None:
        return None
    codes = _codes(session)
    for frame in frames:
        known = codes.get(frame.f_code)
        if known is not None:
            return Sighting(*known, _line(top)), frame
    return None


def _line(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _session_in(frame: FrameType) -> Session | None:
    """The session that a frame of ours works on."""
    if not frame.f_globals.get("__name__", "").startswith("pumice."):
        return None
    return next((v for v in frame.f_locals.values() if isinstance(v, Session)), None)


def _codes(session: Session) -> dict[CodeType, tuple[str, str]]:
    """The code of everything that a plugin may be running in, with plugin and point."""
    codes: dict[CodeType, tuple[str, str]] = {}
    for point, callbacks in session.registered().items():
        for callback in callbacks:
            for part, fn in callback.parts():
                _add(codes, fn, callback.plugin, point if part == "fn" else f"{point}.{part}")
    for handler in session.handlers:
        for hook in ("allocate", "deallocate", "allocate_many", "deallocate_many"):
            _add(codes, getattr(handler, hook), handler.plugin, f"{hook} handler")
    if session.opening:
        codes[Session._open.__code__] = (session.opening, "on_session_open")
        codes[Session.close_plugins.__code__] = (session.opening, "on_session_close")
    return codes


def _add(codes: dict[CodeType, tuple[str, str]], fn: Any, plugin: str, point: str) -> None:
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = getattr(fn, "__wrapped__", fn)
    function = getattr(fn, "__func__", fn)
    code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
    if code is not None:
        codes.setdefault(code, (plugin, point))
