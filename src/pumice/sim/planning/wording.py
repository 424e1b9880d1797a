"""What a plan came to, in sentences."""

from __future__ import annotations

from pumice.sim.planning import Sized
from pumice.sim.results.gates import Gate
from pumice.sim.results.pairs import FEWEST
from pumice.words import counted


def answer_in_words(sized: Sized, goal: Gate) -> str:
    """How many nodes the goal needs."""
    if sized.found.answer is None:
        most = sized.tried[-1].count
        return f"{goal.text}: not met with up to {_nodes(most)} of {sized.group} (now {sized.now})."
    step = sized.found.answer - sized.now
    than = "as many as now" if not step else f"{abs(step)} {'more' if step > 0 else 'fewer'} than now"
    text = f"{goal.text}: {_nodes(sized.found.answer)} of {sized.group}, {than}."
    if sized.by_formula is not None:
        text += f" A closed formula (M/G/c, no gangs, nodes or quotas) says {sized.by_formula}."
    return text


def remarks(sized: Sized, goal: Gate, seeds: int) -> list[str]:
    """What is doubtful about the answer."""
    said = [
        f"more is not always better here: {goal.text} is met with {_nodes(fewer)} and missed with {more}"
        for fewer, more in sized.found.broken
    ]
    answer = sized.found.answer
    one = next((tried for tried in sized.tried if tried.count == answer), None)
    if one is not None and not one.sure and seeds < FEWEST:
        many = f"{seeds} seed{'' if seeds == 1 else 's'}"
        said.append(f"{many} cannot tell whether the goal is met or it was chance; at least {FEWEST} are needed")
    elif one is not None and not one.sure:
        surely = next((t.count for t in sized.tried if t.meets and t.sure and t.count >= one.count), None)
        more = f"; with {surely} it surely is" if surely is not None else ""
        said.append(f"the interval at {_nodes(one.count)} holds the goal, so that it is not sure to be met{more}")
    never = next((tried.never_fit[0] for tried in sized.tried if tried.never_fit), None)
    if never is not None:
        said.append(never)
    return said


def _nodes(count: int) -> str:
    return counted(count, "node")
