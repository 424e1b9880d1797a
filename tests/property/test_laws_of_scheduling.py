"""Laws that hold on every cluster, whatever plugins and actions are mixed; the clock stands still."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_confs import POLICIES, Policy, in_any_order
from law_story import Story
from law_worlds import Happening, WorldDraw, crowded_worlds, happenings, worlds
from lawful import lawful

pytestmark = pytest.mark.law
policies = st.sampled_from(POLICIES)
evicting = st.sampled_from([policy for policy in POLICIES if "preempt" in policy.actions or "claim" in policy.actions])


@lawful(150)
@given(worlds, policies)
def test_every_cycle_keeps_the_laws_and_ten_more_cycles_change_nothing(world: WorldDraw, policy: Policy) -> None:
    story = Story(world, policy)
    story.settle(12)
    story.nobody_waits_in_vain(story.stays_settled(10))


@lawful(80)
@given(worlds, policies)
def test_a_cluster_settles_although_evicted_pods_come_back(world: WorldDraw, policy: Policy) -> None:
    story = Story(world, policy, recreate=True)
    story.settle(40)
    story.nobody_waits_in_vain(story.stays_settled(10))


@lawful(80)
@given(worlds, policies)
def test_as_volcano_nothing_is_over_committed_and_no_gang_is_bound_by_half(world: WorldDraw, policy: Policy) -> None:
    story = Story(world, policy, compat="volcano")
    for _ in range(4):
        story.cycle()


@lawful(80)
@given(worlds, policies, st.lists(st.lists(happenings, max_size=3), min_size=2, max_size=4))
def test_the_laws_hold_while_things_happen(world: WorldDraw, policy: Policy, story_of: list[list[Happening]]) -> None:
    story = Story(world, policy, recreate=True)
    for events in story_of:
        story.cycle()
        for event in events:
            story.happens(event)
    story.settle(40)


@lawful(80)
@given(worlds, in_any_order(), st.lists(st.lists(happenings, max_size=2), max_size=3))
def test_the_laws_hold_in_any_order_of_actions(world: WorldDraw, policy: Policy, told: list[list[Happening]]) -> None:
    """A live cycle and one from a fresh state decide the same, whatever acts in whatever order, and it ends."""
    story = Story(world, policy, recreate=True)
    for events in told:
        story.cycle()
        for event in events:
            story.happens(event)
    story.settle(40)
    story.stays_settled(5)


@lawful(80)
@given(crowded_worlds, evicting | in_any_order(), st.booleans())
def test_no_job_has_a_second_plan_while_its_victims_leave(world: WorldDraw, policy: Policy, recreate: bool) -> None:
    """Evicted pods take four cycles to terminate; nothing else happens meanwhile."""
    story = Story(world, policy, recreate=recreate, grace=4)
    for _ in range(8):
        story.cycle()
