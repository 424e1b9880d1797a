"""What plugins print goes to stderr: stdout is for data, which a program may read."""

from __future__ import annotations

import sys
from typing import Any, Final, TextIO


class Aside:
    """Stands in for stdout: what is printed goes to stderr; `data` is where data goes."""

    def __init__(self, data: TextIO) -> None:
        self.data: Final = data

    def write(self, text: str) -> int:
        """Write to stderr."""
        return sys.stderr.write(text)

    def flush(self) -> None:
        """Flush both."""
        sys.stderr.flush()
        self.data.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def put_aside() -> None:
    """From now on, what is printed by whoever does not know better goes to stderr."""
    if not isinstance(sys.stdout, Aside):
        sys.stdout = Aside(sys.stdout)


def take_back() -> None:
    """Print as ever: somebody else sees to it from now on."""
    sys.stdout = stdout()


def stdout() -> TextIO:
    """Where data goes."""
    return sys.stdout.data if isinstance(sys.stdout, Aside) else sys.stdout
