"""The source of answers: a saved cycle or manifests, or a running scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar, cast

import msgspec

from pumice.answers.questions import AboutJob, Asked, Question, as_submitted
from pumice.answers.service import Answers
from pumice.answers.when.forecast import Forecasts
from pumice.errors import PumiceError
from pumice.history.stories import Told
from pumice.kube.api_client import AnswersClient

R = TypeVar("R")
T = TypeVar("T")


class NotKnown(PumiceError):
    """This source cannot answer the question; the text names what would help."""


class EvictedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was asked to go, and for whom."""

    at: float
    pod: str
    node: str
    action: str
    beneficiary: str


class EvictedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that a job lost to others, the newest first."""

    job: str
    pods: int
    evictions: list[EvictedPod]


class Knowledge(Protocol):
    """Answers the questions of the table."""

    async def ask(self, question: Question[R], parameters: Any = None, body: Any = None) -> R:
        """Return an answer.

        :raises PumiceError: there is none; says why.
        """
        ...

    def namespace(self, job: str, given: str) -> str:
        """Return the namespace of a job; nothing if none is known."""
        ...

    def conf(self) -> dict[str, Any]:
        """Return the configuration that decides."""
        ...


class LocalKnowledge:
    """The knowledge in a saved cycle or manifests, at one instant. One question at a time."""

    def __init__(self, answers: Answers) -> None:
        self._answers = replace(answers, forecasts=answers.forecasts or Forecasts())
        self._one = asyncio.Lock()

    async def ask(self, question: Question[R], parameters: Any = None, body: Any = None) -> R:
        """Return an answer; what takes long is done beside the loop."""
        asked = Asked(parameters if parameters is not None else question.parameters(), body)
        found = await self._put(lambda answers: question.put(answers, asked))
        return await asyncio.to_thread(question.finish, found)

    def namespace(self, job: str, given: str) -> str:
        """Return the given namespace: a name that is unique needs none."""
        return given

    def conf(self) -> dict[str, Any]:
        """Return the configuration of the cycle."""
        return self._answers.cycle.assembly.conf.to_data()

    async def _put(self, question: Callable[[Answers], T]) -> T:
        """Return what the state says, made beside the loop. The next question waits until it is done, also if this one
        is given up."""
        await self._one.acquire()
        asked = asyncio.get_running_loop().run_in_executor(None, question, self._answers)
        asked.add_done_callback(self._done)
        return await asyncio.shield(asked)

    def _done(self, asked: asyncio.Future[Any]) -> None:
        self._one.release()
        if not asked.cancelled():
            asked.exception()  # the caller has it, or has gone


class SchedulerKnowledge:
    """The answers of a running scheduler to one user, with the user's own token."""

    def __init__(self, client: AnswersClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace

    async def ask(self, question: Question[R], parameters: Any = None, body: Any = None) -> R:
        """Return the scheduler's answer; to *why* also what the job's own objects say."""
        if question.name == "why":
            return cast("R", await self._client.why(parameters.job, parameters.namespace, when=not parameters.when))
        if isinstance(parameters, AboutJob):
            parameters = msgspec.structs.replace(parameters, job=parameters.job.rpartition("/")[2])
        return await self._client.ask(question, parameters, as_submitted(body) if question.name == "try" else body)

    def namespace(self, job: str, given: str) -> str:
        """Return the namespace in the job's name, the given one, or the kubeconfig's."""
        return job.rpartition("/")[0] or given or self._namespace

    def conf(self) -> dict[str, Any]:
        """Refuse: the API does not show it."""
        raise NotKnown("the running scheduler does not show its conf; give the text of one")


def evicted(told: Told | None, job: str, namespace: str) -> EvictedAnswer:
    """The history of a job's evictions.

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
