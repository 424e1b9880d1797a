"""Policies of jobs: what happens, and what is done about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import msgspec

from pumice.errors import InvalidInput

ANY = "*"
POD_FAILED, POD_EVICTED = "PodFailed", "PodEvicted"
TASK_COMPLETED, TASK_FAILED = "TaskCompleted", "TaskFailed"
JOB_UNKNOWN = "JobUnknown"
EVENTS = frozenset((ANY, POD_FAILED, POD_EVICTED, TASK_COMPLETED, TASK_FAILED, JOB_UNKNOWN))
"""What a policy can be about."""


class Reaction(Enum):
    """What a job controller does about an event. Values are Volcano's names of actions."""

    RESTART_POD = "RestartPod"
    RESTART_TASK = "RestartTask"
    RESTART_JOB = "RestartJob"
    ABORT_JOB = "AbortJob"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"
    """Only an aborted job can be resumed; a policy that says so changes nothing else."""


class Policy(msgspec.Struct, rename="camel", kw_only=True):
    """One policy as a manifest writes it."""

    action: str
    event: str = ""
    events: list[str] | None = None
    exit_code: int | None = None
    timeout: Any = None

    @property
    def about(self) -> list[str]:
        """Every event that it names."""
        return [*([self.event] if self.event else []), *(self.events or [])]


Answers = Mapping[str, Reaction]
"""Policies by what they are about, in the order in which they were written: an event, or `exit_key(code)`."""


def exit_key(code: int) -> str:
    """Under what a policy for an exit code is found."""
    return f"exit {code}"


def answers_of(policies: Iterable[Policy] | None) -> dict[str, Reaction]:
    """Policies as a table; of two about the same thing the first counts.

    :raises InvalidInput: an action that nobody knows.
    """
    table: dict[str, Reaction] = {}
    for policy in policies or ():
        try:
            reaction = Reaction(policy.action)
        except ValueError:
            known = ", ".join(r.value for r in Reaction)
            raise InvalidInput(f"policies: action must be one of {known}, got {policy.action!r}") from None
        for event in policy.about:
            table.setdefault(event, reaction)
        if policy.exit_code is not None:
            table.setdefault(exit_key(policy.exit_code), reaction)
    return table


def reaction_to(event: str, *said: Answers, exit_code: int = 0) -> Reaction | None:
    """The first answer to an event among tables in order (a task's own before its job's); None: nobody answers.

    ``*`` stands for every event but a completed task: success is no trouble.
    """
    wanted = {event} if event == TASK_COMPLETED else {event, ANY}
    if event == POD_FAILED and exit_code:
        wanted.add(exit_key(exit_code))
    for table in said:
        for about, reaction in table.items():
            if about in wanted:
                return reaction
    return None
