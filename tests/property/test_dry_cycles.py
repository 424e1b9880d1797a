"""A dry cycle says what the next real one decides, and leaves nothing behind: random clusters, every policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fingerprint import fingerprint
from hypothesis import given
from hypothesis import strategies as st
from law_confs import POLICIES, Policy
from law_story import DECISIONS, Story
from law_worlds import Happening, WorldDraw, happenings, worlds
from lawful import lawful

from pumice.framework.session.session import Session
from pumice.model.api import AnyObject, Pod, PodGroup
from pumice.model.events import Seen
from pumice.model.intents import StatusUpdate
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.dry import dry_cycle
from pumice.scheduler.report import CycleReport

pytestmark = pytest.mark.law

policies = st.sampled_from(POLICIES)
SNAPSHOTS = 500
"""On so many clusters, at least, what was foretold is compared with what came."""


def decided(report: CycleReport) -> list[Any]:
    """Who goes where, who goes, who is promised what: in order."""
    return [i for i in report.intents if isinstance(i, DECISIONS)]


def written(report: CycleReport, story: Story) -> dict[str, Any]:
    """Phases and counters that are others now; the words about a job that waits may be those about an equal one."""
    found = {}
    for intent in report.intents:
        if isinstance(intent, StatusUpdate):
            now = {k: v for k, v in intent.status.items() if k != "conditions"}
            known = story.world.get(PodGroup, intent.key).status
            if now != {k: getattr(known, k) for k in now}:
                found[intent.key] = now
    return found


def kept(story: Story) -> dict[str, Any]:
    runtime, state = story.runtime, story.state
    return {
        **fingerprint(state),
        "memory": {p: {k: repr(v) for k, v in m.items() if k[0] != "_"} for p, m in runtime.memory.items()},
        "health": {name: replace(h) for name, h in runtime.health.items()},
        "nominations": {k: replace(n) for k, n in runtime.nominations.items()},
        "cycle": runtime.cycle,
        "refused": {uid: replace(no) for uid, no in state.refused.items()},
        "assumed": sorted(state.assumed),
        "rooms": sorted(state.rooms),
        "problems": dict(state.problems),
        "unadmitted": sorted(state.unadmitted),
        "nominated": {uid: t.nominated_node for uid, t in state.tasks.items() if t.nominated_node},
    }


def foretold_and_real(story: Story, held_back: list[AnyObject]) -> None:
    """One snapshot: foretell, see that nothing is left, add what was held back, decide."""
    story.tell(story.world.settle())
    story.state.refresh()
    before = kept(story)
    coming = [event for obj in held_back for event in story.world.put(obj)]
    added = [event.object for event in coming if isinstance(event, Seen)]
    foretold = dry_cycle(story.state, story.assembly, story.runtime, added=added, details=True)
    story.state.refresh()
    assert kept(story) == before
    story.tell(coming)
    real = run_cycle(story.state, story.assembly, story.runtime, details=True)
    assert decided(foretold) == decided(real)
    assert written(foretold, story) == written(real, story)
    assert foretold.phases == real.phases
    assert foretold.pipelined == real.pipelined
    assert {uid: r.stage for uid, r in foretold.refusals.items()} == {uid: r.stage for uid, r in real.refusals.items()}
    story.tell(story.world.carry_out(real.intents))


@lawful(SNAPSHOTS // 3 + 1)
@given(worlds, policies, st.lists(happenings, min_size=2, max_size=2))
def test_a_dry_cycle_says_what_the_next_real_one_decides_and_leaves_nothing_behind(
    world: WorldDraw, policy: Policy, events: list[Happening]
) -> None:
    story = Story(replace(world, jobs=world.jobs[:-1]), policy)
    whole = Story(world, policy)
    late = f"j{len(world.jobs) - 1}"
    held_back = [o for o in whole.drawn.objects if o.metadata.name == late or o.metadata.name.startswith(f"{late}-")]
    held_back = [o for o in held_back if not (isinstance(o, Pod) and o.spec.node_name)]
    story.drawn.jobs.update(whole.drawn.jobs)
    story.drawn.queue_of.update(whole.drawn.queue_of)
    foretold_and_real(story, [])
    story.happens(events[0])
    foretold_and_real(story, held_back)
    story.happens(events[1])
    foretold_and_real(story, [])


@lawful(25)
@given(worlds, policies)
def test_a_dry_cycle_that_fails_leaves_nothing_behind(world: WorldDraw, policy: Policy) -> None:
    class Broken(Exception):
        pass

    def fail(ssn: Session) -> None:
        raise Broken

    story = Story(world, policy)
    story.state.refresh()
    before = kept(story)
    try:
        dry_cycle(story.state, story.assembly, story.runtime, inspect=fail)
    except Broken:
        story.state.refresh()
        assert kept(story) == before
        foretold_and_real(story, [])
    else:
        raise AssertionError("it did not fail")
