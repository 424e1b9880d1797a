"""A what-if in words: what becomes of a job, and of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.answers.standing import Share
from pumice.answers.what_if.effects import QueueStandings, SupposedStart, WhatIfAnswer
from pumice.answers.when.spans import span
from pumice.words import counted

_FATES: Final = {
    "runs": "runs",
    "starts": "starts now",
    "grows": "runs, and gets more pods",
    "promised": "starts once those evicted for it are gone",
    "evicted": "loses pods",
}


def fares(start: SupposedStart) -> str:
    """What becomes of a job on one side."""
    if start.fate != "waits":
        return _FATES[start.fate]
    if start.verdict == "never":
        return "waits, and will not start on this cluster as it is"
    if start.low is None or start.high is None:
        return "waits"
    return f"waits, likely starts {span(start.low, start.high)}"


def summary(answer: WhatIfAnswer) -> str:
    """All of it, in one line."""
    if not (answer.sooner or answer.later or answer.queues or answer.evictions or answer.spared):
        return "Nothing would be otherwise."
    sooner = f"{counted(answer.sooner, 'job')} would start sooner" if answer.sooner else "No job would start sooner"
    return f"{sooner}, {f'{answer.later:,} later or lose pods' if answer.later else 'none later'}."


def counts(answer: WhatIfAnswer) -> Iterator[tuple[str, int, int]]:
    """What is counted on both sides: in words, as it is, as it would be."""
    yield "jobs that the next cycle starts", answer.starting.before, answer.starting.after
    yield "jobs that wait after it", answer.waiting.before, answer.waiting.after
    yield "pods that it evicts", answer.evicted.before, answer.evicted.after


def shares(standings: QueueStandings) -> Iterator[tuple[str, Share | None, Share | None]]:
    """The resources of a queue that stand otherwise: as it is, as it would be."""
    before, after = (
        {share.resource: share for share in side.shares} if side is not None else {}
        for side in (standings.before, standings.after)
    )
    for resource in dict.fromkeys((*before, *after)):
        if before.get(resource) != after.get(resource):
            yield resource, before.get(resource), after.get(resource)
