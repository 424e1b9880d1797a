"""How many answers become one. Tiers are walked only here; answers arrive tier by tier, and lazily."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from pumice.framework.callbacks import Callback
from pumice.model.reason import PASS, Verdict
from pumice.model.task import Task

Tiers: TypeAlias = Sequence[Sequence[Callback]]
"""Enabled callbacks of one point, tier by tier."""


def first_comparison(tiers: Tiers, ask: Callable[[Callback], int]) -> int:
    """The first comparison that is not 0."""
    for tier in tiers:
        for callback in tier:
            answer = ask(callback)
            if answer:
                return answer
    return 0


def all_pass(tiers: Tiers, ask: Callable[[Callback], Verdict]) -> Verdict:
    """Everyone must pass; the first rejection is the answer and ends the asking."""
    for tier in tiers:
        for callback in tier:
            answer = ask(callback)
            if not answer.passed:
                return answer if answer.plugin else answer._replace(plugin=callback.plugin)
    return PASS


def any_true(tiers: Tiers, ask: Callable[[Callback], bool]) -> str:
    """The plugin that said yes first, or nothing."""
    for tier in tiers:
        for callback in tier:
            if ask(callback):
                return callback.plugin
    return ""


def tiered_vote(tiers: Tiers, ask: Callable[[Callback], int]) -> Verdict:
    """A reject ends the asking; a permit ends it when its tier is done; all abstaining is a yes."""
    for tier in tiers:
        permitted = False
        for callback in tier:
            answer = ask(callback)
            if answer < 0:
                return Verdict(False, plugin=callback.plugin)
            permitted |= answer > 0
        if permitted:
            return PASS
    return PASS


def first_tier_all(tiers: Tiers, ask: Callable[[Callback], bool]) -> bool:
    """In the first tier with anybody, all must say yes; nobody at all is a no."""
    for tier in tiers:
        if tier:
            return all(ask(callback) for callback in tier)
    return False


def victims(
    tiers: Tiers, ask: Callable[[Callback], tuple[Sequence[Task], int]], *, as_volcano: bool
) -> list[Task] | None:
    """Tier by tier the intersection of what each plugin allows; the first tier that decides is the answer.

    An empty answer is a veto. *as_volcano* restores the original, in which an empty answer or intersection counts as
    undecided and passes the decision on.
    """
    chosen: list[Task] | None = None
    for tier in tiers:
        decided = False
        for callback in tier:
            allowed, vote = ask(callback)
            if vote == 0:
                continue
            decided = True
            if not allowed:
                chosen = None
                if as_volcano:
                    break
                return []
            if chosen is None:
                chosen = list(allowed)
            else:
                names = {t.uid for t in allowed}
                chosen = [t for t in chosen if t.uid in names]
                if not chosen:
                    if not as_volcano:
                        return []
                    chosen = None
        if chosen is not None and (decided or as_volcano):
            return chosen
    return None


def union(tiers: Tiers, ask: Callable[[Callback], Iterable[Task]]) -> list[Task]:
    """The union of a tier's answers; the first tier with any decides."""
    for tier in tiers:
        found: dict[str, Task] = {}
        for callback in tier:
            for task in ask(callback):
                found.setdefault(task.uid, task)
        if found:
            return list(found.values())
    return []
