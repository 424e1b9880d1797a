"""The one failure of this package."""

from __future__ import annotations

from pumice.errors import PumiceError


class WireError(PumiceError):
    """A message cannot be read or written; names the verb, the field, the value and the rule."""

    def __init__(self, verb: str, detail: str) -> None:
        super().__init__(f"extender {verb}: {detail}")
        self.verb, self.detail = verb, detail
