"""Files that commands write because an option names them: what goes wrong with one names the option and the file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from pumice.errors import InvalidInput

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Output(io.FileIO):
    """A file that says which option named it when it cannot be written."""

    def __init__(self, option: str, path: Path) -> None:
        self._whose = f"{option} {str(path)!r}"
        try:
            super().__init__(path, "w")
        except OSError as exc:
            raise InvalidInput(f"{self._whose}: {exc.strerror}") from exc

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return super().write(content)
        except OSError as exc:
            raise InvalidInput(f"{self._whose}: {exc.strerror}") from exc


def open_output(option: str, path: Path) -> io.BufferedWriter:
    """The file of an option, to be written anew.

    :raises InvalidInput: it cannot be written, now or later.
    """
    return io.BufferedWriter(_Output(option, path))


def write_output(option: str, path: Path, content: str | bytes) -> None:
    """Write the file of an option, texts as UTF-8.

    :raises InvalidInput: it cannot be written.
    """
    with open_output(option, path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)
