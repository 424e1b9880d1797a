"""What somebody must be allowed to ask a question, and what he may see of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from pumice.answers.visibility import Sight
from pumice.kube.reviews import KnownUser, Reviews, Right

VOLCANO: Final = "scheduling.volcano.sh"
ALL_JOBS: Final = Right("list", VOLCANO, "podgroups")
NODES: Final = Right("list", "", "nodes")
QUEUES: Final = Right("get", VOLCANO, "queues")
EVERYTHING_RIGHTS: Final = (QUEUES, NODES, ALL_JOBS)
"""What it takes to see everything, as an operator does."""
MOST_NAMESPACES: Final = 1000
"""So many namespaces are asked about for somebody who may not see all; he is told if there are more."""
_AT_ONCE: Final = 32


def job_right(namespace: str) -> Right:
    """What it takes to read a job."""
    return Right("get", VOLCANO, "podgroups", namespace)


def trial_rights(namespace: str) -> tuple[Right, Right]:
    """What it takes to try a job: the rights to submit it."""
    return Right("create", VOLCANO, "podgroups", namespace), Right("create", "", "pods", namespace)


async def sight_of(reviews: Reviews, user: KnownUser, namespaces: Iterable[str]) -> Sight:
    """What a user may see, who may read jobs in these namespaces."""
    everywhere, nodes, queues = await asyncio.gather(*(reviews.may(user, right) for right in (ALL_JOBS, NODES, QUEUES)))
    return Sight(None if everywhere else frozenset(namespaces), nodes, queues)


async def readable(reviews: Reviews, user: KnownUser, namespaces: Iterable[str]) -> frozenset[str]:
    """Those of these namespaces in which a user may read jobs."""
    asked = sorted(namespaces)[:MOST_NAMESPACES]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def may(namespace: str) -> bool:
        async with turns:
            return await reviews.may(user, job_right(namespace))

    allowed = await asyncio.gather(*map(may, asked))
    return frozenset(namespace for namespace, yes in zip(asked, allowed, strict=True) if yes)
