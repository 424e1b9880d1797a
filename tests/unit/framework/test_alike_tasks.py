"""Tasks of one class whose annotations make a plugin answer otherwise about them are decided each for itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pumice.testing import Cycle, Scenario, job, node, pod

ZONE = "volcano.sh/revocable-zone"
LENT = ("tdm", {"tdm.revocable-zone.rz": "00:00-00:00"})
PLUGINS = ["priority", "gang", "predicates", LENT]


def mixed(scenario: Scenario, revocable: Sequence[bool], *, least: int, actions: Sequence[str]) -> Cycle:
    """A job of tasks that are alike but for this: some may be on lent nodes."""
    scenario.add(*job("a", tasks=0, min_available=least, priority=5))
    for n, may in enumerate(revocable):
        scenario.add(pod(f"a-{n}", group="a", cpu=1, priority=5, annotations={ZONE: "*"} if may else {}))
    return scenario.run(actions=actions, plugins=PLUGINS)


@pytest.mark.parametrize("revocable", [(True, False, True, True), (False, True, True, True), (True, True, True, False)])
def test_a_gang_is_not_put_on_lent_nodes_because_another_of_it_may_be(revocable: Sequence[bool]) -> None:
    scenario = Scenario(node("n1", cpu=8), node("n2", cpu=8, labels={ZONE: "rz"}))
    done = mixed(scenario, revocable, least=4, actions=["allocate"])
    assert done.binds == {f"default/a-{n}": "n2" if may else "n1" for n, may in enumerate(revocable)}


def test_one_that_fits_nowhere_keeps_back_only_its_like() -> None:
    done = mixed(Scenario(node("n1", cpu=8, labels={ZONE: "rz"})), (False, True), least=1, actions=["allocate"])
    assert done.binds == {"default/a-1": "n1"}
