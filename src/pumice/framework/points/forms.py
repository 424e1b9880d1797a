"""Answers in the forms that authors write them, read into the one form that rules understand.

A reader takes (plugin, answer) and raises TypeError or ValueError for an invalid answer. The guard around it makes that
a failure of the plugin, reported at the author's line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from pumice.errors import shown, words_of
from pumice.model.limit import Limit
from pumice.model.node import Node
from pumice.model.reason import PASS, Unfit, Verdict
from pumice.model.task import Task

PERMIT, ABSTAIN, REJECT = 1, 0, -1
Ballot: TypeAlias = Verdict | None
"""A vote with what was said about it; None abstains."""
Choice: TypeAlias = tuple[Sequence[Task], int]
"""Victims with a vote: 0 abstains."""


def verdict(plugin: str, answer: Any) -> Verdict:
    """Yes or no with a reason: a truth value, reject(text), text (a no), or None (a yes)."""
    if answer is PASS or answer is True or answer is None:
        return PASS
    if answer is False:
        return Verdict(False, plugin=plugin)
    if isinstance(answer, Verdict):
        return answer if answer.passed is True else _worded(plugin, answer)
    if isinstance(answer, str):
        return Verdict(False, words_of(answer), plugin)
    raise TypeError(f"an answer is a truth value or reject(text), got {shown(answer)}")


def _worded(plugin: str, answer: Verdict) -> Verdict:
    """A verdict with the plugin that it comes from, and words that can be written anywhere."""
    if not isinstance(answer.passed, bool):
        raise TypeError(f"a verdict passes or not: True or False, got {shown(answer.passed)}")
    if answer.limits and not all(isinstance(limit, Limit) for limit in answer.limits):
        raise TypeError(f"limits are of the class Limit, got {shown(answer.limits)}")
    text, reason = words_of(answer.text), words_of(answer.reason)
    if answer.plugin and text is answer.text and reason is answer.reason:
        return answer
    return answer._replace(plugin=answer.plugin or plugin, text=text, reason=reason)


def refused(plugin: str, no: Unfit) -> Verdict:
    """A raised Unfit as the no that it is."""
    return Verdict(False, no.text, plugin, code=no.code)


@lru_cache(maxsize=256)
def _plain(plugin: str, answer: bool) -> Verdict:
    return Verdict(answer, plugin=plugin)


def truth(plugin: str, answer: Any) -> Verdict:
    """A plain yes or no, perhaps with a text; the plugin that says yes is named."""
    if isinstance(answer, bool):
        return _plain(plugin, answer)
    if isinstance(answer, Verdict):
        return _worded(plugin, answer)
    raise TypeError(f"an answer is True or False, got {shown(answer)}")


def ballot(plugin: str, answer: Any) -> Ballot:
    """A vote: True is Permit, False is Reject, numbers by sign, None or 0 abstains."""
    if answer is None:
        return None
    if isinstance(answer, (bool, Verdict)):
        return verdict(plugin, answer)
    if isinstance(answer, (int, float)) and not math.isnan(answer):
        return None if answer == 0 else Verdict(answer > 0, plugin=plugin)
    raise TypeError(f"a vote is a truth value, a number or None, got {shown(answer)}")


def comparison(_: str, answer: Any) -> int:
    """Below 0: left first; above 0: right first."""
    if isinstance(answer, bool) or not isinstance(answer, (int, float)) or math.isnan(answer):
        raise TypeError(f"a comparison is a number, got {shown(answer)}")
    return (answer > 0) - (answer < 0)


def number(_: str, answer: Any) -> float:
    """A finite number."""
    if isinstance(answer, bool) or not isinstance(answer, (int, float)):
        raise TypeError(f"a score is a number, got {shown(answer)}")
    if not math.isfinite(answer):
        raise ValueError(f"a score must be a finite number, got {answer}")
    return float(answer)


def count(_: str, answer: Any) -> int:
    """A whole number."""
    if isinstance(answer, bool) or not isinstance(answer, int):
        raise TypeError(f"must be a whole number, got {shown(answer)}")
    return answer


def key(_: str, answer: Any) -> Any:
    """A value that can be looked up."""
    hash(answer)
    return answer


def tasks(_: str, answer: Any) -> list[Task]:
    """A list of tasks."""
    if not isinstance(answer, (list, tuple, set, frozenset)) or not all(isinstance(t, Task) for t in answer):
        raise TypeError(f"an answer is a list of tasks, got {shown(answer)}")
    return list(answer)


def victims(plugin: str, answer: Any) -> Choice:
    """(victims, vote): a bare list is (list, Permit), None abstains."""
    if answer is None:
        return (), ABSTAIN
    if isinstance(answer, tuple) and len(answer) == 2 and not isinstance(answer[0], Task):
        chosen, said = answer
        vote = ballot(plugin, said)
        return tasks(plugin, chosen or []), ABSTAIN if vote is None else PERMIT if vote.passed else REJECT
    if isinstance(answer, (list, tuple)):
        return tasks(plugin, answer), PERMIT
    raise TypeError(f"an answer is a list of tasks, (tasks, vote) or None, got {shown(answer)}")


def scores(plugin: str, answer: Any) -> dict[str, float]:
    """Scores by name."""
    plain = type(answer) is dict and {*map(type, answer)} == {str} and {*map(type, answer.values())} == {float}
    if plain and math.isfinite(sum(answer.values())):  # then each of them is
        return dict(answer)
    if not isinstance(answer, Mapping) or not all(isinstance(name, str) for name in answer):
        raise TypeError(f"an answer is a mapping from names to scores, got {shown(answer)}")
    return {name: number(plugin, score) for name, score in answer.items()}


def edited_scores(plugin: str, answer: Any) -> dict[str, float] | None:
    """New scores by name; None where those that were given were edited in place."""
    return None if answer is None else scores(plugin, answer)


def texts(_: str, answer: Any) -> dict[str, str]:
    """Texts by name; None is none."""
    if answer is None:
        return {}
    if isinstance(answer, Mapping) and all(isinstance(v, str) for pair in answer.items() for v in pair):
        return dict(answer)
    raise TypeError(f"an answer is a mapping from text to text, got {shown(answer)}")


def node(_: str, answer: Any) -> Node | str | None:
    """A node or its name; None leaves the choice to the next."""
    if answer is None or isinstance(answer, (Node, str)):
        return answer
    raise TypeError(f"an answer is a node, its name or None, got {shown(answer)}")


def job(_: str, answer: Any) -> Any:
    """A job, or None."""
    from pumice.model.job import Job

    if answer is None or isinstance(answer, Job):
        return answer
    raise TypeError(f"an answer is a job or None, got {shown(answer)}")


def groups(_: str, answer: Any) -> list[list[Any]] | None:
    """Lists of lists; None leaves it to the next."""
    if answer is None:
        return None
    if isinstance(answer, (list, tuple)) and all(isinstance(group, (list, tuple)) for group in answer):
        return [list(group) for group in answer]
    raise TypeError(f"an answer is a list of lists, got {shown(answer)}")


def node_sets(plugin: str, answer: Any) -> list[list[Node]]:
    """Sets of nodes, to be tried in turn."""
    found = groups(plugin, answer)
    if found is None or not all(isinstance(n, Node) for group in found for n in group):
        raise TypeError(f"an answer is a list of lists of nodes, got {shown(answer)}")
    return found


def iterator(_: str, answer: Any) -> Iterator[Any] | None:
    """Something that gives one thing after the other; None gives nothing."""
    if answer is None or isinstance(answer, Iterator):
        return answer
    raise TypeError(f"an answer is an iterator, got {shown(answer)}")


def nothing(_: str, __: Any) -> None:
    """The value is not an answer."""
