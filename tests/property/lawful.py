"""On how many random clusters a law is tried."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

from effort import examples

EXAMPLES = int(os.environ.get("PUMICE_LAW_EXAMPLES", "0"))
"""How many clusters each law is tried on; 0: a few, always the same. `tools/laws.py` tries many, in pieces."""


def lawful(whole: int) -> settings:
    """So many examples in CI, a part of them in a plain run; the same ones each time."""
    return settings(
        max_examples=EXAMPLES or examples(whole),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=not EXAMPLES,
        database=None,
        phases=(Phase.explicit, Phase.generate) if EXAMPLES else tuple(Phase),  # a long run finds, a short one shrinks
        print_blob=bool(EXAMPLES),
    )
