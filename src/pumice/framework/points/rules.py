"""How many answers become one. Tiers are walked here and nowhere else.

A rule reads answers (`forms`), folds guarded calls, tier by tier, into one call, and says what a plugin that failed is
taken to have said. Folds specialise when they are bound: nobody is a constant, one callback is its own guarded call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from operator import add
from typing import Any, Final, TypeAlias

import numpy as np

from pumice.config.catalogue import Stop
from pumice.framework.points import forms
from pumice.model.node import Node
from pumice.model.reason import PASS, Unfit, Verdict
from pumice.model.task import Task

Call: TypeAlias = Callable[..., Any]
Tiers: TypeAlias = Sequence[Sequence[Call]]
"""Guarded calls of one point, tier by tier."""


class OnFailure(Enum):
    """The effect of a failing callback on the decision."""

    REJECT = "reject this candidate"
    ABSTAIN = "abstain"


_R, _A = OnFailure.REJECT, OnFailure.ABSTAIN


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """How the answers of several plugins and tiers become one."""

    name: str
    text: str
    read: Callable[[str, Any], Any]
    """(plugin, what its author wrote) -> as the fold understands it; raises TypeError or ValueError."""
    fold: Callable[[Tiers, Any], Call]
    """(guarded calls, what holds when nobody answers) -> the point as one call."""
    failed: Mapping[OnFailure, Callable[[str], Any]]
    """The assumed answer of a plugin that failed."""
    refuses: Callable[[str, Unfit], Any] | None = None
    """The text of a raised Unfit; None for any other failure."""
    stop: Stop = Stop.NEVER
    merge: Callable[[Any, Any], Any] = field(default=add)
    """For what is answered per row or per node: (so far, one more) -> both."""


def _flat(tiers: Tiers) -> list[Call]:
    return [call for tier in tiers for call in tier]


# -- yes and no -----------------------------------------------------------------------------------------------------
def all_pass(tiers: Tiers, nobody: Verdict) -> Call:
    """Everyone must pass; the first rejection is the answer and ends the asking."""
    calls = _flat(tiers)
    if not calls:
        return lambda *_: nobody
    if len(calls) == 1:
        return calls[0]

    def ask(*args: Any) -> Verdict:
        for call in calls:
            said: Verdict = call(*args)
            if not said.passed:
                return said
        return PASS

    return ask


def any_yes(tiers: Tiers, nobody: Verdict) -> Call:
    """The first yes is the answer."""
    calls = _flat(tiers)
    if not calls:
        return lambda *_: nobody
    if len(calls) == 1:
        return calls[0]

    def ask(*args: Any) -> Verdict:
        for call in calls:
            said: Verdict = call(*args)
            if said.passed:
                return said
        return NO

    return ask


def vote(tiers: Tiers, nobody: Verdict) -> Call:
    """A reject ends the asking; a permit ends it when its tier is done; all abstaining is as if nobody were there."""
    groups = [list(tier) for tier in tiers if tier]

    def ask(*args: Any) -> Verdict:
        for tier in groups:
            permitted = False
            for call in tier:
                said: Verdict | None = call(*args)
                if said is not None:
                    if not said.passed:
                        return said
                    permitted = True
            if permitted:
                return PASS
        return nobody

    return ask if groups else lambda *_: nobody


def first_tier(tiers: Tiers, nobody: Verdict) -> Call:
    """In the first tier with anybody, all must say yes."""
    calls = next((list(tier) for tier in tiers if tier), [])
    if not calls:
        return lambda *_: nobody

    def ask(*args: Any) -> Verdict:
        for call in calls:
            said: Verdict = call(*args)
            if not said.passed:
                return said
        return PASS

    return ask


NO: Final = Verdict(False)


def _no(plugin: str) -> Verdict:
    return Verdict(False, "the plugin failed", plugin)


def _yes(plugin: str) -> Verdict:
    return Verdict(True, "the plugin failed", plugin)


_VERDICT: Final = {_R: _no, _A: lambda _: PASS}
ALL_PASS: Final = Rule(
    *("all pass", "all must pass; the first rejection is the answer", forms.verdict, all_pass, _VERDICT),
    refuses=forms.refused,
    stop=Stop.ANSWER,
)
ANY: Final = Rule(
    *("any", "one yes is a yes", forms.truth, any_yes, {_R: _yes, _A: lambda _: NO}),
    refuses=lambda plugin, no: Verdict(True, no.text, plugin),
    stop=Stop.ANSWER,
)
VOTE: Final = Rule(
    "vote",
    "the first tier that rejects or permits decides",
    *(forms.ballot, vote, {_R: _no, _A: lambda _: None}),
    refuses=forms.refused,
    stop=Stop.TIER,
)
FIRST_TIER: Final = Rule(
    "first tier",
    "the first tier in which anybody answers decides; there all must say yes",
    *(forms.truth, first_tier, {_R: _yes, _A: lambda _: NO}),
    refuses=forms.refused,
    stop=Stop.FIRST_TIER,
)


# -- orders ---------------------------------------------------------------------------------------------------------
def first_difference(tiers: Tiers, nobody: int) -> Call:
    """The first comparison that is not 0."""
    calls = _flat(tiers)
    if not calls:
        return lambda *_: nobody
    if len(calls) == 1:
        return calls[0]

    def ask(*args: Any) -> int:
        for call in calls:
            said: int = call(*args)
            if said:
                return said
        return 0

    return ask


ORDER: Final = Rule(
    "order",
    "the first non-zero comparison decides",
    *(forms.comparison, first_difference, {_R: lambda _: 1, _A: lambda _: 0}),
    stop=Stop.ANSWER,
)


# -- victims --------------------------------------------------------------------------------------------------------
def _victims(tiers: Tiers, nobody: list[Task] | None, *, as_volcano: bool) -> Call:
    def ask(evictor: Any, candidates: Sequence[Task]) -> list[Task] | None:
        chosen: list[Task] | None = None
        for tier in tiers:
            decided = False
            for call in tier:
                allowed, said = call(evictor, list(candidates))
                if said == 0:
                    continue
                decided = True
                if not allowed:
                    chosen = None
                    if as_volcano:
                        break
                    return []
                if chosen is None:
                    chosen = list(allowed)
                    continue
                names = {t.uid for t in allowed}
                chosen = [t for t in chosen if t.uid in names]
                if not chosen:
                    if not as_volcano:
                        return []
                    chosen = None
            if chosen is not None and (decided or as_volcano):
                return chosen
        return nobody

    return ask


def victims(tiers: Tiers, nobody: list[Task] | None) -> Call:
    """Tier by tier the intersection of what each plugin allows; an empty answer is a veto."""
    return _victims(tiers, nobody, as_volcano=False)


def victims_of_volcano(tiers: Tiers, nobody: list[Task] | None) -> Call:
    """As Volcano has it: an empty answer or intersection counts as undecided and passes the decision on."""
    return _victims(tiers, nobody, as_volcano=True)


def union(tiers: Tiers, nobody: list[Task]) -> Call:
    """The union of a tier's answers; the first tier with any decides."""

    def ask(candidates: Sequence[Task]) -> list[Task]:
        for tier in tiers:
            found: dict[str, Task] = {}
            for call in tier:
                for task in call(list(candidates)):
                    found.setdefault(task.uid, task)
            if found:
                return list(found.values())
        return list(nobody)

    return ask


