"""Cases of KAI: rounds of one cluster, compared with what is expected and with what KAI did."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from pumice.framework.registry import Registry
from pumice_conformance.cases import Case
from pumice_conformance.kai_comparing import GroupNames, deviations, mismatches, too_many_calls
from pumice_conformance.kai_rounds import Round, as_found, one_round, prepare
from pumice_conformance.kai_write_back import write_back


@dataclass(slots=True)
class KaiCaseOutcome:
    """The outcome of a case: what breaks an expectation, and what KAI did otherwise."""

    failures: list[str]
    deviations: list[str]


def play(case: Case, registry: Registry) -> KaiCaseOutcome:
    """Play every round of a case."""
    data = case.data
    assembly = prepare(case, registry)
    objects: dict[str, list[dict[str, Any]]] = copy.deepcopy(data.get("objects") or {})
    rounds = data.get("rounds") or {}
    until, after = int(rounds.get("untilMatch", 1)), int(rounds.get("afterMatch", 0))
    writes = bool(rounds.get("writeBack", True))
    expect, observed = data.get("expect") or {}, (data.get("observed") or {}).get("rounds") or []
    failures: list[str] = []
    differing: list[str] = []
    groups = GroupNames(case)
    seen = Round()
    for number in range(until + after if writes else 1):
        seen = one_round(case, assembly, objects, seen.minted)
        failures += seen.problems
        if number < len(observed):
            differing += [f"round {number}: {text}" for text in deviations(observed[number], seen, groups)]
        failures += too_many_calls(expect, seen, number)
        if not writes:
            return KaiCaseOutcome(failures + mismatches(expect, seen), differing)
        if number >= until:
            failures += [f"round {number}: {text}" for text in mismatches(expect, seen)]
        objects = write_back(case, objects, seen)
        if number == until - 1:
            found = as_found(case, assembly, objects)
            found.errors = seen.errors
            failures += mismatches(expect, found)
    return KaiCaseOutcome(failures, differing)
