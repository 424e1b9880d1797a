"""Lines and rows of a trace file, packed or not; every failure names file and line."""

from __future__ import annotations

import csv
import gzip
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pumice.errors import ENDLESS, is_endless
from pumice.sim.traces.model import TraceError, TraceJob

_GZIP_MAGIC = b"\x1f\x8b"
_BOM = "\ufeff"
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
MOST = 10**12
"""The greatest whole number that a column may hold; as MiB it still fits the ledgers of the scheduler."""


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its end) of a UTF-8 file; gzip is seen by content, not by name.

    :raises TraceError: the file cannot be opened, the packing is damaged or cut off, or a line is not UTF-8.
    """
    number = 0
    if is_endless(path):
        raise TraceError(path, ENDLESS)
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == _GZIP_MAGIC
            for data in gzip.GzipFile(fileobj=raw) if packed else raw:
                number += 1
                text = data.decode("utf-8").rstrip("\r\n")
                yield number, text.removeprefix(_BOM) if number == 1 else text
    except UnicodeDecodeError as error:
        raise TraceError(path, f"must be UTF-8 text ({error.reason} at byte {error.start})", line=number) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(path, f"the gzip file is damaged or cut off ({error})", line=number + 1) from error
    except OSError as error:
        raise TraceError(path, f"cannot be read ({error.strerror or error})") from error


class Notes:
    """Jobs that a reader left out or changed, and how, so that only those of the played part are reported."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str, float]] = []

    def changed(self, what: str, job: str) -> None:
        """Something about a job is not as in the file."""
        self._found.append((what, job, 0.0))

    def left_out(self, what: str, submit_s: float) -> None:
        """A line became no job."""
        self._found.append((what, "", submit_s))

    def about(self, jobs: Sequence[TraceJob], window: tuple[float, float]) -> tuple[str, ...]:
        """One sentence for each kind of thing, with its count among *jobs* and, of what is none, in the *window*."""
        names = {job.name for job in jobs}
        counts = Counter(
            what for what, job, submit in self._found if (job in names if job else window[0] <= submit <= window[1])
        )
        return tuple(f"{what}: {count:,}" for what, count in counts.items())


class Row:
    """One line of a CSV file, with getters that check. An absent column reads as an empty value."""

    __slots__ = ("_values", "line", "path")

    def __init__(self, path: Path, line: int, values: dict[str, str]) -> None:
        self.path, self.line, self._values = path, line, values

    def error(self, column: str, rule: str) -> TraceError:
        """Return the error that says that *column* of this line breaks *rule*."""
        return TraceError(self.path, rule, line=self.line, column=column, value=self.text(column))

    def has(self, column: str) -> bool:
        """Whether the line says anything in *column*."""
        return bool(self._values.get(column))

    def text(self, column: str, default: str = "") -> str:
        """Return the value as it stands, without blanks around it."""
        return self._values.get(column) or default

    def name(self, column: str) -> str:
        """Return a value that may not be empty."""
        value = self.text(column)
        if not value:
            raise self.error(column, "must not be empty")
        return value

    def integer(self, column: str, *, least: int = 0, most: int = MOST, default: int | None = None) -> int:
        """Return a whole number from *least* to *most*; *default* stands in for an empty value where there is one."""
        value = self.text(column)
        if not value and default is not None:
            return default
        if not _WHOLE.fullmatch(value) or not least <= int(value) <= most:
            raise self.error(column, f"must be a whole number from {least} to {most}")
        return int(value)

    def seconds(self, column: str) -> float:
        """Return a finite number of seconds of at least 0."""
        number = number_of(self.text(column))
        if number is None or number < 0:
            raise self.error(column, "must be a number of seconds of at least 0")
        return number


def number_of(text: str) -> float | None:
    """Return the finite number that *text* is, or None; Python's "1_000" and "nan" are none."""
    if not text.isascii() or "_" in text:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def rows(
    path: Path, required: Sequence[str], *, known: Sequence[str] | None = None, comments: bool = False
) -> Iterator[Row]:
    """Yield the lines under the header of a CSV file; blank lines are passed over, and with *comments* those with #.

    :raises TraceError: no header, a required column is missing, a column is there twice or (with *known*) is not
        known, or a line has another number of values than the header.
    """
    header: list[str] | None = None
    for number, text in lines(path):
        if not text.strip() or (comments and text.lstrip().startswith("#")):
            continue
        values = _split(path, number, text)
        if header is None:
            _check_header(path, number, values, required, known)
            header = values
        elif len(values) != len(header):
            raise TraceError(path, f"must have {len(header)} values as the header, has {len(values)}", line=number)
        else:
            yield Row(path, number, dict(zip(header, values, strict=True)))
    if header is None:
        raise TraceError(path, f"is empty; must start with a header that names {', '.join(required)}")


def _split(path: Path, number: int, text: str) -> list[str]:
    if '"' not in text:
        return [value.strip() for value in text.split(",")]
    try:
        return [value.strip() for value in next(csv.reader([text], strict=True))]
    except csv.Error as error:
        raise TraceError(path, f"must be one CSV record on one line ({error})", line=number) from error


def _check_header(
    path: Path, number: int, header: list[str], required: Sequence[str], known: Sequence[str] | None
) -> None:
    for column in required:
        if column not in header:
            raise TraceError(path, "the header has no such column", line=number, column=column)
    for index, column in enumerate(header):
        if column in header[:index]:
            raise TraceError(path, "the header names this column twice", line=number, column=column)
        if known is not None and column not in known:
            rule = f"no column of this format; the columns are {', '.join(known)}"
            raise TraceError(path, rule, line=number, column=column or "(empty)")