_CHOICE: Final = {_R: lambda _: ((), forms.REJECT), _A: lambda _: ((), forms.ABSTAIN)}
VICTIMS: Final = Rule(
    "victims",
    "tier by tier: the intersection of the answers; the first tier that decides is the answer",
    *(forms.victims, victims, _CHOICE),
    refuses=lambda *_: ((), forms.REJECT),
    stop=Stop.TIER,
)
VICTIMS_OF_VOLCANO: Final = Rule(
    "victims (Volcano)",
    "as Volcano: tier by tier the intersection; an empty one passes the decision on",
    *(forms.victims, victims_of_volcano, _CHOICE),
    refuses=lambda *_: ((), forms.REJECT),
    stop=Stop.TIER,
)
UNION: Final = Rule(
    "union",
    "the union of a tier; the first tier with any answer decides",
    *(forms.tasks, union, {_R: lambda _: [], _A: lambda _: []}),
    stop=Stop.TIER,
)


# -- the rest -------------------------------------------------------------------------------------------------------
def first_answer(tiers: Tiers, nobody: Any) -> Call:
    """The first answer that is not None."""
    calls = _flat(tiers)

    def ask(*args: Any) -> Any:
        for call in calls:
            said = call(*args)
            if said is not None:
                return said
        return nobody

    return ask


def broadcast(tiers: Tiers, nobody: Any) -> Call:
    """All are called, in order."""
    calls = _flat(tiers)

    def ask(*args: Any) -> Any:
        for call in calls:
            call(*args)
        return nobody

    return ask


def collected(tiers: Tiers, nobody: list[Any]) -> Call:
    """Every answer that is one, in order."""
    calls = _flat(tiers)

    def ask(*args: Any) -> list[Any]:
        return [*nobody, *(said for call in calls if (said := call(*args)) is not None)]

    return ask


def merged(tiers: Tiers, nobody: Mapping[str, str]) -> Call:
    """One mapping; later ones override."""
    calls = _flat(tiers)

    def ask(*args: Any) -> dict[str, str]:
        out = dict(nobody)
        for call in calls:
            out.update(call(*args))
        return out

    return ask


