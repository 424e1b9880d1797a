"""Texts from files, with an error that names the file where there is none."""

from __future__ import annotations

from pathlib import Path

from pumice.errors import InvalidInput


def read_text(path: Path, what: str = "file") -> str:
    """The text of a file, which is *what* to whoever reads the error.

    :raises InvalidInput: it cannot be read, or is no text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "is not UTF-8 text"
        raise InvalidInput(f"{what} {str(path)!r}: {why}") from exc
