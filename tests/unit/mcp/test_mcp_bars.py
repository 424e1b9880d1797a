"""Fifty jobs that wait for a cause that is built in: what an agent is told names it, in few words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from answer_desks import desk
from msgspec.structs import replace

from pumice.answers.service import Answers
from pumice.framework.registry import default_registry
from pumice.mcp.knowledge import LocalKnowledge
from pumice.mcp.tools import Tools
from pumice.model.api import QueueStatus
from pumice.testing import job, node, pod, queue

TOKENS = 1500
BYTES_A_TOKEN = 3
"""JSON of names and numbers has some four; what is counted with three is not too few."""
SIZES = (1, 2, 3, 5, 8)


class Caused(NamedTuple):
    """A cluster, and what stops the job called `it` there."""

    cause: str
    stage: str
    code: str
    make: Callable[[int], Answers]


def with_spec(**fields: Any) -> Any:
    return replace(pod("x").spec, **fields)


CAUSES = (
    Caused(
        "its queue is at its limit",
        "queue",
        "QueueRefused",
        lambda n: desk(
            queue("q", capability={"cpu": 4 * n}),
            node("n1", cpu=640),
            job("others", tasks=4, cpu=n, on="n1", queue="q"),
            job("it", tasks=n, cpu=n, queue="q"),
        ),
    ),
    Caused(
        "its queue does not exist",
        "absent",
        "UnknownQueue",
        lambda n: desk(
            node("n1", cpu=64),
            job("it", tasks=n, cpu=1, queue=f"nowhere-{n}"),
        ),
    ),
    Caused(
        "its queue is closed",
        "queue",
        "QueueRefused",
        lambda n: desk(
            replace(queue("q"), status=QueueStatus(state="Closed")),
            node("n1", cpu=64),
            job("it", tasks=n, cpu=1, queue="q", phase="Pending"),
        ),
    ),
    Caused(
        "it has fewer pods than it needs together",
        "valid",
        "NotEnoughTasks",
        lambda n: desk(
            node("n1", cpu=64),
            job("it", tasks=n, cpu=1, min_available=n + 1),
        ),
    ),
    Caused(
        "a pod is larger than every node",
        "nodes",
        "CanNeverFit",
        lambda n: desk(
            node("n1", cpu=8),
            node("n2", cpu=8),
            job("it", tasks=n, cpu=8 + n),
        ),
    ),
    Caused(
        "no node has enough left",
        "nodes",
        "NoNodeFits",
        lambda n: desk(
            *(node(f"n{i}", cpu=16) for i in range(4)),
            *(job(f"other-{i}", cpu=16 - n, on=f"n{i}") for i in range(4)),
            job("it", cpu=n + 1),
        ),
    ),
    Caused(
        "no node has the label that it selects",
        "nodes",
        "NoNodeFits",
        lambda n: desk(
            node("n1", cpu=64, labels={"disk": "slow"}),
            job("it", tasks=n, cpu=1, spec=with_spec(node_selector={"disk": "fast"})),
        ),
    ),
    Caused(
        "nodes take no new pods",
        "nodes",
        "NoNodeFits",
        lambda n: desk(
            *(node(f"n{i}", cpu=64, unschedulable=True) for i in range(n)),
            job("it", tasks=n, cpu=1),
        ),
    ),
    Caused(
        "part of the gang has no room",
        "nodes",
        "NoNodeFits",
        lambda n: desk(
            node("n1", cpu=n),
            job("it", tasks=n + 1, cpu=1),
        ),
    ),
    Caused(
        "no node has a GPU",
        "nodes",
        "CanNeverFit",
        lambda n: desk(
            node("n1", cpu=64),
            job("it", tasks=n, cpu=1, gpu=1),
        ),
    ),
)
CASES = [(cause, size) for cause in CAUSES for size in SIZES]


async def told(known: Answers, name: str, **arguments: Any) -> Any:
    found = await Tools(LocalKnowledge(known), default_registry()).call(name, arguments)
    assert not found.failed, found.data
    return found.data


def test_there_are_fifty() -> None:
    assert len(CASES) == 50


@pytest.mark.parametrize(("caused", "size"), CASES, ids=[f"{c.cause}, {n}" for c, n in CASES])
def test_why_pending_names_the_stage_and_the_code_in_few_words(caused: Caused, size: int) -> None:
    data = asyncio.run(told(caused.make(size), "why_pending", job="it"))
    why = data["answer"]["explanation"]
    assert (why["stage"], why["code"]) == (caused.stage, caused.code), why
    assert len(msgspec.json.encode(data)) <= TOKENS * BYTES_A_TOKEN
