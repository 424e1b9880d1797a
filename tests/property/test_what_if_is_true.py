"""A what-if says what the next cycle decides once it is so, and leaves the cluster as it was: random clusters."""

from __future__ import annotations

import pytest
from fingerprint import fingerprint
from hypothesis import given
from hypothesis import strategies as st
from law_confs import POLICIES, Policy, assembly_of
from law_story import Story
from law_worlds import WorldDraw, worlds
from lawful import lawful

from pumice.answers.service import Answers
from pumice.answers.supposition import MoreNodes, QueueChange, WhatIf, suppose
from pumice.answers.what_if import Side, play_sides
from pumice.model.intents import Bind, Evict
from pumice.scheduler.recording import NextCycle, record, restored
from pumice.scheduler.report import CycleReport

pytestmark = pytest.mark.law

policies = st.sampled_from(POLICIES)
KINDS = ("weight", "capability", "lifted", "more", "drained", "conf")


def supposed(kind: str, story: Story, number: int, other: Policy) -> WhatIf:
    """One of everything that can be supposed."""
    queues, nodes = sorted(story.state.queues), sorted(story.state.nodes)
    queue = queues[number % len(queues)]
    if not nodes and kind in ("more", "drained"):
        kind = "weight"
    match kind:
        case "weight":
            return WhatIf(queues={queue: QueueChange(weight=1 + number)})
        case "capability":
            return WhatIf(queues={queue: QueueChange(capability={"cpu": number})})
        case "lifted":
            return WhatIf(queues={name: QueueChange(capability={"cpu": None}) for name in queues})
        case "more":
            return WhatIf(more=[MoreNodes(like=nodes[number % len(nodes)], count=1 + number % 3)])
        case "drained":
            return WhatIf(drained=[nodes[number % len(nodes)]])
    return WhatIf(conf=str(assembly_of(other, None).conf.to_data()))


def decided(report: CycleReport) -> tuple[set[str], set[str]]:
    """Jobs of which pods are placed, pods that are evicted."""
    return (
        {i.job for i in report.intents if isinstance(i, Bind)},
        {i.pod for i in report.intents if isinstance(i, Evict)},
    )


def said(side: Side) -> tuple[set[str], set[str]]:
    lose = {one.job for one in side.evicted}
    return {j for j, fate in side.fates.items() if fate in ("starts", "grows")} | lose, {e.pod for e in side.evicted}


@lawful(24)
@given(worlds, policies, policies, st.sampled_from(KINDS), st.integers(0, 9))
def test_a_what_if_says_what_the_next_cycle_decides_once_it_is_so(
    world: WorldDraw, policy: Policy, other: Policy, kind: str, number: int
) -> None:
    story = Story(world, policy)
    story.tell(story.world.settle())
    state, registry = story.state, story.assembly.registry
    state.refresh()
    if not state.queues:
        return
    asked = supposed(kind, story, number, other)
    desk = Answers(NextCycle(state, story.assembly, story.runtime))
    saved, before = record(state, story.assembly.conf, story.runtime), fingerprint(state)
    question = desk.what_if(asked)
    sides = play_sides(question.instant, question.objects, asked, registry)
    state.refresh()
    assert fingerprint(state) == before
    assert record(state, story.assembly.conf, story.runtime) == saved
    real = decided(restored(saved, registry).run().report)
    jobs, pods = said(sides.before)
    assert pods == real[1]
    assert real[0] <= jobs
    begun = restored(saved, registry, conf=assembly_of(other, None).conf if asked.conf else None)
    suppose(begun.state, asked)
    real = decided(begun.run().report)
    jobs, pods = said(sides.after)
    assert pods == real[1]
    assert real[0] <= jobs
    assert {j for j, fate in sides.after.fates.items() if fate in ("starts", "grows")} <= real[0]
