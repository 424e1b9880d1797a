"""A saved cycle in one file, and back.

The file is gzip over two lines of JSON: a header (format, version, program) and the body. Loading checks the header
before anything else, so that a foreign, newer or broken file is an error that says so.
"""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Final

import msgspec

from pumice.errors import InvalidInput, decoder_words, most_unpacked, read_bytes
from pumice.saved.cycle import SavedCycle

FORMAT: Final = "pumice-cycle"
VERSION: Final = 1
MOST_BYTES: Final = 1 << 30
"""The unpacked size of a saved cycle of the largest clusters, with a margin; a file may come from a stranger."""
_GZIP: Final = b"\x1f\x8b"


class _Header(msgspec.Struct):
    format: str = ""
    version: int = 0
    program: str = ""


def dump(saved: SavedCycle, program: str = "") -> bytes:
    """The content of a file; equal cycles give equal bytes."""
    header = msgspec.json.encode(_Header(FORMAT, VERSION, program))
    return packed(header + b"\n" + msgspec.json.encode(saved) + b"\n")


def packed(plain: bytes) -> bytes:
    """Bytes as they stand in a file; equal ones give equal ones."""
    return gzip.compress(plain, compresslevel=6, mtime=0)


def parse(content: bytes, source: str = "saved cycle") -> SavedCycle:
    """The cycle that the content of a file holds; *source* names it in messages.

    :raises InvalidInput: it is not a saved cycle, is cut off, or was written by a newer version.
    """
    try:
        most = most_unpacked(len(content), MOST_BYTES)
        with gzip.open(io.BytesIO(content)) as unpacking:
            plain = unpacking.read(most + 1)
        if len(plain) > most:
            raise InvalidInput(f"{source}: unpacks to more than {most >> 20} MiB; a saved cycle of its size does not")
        head, _, body = plain.partition(b"\n")
    except EOFError:
        raise InvalidInput(f"{source}: a saved cycle that was cut off") from None
    except (OSError, zlib.error):
        raise InvalidInput(f"{source}: not a saved cycle (no gzip data)") from None
    try:
        header = msgspec.json.decode(head, type=_Header)
    except msgspec.DecodeError:
        header = _Header()
    if header.format != FORMAT:
        raise InvalidInput(f"{source}: not a saved cycle (its first line does not say {FORMAT!r})")
    if header.version != VERSION:
        made = f" by {header.program}" if header.program else ""
        raise InvalidInput(f"{source}: saved in format {header.version}{made}, this program reads format {VERSION}")
    try:
        return msgspec.json.decode(body, type=SavedCycle)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise InvalidInput(f"{source}: a broken saved cycle: {decoder_words(exc)}") from exc


def is_saved(path: Path) -> bool:
    """Whether a file looks like a saved cycle rather than a manifest; False where there is no such file.

    :raises InvalidInput: the file cannot be read.
    """
    if not path.is_file():
        return False
    try:
        with path.open("rb") as stream:
            return stream.read(len(_GZIP)) == _GZIP
    except OSError as exc:
        raise InvalidInput(f"file {str(path)!r}: {exc.strerror}") from exc


def write(path: Path, saved: SavedCycle, program: str = "") -> None:
    """Write a cycle to a file.

    :raises InvalidInput: the file cannot be written.
    """
    try:
        path.write_bytes(dump(saved, program))
    except OSError as exc:
        raise InvalidInput(f"file {str(path)!r}: {exc.strerror}") from exc


def read(path: Path) -> SavedCycle:
    """Read a cycle from a file; errors as in `parse`."""
    return parse(read_bytes(path), str(path))
