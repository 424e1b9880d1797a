"""A hard network topology is never broken, whatever the order of arrival, eviction and restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_confs import NEAR_POLICIES, Policy
from law_story import Story
from law_worlds import Happening, WorldDraw, happenings, zoned_worlds
from lawful import lawful

from pumice.framework.placing.topology import Domains
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.state.cluster import ClusterState

pytestmark = pytest.mark.law

policies = st.sampled_from(NEAR_POLICIES)


@lawful(60)
@given(zoned_worlds, policies)
def test_domains_are_kept_nobody_waits_in_vain_and_all_settles(world: WorldDraw, policy: Policy) -> None:
    story = Story(world, policy)
    story.settle(12)
    story.nobody_waits_in_vain(story.stays_settled(5))


@lawful(60)
@given(zoned_worlds, policies, st.lists(st.lists(happenings, max_size=3), min_size=2, max_size=5), st.integers(0, 4))
def test_domains_are_kept_while_pods_come_back_and_the_scheduler_starts_anew(
    world: WorldDraw, policy: Policy, story_of: list[list[Happening]], restart: int
) -> None:
    story = Story(world, policy, recreate=True)
    for n, events in enumerate(story_of):
        story.cycle()
        for event in events:
            if event.what != "resize":
                story.happens(event)
        if n == restart:
            story.owed, story.runtime, story.state = {}, Runtime(), ClusterState()
            for obj in story.world.objects:
                story.state.apply(Seen(obj))
    story.cycle()


@lawful(30)
@given(zoned_worlds, policies)
def test_counting_slots_decides_as_trying_every_domain_would(world: WorldDraw, policy: Policy) -> None:
    def everything_is_roomy(self: Domains, *_: object) -> list[bool]:
        return [True] * len(self.names)

    counted = [Story(world, policy).cycle().intents for _ in range(1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Domains, "roomy", everything_is_roomy)
        tried = [Story(world, policy).cycle().intents for _ in range(1)]
    assert [repr(i) for i in counted[0] if type(i).__name__ != "StatusUpdate"] == [
        repr(i) for i in tried[0] if type(i).__name__ != "StatusUpdate"
    ]
