"""What a plan came to, in sentences."""

from __future__ import annotations

from pumice.sim.planning import Sized
from pumice.sim.planning.goals import CONFIDENCE, SHARE_CONFIDENCE, Goal
from pumice.sim.results.intervals import FEWEST
from pumice.words import counted


def answer_in_words(sized: Sized, goal: Goal) -> str:
    """Return how many nodes the goal needs, on the days that were played and with confidence."""
    days = max(one.days for one in sized.tried)
    if sized.found.answer is None:
        most = sized.tried[-1].count
        return f"{goal.text}: not met with up to {_nodes(most)} of {sized.group} (now {sized.now})."
    by = _nodes(sized.found.answer)
    if goal.share is None:
        text = f"{goal.text}: {by} of {sized.group} by the mean of {'this day' if days == 1 else f'these {days} days'}"
        confidence = CONFIDENCE
    else:
        one = next(tried for tried in sized.tried if tried.count == sized.found.answer)
        good = 0 if one.judged is None else one.judged.days_met
        text = f"{goal.text}: {by} of {sized.group} on the days played ({good} of {days})"
        confidence = SHARE_CONFIDENCE
    sure = "not known" if sized.sure is None else str(sized.sure)
    text += f"; {sure} with {100 * confidence:.0f} % confidence (now {sized.now})."
    if sized.by_formula is not None:
        text += f" A closed formula (M/G/c, no gangs, nodes or quotas) says {sized.by_formula}."
    return text


def remarks(sized: Sized, goal: Goal, seeds: int) -> list[str]:
    """Return what is doubtful about the answer."""
    said = [
        f"more is not always better here: {goal.text} is met with {_nodes(fewer)} and missed with {more}"
        for fewer, more in sized.found.broken
    ]
    needed, many = goal.days_needed, counted(seeds, "day")
    if needed is not None and seeds < needed:
        assert goal.share is not None
        part = f"{goal.share.numerator} in {goal.share.denominator}"
        said.append(f"{many} cannot tell whether the goal is met: at least {needed} are needed to be sure of {part}")
    elif needed is None and seeds < FEWEST:
        said.append(f"{many} cannot tell whether the goal is met or it was chance; at least {FEWEST} are needed")
    elif sized.found.answer is not None and sized.sure is None:
        most = sized.tried[-1].count
        said.append(f"it is not sure with up to {_nodes(most)} either; more days would tell, or a larger --between")
    never = next((tried.never_fit[0] for tried in sized.tried if tried.never_fit), None)
    if never is not None:
        said.append(never)
    return said


def _nodes(count: int) -> str:
    return counted(count, "node")
