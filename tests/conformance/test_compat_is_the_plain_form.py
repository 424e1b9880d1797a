"""Under ``compat: volcano`` a cycle decides what the plain form of Volcano's rules decides in every order of things."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from pumice_conformance.cases import Case as ReadCase
from pumice_conformance.cases import read
from pumice_conformance.runner import CaseOutcome, Result, run
from volcano_actions import decide
from volcano_draws import drawn
from volcano_mutations import Case, stated
from volcano_world import NotModelled

from effort import examples
from pumice.framework.registry import default_registry

CASES = Path(__file__).parent / "cases" / "rules.jsonl"
MANY = 80
"""Runs of the model after which what never varied is taken not to vary."""
BLOCK = 20


def outcome(case: Case) -> Result:
    return run(ReadCase(case["id"], case), default_registry())


@pytest.mark.law
@pytest.mark.parametrize("block", range(examples(2000) // BLOCK))
@pytest.mark.part(3)
def test_a_cycle_decides_as_the_plain_form_does(block: int) -> None:
    """A few runs of the model say most; where they do not agree with us, many runs are asked."""
    modelled = 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        case = drawn(Random(seed))
        try:
            case["expect"] = stated(case)
            found = outcome(case)
            if found.outcome is not CaseOutcome.PASSED:
                case["expect"] = stated(case, MANY)
                found = outcome(case)
        except NotModelled:
            continue
        modelled += 1
        assert found.outcome is CaseOutcome.PASSED, (seed, found.details, json.dumps(case))
    assert modelled >= BLOCK // 2


def test_the_plain_form_decides_the_cases_that_are_written_down() -> None:
    """Those of the rules that it models; what it states of them is what they say."""
    tried = 0
    for case in read([CASES]):
        if case.data["profile"] != "volcano":
            continue
        try:
            found = decide(case.data, 0)
        except NotModelled:
            continue
        tried += 1
        expected = case.data["expect"]
        if "binds" in expected:
            assert found["binds"] == expected["binds"], case.id
        if "evictions" in expected:
            assert found["evictions"] == sorted(expected["evictions"]), case.id
    assert tried >= 5
