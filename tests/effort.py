"""On how many random examples a law is tried: all in CI (``make test-more``), a part of them in ``make test``."""

from __future__ import annotations

import os

WHOLE = bool(os.environ.get("PUMICE_TEST_MORE"))
PART = 20


def examples(whole: int) -> int:
    """So many examples in CI; a twentieth of them, and never fewer than 10, in a plain run."""
    return whole if WHOLE else max(whole // PART, min(whole, 10))
