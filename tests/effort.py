"""On how many random examples a law is tried: all in CI (``make test-more``), a part of them in ``make test``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

WHOLE = bool(os.environ.get("PUMICE_TEST_MORE"))
PART = 20


def examples(whole: int) -> int:
    """So many examples in CI; a twentieth of them, and never fewer than 10, in a plain run."""
    return whole if WHOLE else max(whole // PART, min(whole, 10))


def one_in(every: int, values: Iterable[Any]) -> list[Any]:
    """Values of a parameter: the first of so many is tried in every run, the others by make test-more.

    A tuple is one for each of several parameters, what `pytest.param` made keeps its name.
    """
    return [value if n % every == 0 else _slow(value) for n, value in enumerate(values)]


def _slow(value: Any) -> Any:
    if hasattr(value, "marks"):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.slow])
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
