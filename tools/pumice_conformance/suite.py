"""Many cases at once: the list of mended defects, and the counts."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pumice import yamls
from pumice.errors import InvalidInput
from pumice.framework.registry import Registry
from pumice_conformance.cases import read
from pumice_conformance.runner import CaseOutcome, Result, run

log = logging.getLogger("pumice_conformance")


@dataclass(slots=True)
class Suite:
    """The results of a run."""

    results: list[Result] = field(default_factory=list)
    missing: Counter[str] = field(default_factory=Counter)
    """What does not exist -> how many cases were skipped for want of it."""

    @property
    def counts(self) -> Counter[CaseOutcome]:
        """Cases by outcome."""
        return Counter(r.outcome for r in self.results)

    @property
    def observed(self) -> tuple[int, int]:
        """(cases that decide what the original was seen to decide, cases that say what that was)."""
        looked = [r for r in self.results if r.deviations is not None]
        return sum(1 for r in looked if not r.deviations), len(looked)


def differs() -> dict[str, str]:
    """Case -> row of docs/differences.md, for cases whose expectation is a defect that Pumice mends without a switch.

    :raises InvalidInput: the list is not a mapping of case ids to rows.
    """
    return parse_differs(Path(__file__).with_name("differs.yaml").read_text(encoding="utf-8"))


def parse_differs(text: str) -> dict[str, str]:
    """The list of mended defects from its text; see `differs`."""
    data = yamls.load(text, "differs.yaml") or {}
    if not isinstance(data, dict) or not all(isinstance(k, str) and v for k, v in data.items()):
        raise InvalidInput("differs.yaml: must map a case id to a row of docs/differences.md")
    return {case: str(row) for case, row in data.items()}


def run_suite(
    paths: list[Path],
    registry: Registry,
    *,
    text: str = "",
    skip_missing: bool = False,
    listed: Mapping[str, str] | None = None,
    needs: Collection[str] = (),
    without_needs: Collection[str] = (),
) -> Suite:
    """Run every case below *paths* whose id contains *text*; *listed* stands in for `differs`.

    *needs*: only cases that need all of these; *without_needs*: only cases that need none of these.

    :raises InvalidInput: a path that does not exist.
    """
    known = differs() if listed is None else listed
    suite = Suite()
    for case in read(paths):
        if text not in case.id or not case.needs.issuperset(needs) or not case.needs.isdisjoint(without_needs):
            continue
        try:
            result = run(case, registry, skip_missing=skip_missing)
        except Exception as exc:  # one case that breaks the scheduler must not hide the others
            log.debug("case %s", case.id, exc_info=exc)
            result = Result(case.id, CaseOutcome.FAILED, [f"crashed: {type(exc).__name__}: {exc}"])
        if case.id in known:
            result = _judged(result, known[case.id])
        suite.results.append(result)
        suite.missing.update(m for m in re.split(", ", result.missing) if m)
    return suite


def _judged(result: Result, row: str) -> Result:
    """A listed case: it must differ."""
    if result.outcome is CaseOutcome.FAILED:
        return Result(result.id, CaseOutcome.DIFFERS, [f"docs/differences.md, {row}", *result.details])
    if result.outcome is CaseOutcome.PASSED:
        text = f"listed in differs.yaml (docs/differences.md, {row}) but passes: take it off the list"
        return Result(result.id, CaseOutcome.FAILED, [text])
    return result
