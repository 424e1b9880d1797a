"""How policies are served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pumice.errors import InvalidInput
from pumice.extender.wire.dialects import DIALECTS
from pumice.extender.wire.verbs import VERBS

MEBI: Final = 2**20


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator may set.

    :raises InvalidInput: an unknown verb or dialect.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    """Verb -> the path under which it is asked, where that is not its own name."""
    dialect: str = ""
    """The only dialect that is understood; empty: every question is answered in the dialect it came in."""
    max_body: int = 256 * MEBI
    """Bytes of a request; a snapshot of a large cluster is large."""
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
