"""Jobs that are evicted for each other in turn are noticed, whatever way the round takes; others are not."""

from __future__ import annotations

import pytest

from pumice.kube.rounds import WINDOW, EvictionRounds
from pumice.model.codes import ReasonCode
from pumice.model.events import Seen
from pumice.model.intents import Evict
from pumice.state.cluster import ClusterState
from pumice.testing import builders as b


def told(story: list[tuple[str, str]], every: float = 1.0) -> list[str]:
    """The jobs of whose evictions something is said; *story*: who is evicted for whom, one in each cycle."""
    state, rounds, found = ClusterState(), EvictionRounds(), []
    for name in {name for pair in story for name in pair}:
        for obj in b.job(name):
            state.apply(Seen(obj))
    for victim, helped in story:
        state.now += every
        evict = Evict(f"default/{victim}-0", "u", "n", "preempt", f"default/{victim}", f"default/{helped}")
        for note in rounds.look([evict], state):
            assert note.reason is ReasonCode.EVICTED_IN_TURN
            assert (note.kind, note.key) == ("PodGroup", f"default/{victim}")
            found.append(victim)
    return found


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_round_of_any_size_is_told_when_it_closes(size: int) -> None:
    names = [f"j{n}" for n in range(size)]
    once = [(names[n], names[(n + 1) % size]) for n in range(size)]
    assert told(once) == [names[-1]]
    assert told(once * 2) == [names[-1], *names]


def test_what_is_no_round_is_not_told() -> None:
    assert told([("a", "b"), ("b", "c"), ("a", "c"), ("d", "a"), ("a", "b")]) == []
    assert told([("a", "a"), ("a", "a")]) == []


def test_what_was_long_ago_makes_no_round_and_is_forgotten() -> None:
    assert told([("a", "b"), ("b", "a")], every=WINDOW + 1) == []
