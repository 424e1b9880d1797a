"""How policies are served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pumice.errors import InvalidInput
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import VERBS

MEBI: Final = 2**20


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator may set.

    :raises InvalidInput: an unknown verb or dialect, or a limit that is none.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    """Verb -> the path under which it is asked, where that is not its own name."""
    dialect: str = ""
    """The only dialect that is understood; empty: every question is answered in the dialect it came in."""
    max_body: int = 256 * MEBI
    """Bytes of a request; a snapshot of a large cluster is large."""
    max_in_flight: int = 512 * MEBI
    """Bytes of all requests that are being received or answered at one time."""
    max_connections: int = 1024
    """Exchanges at one time; who comes beyond is told to come again."""
    body_timeout: float = 30.0
    """Seconds in which a request must have come whole."""
    token_file: Path | None = None
    """Questions must carry the bearer token that stands in this file."""
    compat: str | None = None
    """``volcano``: the served policies run with Volcano's own behaviour."""

    def __post_init__(self) -> None:
        if self.dialect and self.dialect not in DIALECTS:
            raise InvalidInput(f"dialect: must be one of {', '.join(DIALECTS)}, got {self.dialect!r}")
        for verb in self.paths:
            if verb not in VERBS:
                raise InvalidInput(f"verb {verb!r}: not one of {', '.join(VERBS)}")
        for name in ("max_body", "max_in_flight", "max_connections", "body_timeout"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"{name}: must be above 0, got {getattr(self, name)}")
