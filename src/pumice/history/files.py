"""A folder of histories: lines are appended, files rotate and are packed, and whatever was written can be read."""

from __future__ import annotations

import gzip
import logging
import os
import shutil
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec

from pumice.clock import Clock, SystemClock
from pumice.errors import ENDLESS, InvalidInput, is_endless
from pumice.history.lines import VERSION, Begins, Line

log = logging.getLogger("pumice.history")

SUFFIX, PACKED = ".jsonl", ".jsonl.gz"
FULL = 16 * 2**20
"""A file of so many bytes is closed, packed, and followed by another."""
DAY = 86_400.0
"""… and one that was begun so many seconds ago."""
SYNC = 1.0
"""Seconds after which what was written is safe from a machine that stops; a process that is killed loses nothing."""
LONGEST = 64 * 2**20
"""The longest line that is read."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


class Folder:
    """Writes to a folder, one file at a time. A failure there is logged and counted, and raises nothing."""

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        keep_s: float | None = None,
        full: int = FULL,
        packs: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """*name* tells the files of this writer from those of others; *keep_s*: older files are removed."""
        self._now = (clock or SystemClock()).now
        self.path, self._name, self._keep, self._full, self._packs = path, name, keep_s, full, packs
        self._descriptor = -1
        self._file: Path | None = None
        self._size = self._made = 0
        self._begun = 0.0
        self.failures = 0
        """How often writing failed."""
        self._errors: set[str] = set()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._unsynced = threading.Event()
        self._helper: threading.Thread | None = None
        path.mkdir(parents=True, exist_ok=True)

    @property
    def wants_another(self) -> bool:
        """Whether the file that is written to should be followed by another."""
        return self._descriptor < 0 or self._size >= self._full or self._now() - self._begun >= DAY

    def another(self) -> None:
        """Close the file, and begin another."""
        self.close_file()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._now()))
        self._made += 1
        self._file = self.path / f"{stamp}-{self._name}-{self._made:05d}{SUFFIX}"
        self._begun, self._size = self._now(), 0
        try:
            self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o640)
        except OSError as exc:
            self._failed("begin", exc)
        if self._keep is not None:
            self._later(lambda: remove_old(self.path, self._now() - (self._keep or 0.0)))

    def write(self, lines: Iterable[Line]) -> None:
        """Append lines; the system has them when this returns."""
        data = b"".join(_encoder.encode(line) + b"\n" for line in lines)
        if not data or self._descriptor < 0:
            return
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as exc:
            self._failed("write", exc)
            self.close_file()  # perhaps in the middle of a line: nothing may follow it
            return
        self._size += len(data)
        if not self._unsynced.is_set():
            self._unsynced.set()
            self._later(None)

    def close_file(self) -> None:
        """End the file that is written to, if there is one."""
        descriptor, file = self._descriptor, self._file
        self._descriptor, self._file = -1, None
        if descriptor < 0 or file is None:
            return
        _sync(descriptor)
        os.close(descriptor)
        if self._packs:
            self._later(lambda: pack(file))

    def close(self) -> None:
        """End the file, and wait until everything is packed."""
        self.close_file()
        if self._helper is not None:
            self._work.put(_stop)
            self._helper.join()
            self._helper = None

    def _failed(self, what: str, exc: OSError) -> None:
        self.failures += 1
        told = f"{what}: {exc.strerror or exc}"
        if told not in self._errors:
            self._errors.add(told)
            log.error("history: cannot %s %s: %s; scheduling goes on", what, self._file, exc.strerror or exc)

    def _later(self, work: Callable[[], None] | None) -> None:
        """Let the helper do it; nothing to do: see that what was written is safe, after a second."""
        if self._helper is None:
            self._helper = threading.Thread(target=self._help, name="history", daemon=True)
            self._helper.start()
        self._work.put(work)

    def _help(self) -> None:
        due: float | None = None
        while True:
            try:
                work = self._work.get(timeout=None if due is None else max(due - time.monotonic(), 0.0))
            except Empty:
                due = None
                self._unsynced.clear()
                _sync(self._descriptor)
                continue
            if work is _stop:
                return
            if work is None:
                due = time.monotonic() + SYNC
                continue
            try:
                work()
            except OSError as exc:
                self._failed("tidy", exc)


def _stop() -> None:
    """Tells the helper to end."""


def _sync(descriptor: int) -> None:
    """See that what was written is safe, unless it was closed meanwhile, and synced then."""
    try:
        if descriptor >= 0:
            os.fsync(descriptor)
    except OSError:
        return  # or a file system that cannot


def pack(file: Path) -> None:
    """Put a packed file in the place of a plain one. Whenever this is broken off, one of the two is whole."""
    packed, part = file.with_suffix(PACKED), file.with_suffix(".part")
    with file.open("rb") as plain, part.open("wb") as raw:
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0) as out:
            shutil.copyfileobj(plain, out, 2**20)
        raw.flush()
        os.fsync(raw.fileno())
    part.replace(packed)
    file.unlink()


def remove_old(folder: Path, before: float) -> None:
    """Remove the files that were last written before a time."""
    for file in (*folder.glob(f"*{SUFFIX}"), *folder.glob(f"*{PACKED}")):
        if file.stat().st_mtime < before:
            file.unlink(missing_ok=True)


class Read:
    """The lines of a history in order, and what could not be read of it."""

    def __init__(self, path: Path) -> None:
        """*path*: a folder, or one file.

        :raises InvalidInput: there is no history.
        """
        self._path, self.files = path, _files(path)
        self.torn = 0
        """Lines that were cut off, as the last one is when a process is killed while it writes."""
        self.unknown = 0
        """Lines that say something which this version does not know."""

    def __iter__(self) -> Iterator[Line]:
        """The lines.

        :raises InvalidInput: there is not one.
        """
        some = False
        for file in self.files:
            for line in self._lines(file):
                some = True
                yield line
        if not some:
            raise InvalidInput(f"{self._path}: holds no line of a history (`pumice run --history` writes one)")

    def _lines(self, file: Path) -> Iterator[Line]:
        opened = gzip.open if file.suffix == ".gz" else open
        try:
            with opened(file, "rb") as stream:
                while data := stream.readline(LONGEST):
                    if not data.endswith(b"\n"):
                        self.torn += 1
                        continue
                    try:
                        line = _decoder.decode(data)
                    except msgspec.DecodeError:
                        self.unknown += 1
                        continue
                    if isinstance(line, Begins) and line.version > VERSION:
                        raise InvalidInput(f"{file}: is of version {line.version}; this program reads {VERSION}")
                    yield line
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.torn += 1
        except OSError as exc:
            raise InvalidInput(f"{file}: cannot be read ({exc.strerror or exc})") from exc


def _files(path: Path) -> Sequence[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InvalidInput(f"{path}: there is no history, neither a folder nor a file")
    plain = {file.name.removesuffix(SUFFIX): file for file in path.glob(f"*{SUFFIX}")}
    packed = {file.name.removesuffix(PACKED): file for file in path.glob(f"*{PACKED}")}
    found = [file for _, file in sorted((packed | plain).items())]
    if any(map(is_endless, found)):
        raise InvalidInput(f"{path}: a file of a history {ENDLESS}")
    if not found:
        raise InvalidInput(f"{path}: there is no history in it (files that end in {SUFFIX} or {PACKED})")
    return found
