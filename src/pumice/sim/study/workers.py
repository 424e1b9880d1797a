"""``LocalExecutor``: processes of this machine; a killed process loses one run and no more.

``concurrent.futures.ProcessPoolExecutor`` gives up all that is queued when one of its processes dies. A study of
hundreds of runs must survive one that the kernel kills for want of memory.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from pumice.errors import PumiceError

T = TypeVar("T")


class WorkerLost(PumiceError):
    """The process that played a run is gone: killed, or out of memory."""


@dataclass(slots=True)
class _Call:
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    future: Future[Any] = field(default_factory=Future)


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    pipe: Connection
    call: _Call | None = None


class LocalExecutor(Executor):
    """An executor over *count* processes. A call whose process dies raises `WorkerLost`; another takes its place.

    Calls are begun in the order in which they were submitted. ``shutdown(cancel_futures=True)`` ends what runs.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count or usable_cores()
        self._context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self._waiting: deque[_Call] = deque()
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = self._context.Pipe(duplex=False)
        self._closing = False
        self._killing = False
        self._workers: list[_Worker] = []
        for _ in range(self.count):
            self._workers.append(self._start())
        self._thread = threading.Thread(target=self._serve, name="study", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Queue a call; function, arguments and answer must be picklable."""
        call = _Call(fn, args, kwargs)
        with self._lock:
            if self._closing:
                raise RuntimeError("the executor was shut down")
            self._waiting.append(call)
        self._wake()
        return call.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; with *cancel_futures* also end those that run."""
        with self._lock:
            self._closing = True
            if cancel_futures:
                self._killing = True
                while self._waiting:
                    self._waiting.popleft().future.cancel()
        self._wake()
        if wait:
            self._thread.join()

    def _wake(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the thread may be over
            self._wake_write.send_bytes(b"!")

    # -- the thread that serves the pipes --------------------------------------------------------------------------
    def _serve(self) -> None:
        try:
            while True:
                self._hand_out()
                busy = [worker for worker in self._workers if worker.call is not None]
                if self._killing or (self._closing and not self._waiting and not busy):
                    return
                ready = wait([self._wake_read, *(worker.pipe for worker in busy)])
                if self._wake_read in ready:
                    self._wake_read.recv_bytes()
                for worker in busy:
                    if worker.pipe in ready:
                        self._take(worker)
        finally:
            self._end()

    def _hand_out(self) -> None:
        for worker in self._workers:
            while worker.call is None:
                with self._lock:
                    if not self._waiting or self._killing:
                        return
                    call = self._waiting.popleft()
                if not call.future.set_running_or_notify_cancel():
                    continue
                worker.call = call
                try:
                    worker.pipe.send((call.function, call.args, call.kwargs))
                except OSError:
                    self._lost(worker)
                except Exception as exc:  # what cannot be pickled is the caller's affair
                    worker.call = None
                    call.future.set_exception(exc)

    def _take(self, worker: _Worker) -> None:
        call = worker.call
        assert call is not None
        try:
            good, answer = worker.pipe.recv()
        except (EOFError, OSError):
            self._lost(worker)
            return
        worker.call = None
        if good:
            call.future.set_result(answer)
        else:
            call.future.set_exception(answer)

    def _lost(self, worker: _Worker) -> None:
        call, worker.call = worker.call, None
        worker.process.join(5)
        code = worker.process.exitcode
        worker.pipe.close()
        fresh = self._start(again=True)
        worker.process, worker.pipe = fresh.process, fresh.pipe
        why = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        if call is not None:
            call.future.set_exception(WorkerLost(f"its process was ended {why}"))

    def _start(self, *, again: bool = False) -> _Worker:
        """Start a process; *again*: in the place of a lost one, from a thread, where a fork could stand still."""
        context = multiprocessing.get_context("spawn") if again else self._context
        here, there = context.Pipe()
        # a forked process has copies of all pipes: as long as it holds this end, nobody would see the other one close
        ours = [here, *(worker.pipe for worker in self._workers)] if context.get_start_method() == "fork" else []
        process = context.Process(target=_work, args=(there, ours), daemon=True)  # type: ignore[attr-defined]
        process.start()
        there.close()
        return _Worker(process, here)

    def _end(self) -> None:
        for worker in self._workers:
            if worker.call is not None:
                worker.call.future.set_exception(WorkerLost("the study was ended"))
            if self._killing:
                worker.process.terminate()
            worker.pipe.close()  # a worker without work sees the end of its pipe and leaves
        for worker in self._workers:
            worker.process.join(5)
        self._wake_write.close()
        self._wake_read.close()


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _work(pipe: Connection, inherited: list[Connection]) -> None:
    """Serve calls until the pipe ends. Ctrl-C is for the parent, which decides what is kept."""
    for other in inherited:
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.stdout = sys.stderr  # what plugins print is no data
    while True:
        try:
            function, args, kwargs = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (True, function(*args, **kwargs))
        except Exception as exc:
            answer = (False, exc)
        try:
            pipe.send(answer)
        except OSError:
            return
        except Exception as exc:
            pipe.send((False, PumiceError(f"the answer cannot be sent back: {exc}")))
