"""Why tasks fit nowhere, by job and task."""

from __future__ import annotations

from pumice.engine.diagnosis import FitError


class FitErrors(dict[str, dict[str, FitError]]):
    """Job -> task -> why it fits nowhere."""

    def of(self, uid: str) -> dict[str, FitError]:
        """What was found out about the tasks of a job; can be changed."""
        return self.setdefault(uid, {})
