"""Cases in the conformance format that follow from what is written about Volcano, not from runs of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pumice_conformance.cases import Case, read
from pumice_conformance.runner import CaseOutcome, run

from pumice.framework.registry import default_registry

CASES = [*read([Path(__file__).parent / "cases"])]


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_cycle_decides_as_the_case_says(case: Case) -> None:
    result = run(case, default_registry())
    assert result.outcome is CaseOutcome.PASSED, result.details
