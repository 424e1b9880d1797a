"""Laws of explanations, on every cluster and under every policy: no part contradicts another, or the decisions."""

from __future__ import annotations

import pytest
from hypothesis import given
from law_confs import Policy
from law_story import Story
from law_worlds import WorldDraw, worlds
from lawful import lawful
from test_laws_of_scheduling import policies

from pumice.answers.jobs import Obstacles, job_rows
from pumice.framework.explaining.explain import Explanation, Stage, explain
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.status import TaskStatus
from pumice.scheduler.cycle import run_cycle

pytestmark = pytest.mark.law

S = TaskStatus
CODES = {str(code) for code in ReasonCode}


@lawful(60)
@given(worlds, policies)
def test_no_part_of_an_explanation_contradicts_another(world: WorldDraw, policy: Policy) -> None:
    story = Story(world, policy)
    for _ in range(3):
        story.tell(story.world.settle())
        told: list[tuple[Job, Explanation, int, int]] = []

        def inspect(ssn: Session, told: list[tuple[Job, Explanation, int, int]] = told) -> None:
            for job in ssn.state.jobs.values():
                bound = {i.pod for i in ssn.outcome.intents if isinstance(i, Bind) and i.job == job.uid}
                left = [t for t in job.tasks.values() if t.status in (S.PENDING, S.PIPELINED, S.ALLOCATED)]
                told.append((job, explain(ssn, job), len(left), job.ready_count - job.count(S.ALLOCATED)))
                assert not bound & {t.key for t in left}
            for _, why, _, _ in told:
                says_what_is_so(ssn, why)
            says_the_same_in_a_row(ssn, {why.job: why for _, why, _, _ in told})

        report = run_cycle(story.state, story.assembly, story.runtime, details=True, inspect=inspect)
        assert report.errors == []
        for job, why, left, placed in told:
            if placed < job.min_available or (left and not placed):
                assert why.stage is not Stage.SERVED, f"{job.uid} waits: {why}"
            if why.stage is Stage.SERVED:
                assert (why.unblock, why.limits, why.reasons, why.position) == ([], [], [], 0)
        story.tell(story.world.carry_out(report.intents))


def says_the_same_in_a_row(ssn: Session, told: dict[str, Explanation]) -> None:
    """Who is told of many jobs, a line each, reads what he is told of each of them."""
    obstacles = Obstacles(ssn)
    for row in job_rows(ssn, ssn.state.jobs.values()):
        why = told[row.job]
        assert obstacles.code(ssn.state.jobs[row.job]) == row.reason, row
        if row.waits and why.stage is not Stage.SERVED:
            assert (row.reason, row.text, row.place) == (why.code, why.text, why.position), row
        else:
            assert (row.reason, row.text) == ("", "starts now" if row.waits else ""), row


def says_what_is_so(ssn: Session, why: Explanation) -> None:
    assert why.text, why
    assert why.code in CODES, why
    assert 0 <= why.position <= why.waiting
    if why.stage not in (Stage.SERVED, Stage.ABSENT):
        assert bool(why.position) is ("nothing of it waits" not in why.text), why
    for at in why.limits:
        assert at.holds >= -0.001, why
        assert at.asks > 0, why
        assert at.holds + at.promised + at.asks > at.may_have, f"nothing is exceeded: {why}"
    for reason in why.reasons:
        assert reason.helps_on <= reason.nodes
        assert reason.eviction_helps is (reason.helps_on > 0)
    helped = [r.helps_on for r in why.reasons]
    assert max(helped, default=0) <= why.large_enough <= sum(helped), why
    if why.stage is Stage.NODES and why.code == ReasonCode.NO_NODE_FITS:
        assert (" have a node. " in why.text or " could have a node; " in why.text) is bool(why.room_for), why
        assert all(r.nodes <= len(ssn.nodes) for r in why.reasons)
        others = sum(r.nodes for r in why.reasons if r.plugin != "resources")
        assert others <= len(ssn.nodes)
    if why.code == ReasonCode.CAN_NEVER_FIT:
        assert why.text.startswith("can never fit: ")