def summed(tiers: Tiers, nobody: float) -> Call:
    """Added up; None where one of them drops the candidate."""
    calls = _flat(tiers)

    def ask(*args: Any) -> float | None:
        total = nobody
        for call in calls:
            said: float | None = call(*args)
            if said is None:
                return None
            total = total + said
        return total

    return ask


def summed_by_name(tiers: Tiers, nobody: float) -> Call:
    """Added up name by name, for the names that were asked about."""
    calls = _flat(tiers)

    def ask(subject: Any, groups: Mapping[str, Any]) -> dict[str, float]:
        total = dict.fromkeys(groups, nobody)
        for n, call in enumerate(calls):
            said = call(subject, dict(groups))
            if n == 0 and not nobody:
                total |= said
                continue
            for name, score in said.items():
                total[name] = total.get(name, nobody) + score
        return total

    return ask


def splits(tiers: Tiers, nobody: Any) -> Call:
    """Each splits every set that the one before it gave."""
    calls = _flat(tiers)
    if not calls:
        return lambda *_: nobody

    def ask(job: Any, sub_job: Any, tasks: Sequence[Task], nodes: Sequence[Node]) -> list[list[Node]]:
        sets = [list(nodes)]
        for call in calls:
            sets = [part for one in sets for part in call(job, sub_job, list(tasks), list(one)) if part]
        return sets

    return ask


def _first_objection(code: Any, own: Any) -> Any:
    return np.where(code == 0, own, code)


FIRST: Final = Rule(
    *("first", "the first answer that is not None", forms.groups, first_answer, {_R: lambda _: [], _A: lambda _: None}),
    stop=Stop.ANSWER,
)
FIRST_NODE: Final = Rule(
    *("first", "the first answer that is not None", forms.node, first_answer, {_R: lambda _: "", _A: lambda _: None}),
    stop=Stop.ANSWER,
)
FIRST_JOB: Final = Rule(
    *("first", "the first answer that is not None", forms.job, first_answer, {_R: lambda _: None, _A: lambda _: None}),
    stop=Stop.ANSWER,
)
BROADCAST: Final = Rule(
    "broadcast", "all are called", forms.nothing, broadcast, {_R: lambda _: None, _A: lambda _: None}
)
COLLECT: Final = Rule(
    "collect", "every answer, in order", forms.iterator, collected, {_R: lambda _: None, _A: lambda _: None}
)
MERGE: Final = Rule("merge", "merged, later ones override", forms.texts, merged, {_R: lambda _: {}, _A: lambda _: {}})
SUM: Final = Rule(
    "sum", "added up", forms.number, summed, {_R: lambda _: None, _A: lambda _: 0.0}, refuses=lambda *_: None
)
SUM_BY_NAME: Final = Rule("sum", "added up", forms.scores, summed_by_name, {_R: lambda _: {}, _A: lambda _: {}})
EDITS: Final = Rule(
    "edit",
    "each plugin edits its own scores",
    forms.edited_scores,
    first_answer,
    {_R: lambda _: {}, _A: lambda _: None},
)
CHAIN: Final = Rule(
    *(
        "chain",
        "each splits what the one before it gave",
        forms.node_sets,
        splits,
        {_R: lambda _: [], _A: lambda _: []},
    ),
)
FITS: Final = Rule(
    "all pass",
    "all must pass; the first objection is the answer",
    *(forms.verdict, all_pass, _VERDICT),
    refuses=forms.refused,
    stop=Stop.ANSWER,
    merge=_first_objection,
)
"""For answers per node: what is folded are reason numbers, 0 for none."""
SCORES: Final = Rule("sum", "added up", forms.number, summed, {_R: lambda _: None, _A: lambda _: 0.0})
"""For answers per node: what is folded are arrays of scores."""


# -- hints: what a callback declares beside its answer --------------------------------------------------------------
def least(tiers: Tiers, nobody: int) -> Call:
    """The least of the declared numbers, never below 0; 0 if a plugin declares none."""
    calls = _flat(tiers)

    def ask(*args: Any) -> int:
        room = nobody
        for call in calls:
            said: int | None = call(*args)
            if said is None:
                return 0
            room = min(room, said)
        return max(room, 0)

    return ask


def all_keys(tiers: Tiers, nobody: Any) -> Call:
    """The declarations of all plugins together; None if a plugin declares none."""
    calls = _flat(tiers)

    def ask(*args: Any) -> tuple[Any, ...] | None:
        keys = tuple([call(*args) for call in calls])
        return None if any(k is None for k in keys) else tuple(k[0] for k in keys)

    return ask


def _undeclared(_: str) -> None:
    return None


_HINT: Final = {_R: _undeclared, _A: _undeclared}
LEAST: Final = Rule("least", "the least; 0 where somebody does not say", forms.count, least, _HINT)
ALL_KEYS: Final = Rule(
    "keys", "all together; none where somebody does not say", lambda _, k: (forms.key(_, k),), all_keys, _HINT
)
