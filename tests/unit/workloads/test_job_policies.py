"""Which policy answers an event."""

from __future__ import annotations

import pytest

from pumice.errors import InvalidInput
from pumice.workloads.vcjob import Policy, Reaction, answers_of, reaction_to

RESTART, ABORT, COMPLETE = Reaction.RESTART_JOB, Reaction.ABORT_JOB, Reaction.COMPLETE_JOB


@pytest.mark.parametrize(
    ("task", "job", "event", "code", "expected"),
    [
        ([], [], "PodFailed", 0, None),
        ([], [("PodFailed", "RestartJob")], "PodFailed", 0, RESTART),
        ([], [("PodFailed", "RestartJob")], "PodEvicted", 0, None),
        ([("PodFailed", "AbortJob")], [("PodFailed", "RestartJob")], "PodFailed", 0, ABORT),
        ([("PodEvicted", "AbortJob")], [("PodFailed", "RestartJob")], "PodFailed", 0, RESTART),
        ([], [("*", "RestartJob")], "PodEvicted", 0, RESTART),
        ([], [("*", "RestartJob")], "JobUnknown", 0, RESTART),
        ([], [("*", "RestartJob")], "TaskCompleted", 0, None),
        ([], [("TaskCompleted", "CompleteJob")], "TaskCompleted", 0, COMPLETE),
        ([], [(3, "AbortJob")], "PodFailed", 3, ABORT),
        ([], [(3, "AbortJob")], "PodFailed", 4, None),
        ([], [(3, "AbortJob")], "PodEvicted", 3, None),
        ([], [(3, "AbortJob"), ("PodFailed", "RestartJob")], "PodFailed", 3, ABORT),
        ([], [(3, "AbortJob"), ("PodFailed", "RestartJob")], "PodFailed", 1, RESTART),
        ([], [("PodFailed", "RestartJob"), (3, "AbortJob")], "PodFailed", 3, RESTART),
        ([("*", "AbortJob")], [("PodFailed", "RestartJob")], "PodFailed", 0, ABORT),
    ],
)
def test_the_first_policy_that_is_about_an_event_answers_it(
    task: list[tuple[object, str]], job: list[tuple[object, str]], event: str, code: int, expected: Reaction | None
) -> None:
    def table(said: list[tuple[object, str]]) -> dict[str, Reaction]:
        return answers_of(
            Policy(action=action, exit_code=about)
            if isinstance(about, int)
            else Policy(action=action, event=str(about))
            for about, action in said
        )

    assert reaction_to(event, table(task), table(job), exit_code=code) is expected


def test_a_policy_may_name_several_events() -> None:
    table = answers_of([Policy(action="AbortJob", events=["PodFailed", "PodEvicted"])])
    assert reaction_to("PodEvicted", table) is ABORT
    assert reaction_to("PodFailed", table) is ABORT


def test_an_action_that_nobody_knows_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"action must be one of RestartPod, .*got 'Panic'"):
        answers_of([Policy(action="Panic", event="PodFailed")])
