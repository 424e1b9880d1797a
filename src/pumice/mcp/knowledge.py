"""Where answers come from: a desk over a saved cycle or manifests, or the door of a running scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import msgspec

from pumice.answers.desk import Desk
from pumice.answers.fairness import FairnessAnswer
from pumice.answers.standing import Standing
from pumice.answers.tried import TryAnswer
from pumice.answers.waiting import WaitingAnswer
from pumice.answers.what_if.effects import WhatIfAnswer
from pumice.answers.what_if.supposition import WhatIf
from pumice.answers.when.answer import WhenAnswer
from pumice.answers.when.kept import Forecasts
from pumice.answers.why import WhyAnswer
from pumice.errors import PumiceError
from pumice.history.stories import Told
from pumice.kube.asking import Asker
from pumice.model.api import AnyObject

T = TypeVar("T")


class NotKnown(PumiceError):
    """Nobody here can answer that; says what would help."""


class EvictedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was asked to go, and for whom."""

    at: float
    pod: str
    node: str
    action: str
    beneficiary: str


class EvictedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a job lost to others, the newest first."""

    job: str
    pods: int
    evictions: list[EvictedPod]


class Knowledge(Protocol):
    """Answers questions. Every method raises a `PumiceError` that says why there is no answer."""

    async def why(self, job: str, namespace: str) -> WhyAnswer:
        """Why a job waits."""
        ...

    async def waiting(self, queue: str, namespace: str, most: int) -> WaitingAnswer:
        """Who waits."""
        ...

    async def standing(self, queue: str) -> Standing:
        """How a queue stands."""
        ...

    async def fairness(self) -> FairnessAnswer:
        """Who is short of his part while others borrow."""
        ...

    async def attempt(self, objects: Sequence[AnyObject], *, when: bool = False) -> TryAnswer:
        """What would become of a job, and *when* it would start."""
        ...

    async def when(self, job: str, namespace: str) -> WhenAnswer:
        """When a job will likely start."""
        ...

    async def what_if(self, asked: WhatIf) -> WhatIfAnswer:
        """What would be decided otherwise."""
        ...

    def conf(self) -> dict[str, Any]:
        """The configuration that decides."""
        ...


class DeskKnowledge:
    """What a saved cycle or manifests tell, at one instant. One question at a time."""

    def __init__(self, desk: Desk) -> None:
        self._desk = replace(desk, forecasts=desk.forecasts or Forecasts())
        self._one = asyncio.Lock()

    async def why(self, job: str, namespace: str) -> WhyAnswer:
        """Why a job waits."""
        return await self._ask(lambda desk: desk.why(job, namespace))

    async def waiting(self, queue: str, namespace: str, most: int) -> WaitingAnswer:
        """Who waits."""
        return await self._ask(lambda desk: desk.waiting(queue, [namespace] if namespace else None, most=most))

    async def standing(self, queue: str) -> Standing:
        """How a queue stands."""
        return (await self._ask(lambda desk: desk.standings([queue])))[0]

    async def fairness(self) -> FairnessAnswer:
        """Who is short of his part while others borrow."""
        return await self._ask(Desk.fairness)

    async def attempt(self, objects: Sequence[AnyObject], *, when: bool = False) -> TryAnswer:
        """What would become of a job, and *when* it would start."""
        tried = await self._ask(lambda desk: desk.attempt_and_wait(objects))
        return await asyncio.to_thread(tried.answer) if when else tried.tried

    async def when(self, job: str, namespace: str) -> WhenAnswer:
        """When a job will likely start."""
        question = await self._ask(lambda desk: desk.when(job, namespace))
        return await asyncio.to_thread(question.answer)

    async def what_if(self, asked: WhatIf) -> WhatIfAnswer:
        """What would be decided otherwise; decided in a process of its own, which ends in time."""
        question = await self._ask(lambda desk: desk.what_if(asked))
        return await asyncio.to_thread(question.answer)

    def conf(self) -> dict[str, Any]:
        """The configuration of the cycle."""
        return self._desk.cycle.assembly.conf.to_data()

    async def _ask(self, question: Callable[[Desk], T]) -> T:
        """The answer, made beside the loop. Who stops waiting for it does not let the next one in before it is done."""
        await self._one.acquire()
        asked = asyncio.get_running_loop().run_in_executor(None, question, self._desk)
        asked.add_done_callback(self._done)
        return await asyncio.shield(asked)

    def _done(self, asked: asyncio.Future[Any]) -> None:
        self._one.release()
        if not asked.cancelled():
            asked.exception()  # told to whoever waits; nobody may wait any more


class DoorKnowledge:
    """What a running scheduler tells one user, with his own token."""

    def __init__(self, asker: Asker, namespace: str) -> None:
        self._asker, self._namespace = asker, namespace

    async def why(self, job: str, namespace: str) -> WhyAnswer:
        """Why a job waits."""
        return await self._asker.why(job, job.rpartition("/")[0] or namespace or self._namespace, when=False)

    async def waiting(self, queue: str, namespace: str, most: int) -> WaitingAnswer:
        """Who waits, of those that the user may see."""
        return await self._asker.waiting(queue, namespace, most)

    async def standing(self, queue: str) -> Standing:
        """How a queue stands."""
        return await self._asker.standing(queue)

    async def fairness(self) -> FairnessAnswer:
        """Who is short of his part while others borrow."""
        return await self._asker.fairness()

    async def attempt(self, objects: Sequence[AnyObject], *, when: bool = False) -> TryAnswer:
        """What would become of a job, and *when* it would start."""
        return await self._asker.attempt(objects, when=when)

    async def when(self, job: str, namespace: str) -> WhenAnswer:
        """When a job will likely start."""
        return await self._asker.when(job, job.rpartition("/")[0] or namespace or self._namespace)

    async def what_if(self, asked: WhatIf) -> WhatIfAnswer:
        """What would be decided otherwise, for who may see everything."""
        return await self._asker.what_if(asked)

    def conf(self) -> dict[str, Any]:
        """Not told by the door."""
        raise NotKnown("the running scheduler does not show its conf; give the text of one")


def evicted(told: Told | None, job: str, namespace: str) -> EvictedAnswer:
    """What a history says of the evictions of a job.

    :raises NotKnown: there is no history.
    """
    if told is None:
        raise NotKnown("no history is kept here: start with --past DIR, a folder that `pumice run --history` writes")
    name = job if "/" in job or not namespace else f"{namespace}/{job}"
    found = [
        EvictedPod(at=one.at, pod=one.pod, node=one.node, action=one.action, beneficiary=one.beneficiary)
        for one in reversed(told.evictions)
        if one.job == name or ("/" not in name and one.job.rpartition("/")[2] == name)
    ]
    return EvictedAnswer(job=name, pods=len(found), evictions=found)
