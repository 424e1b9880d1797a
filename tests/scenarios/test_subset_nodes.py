"""subset_nodes: the sets into which plugins split the nodes are tried in turn, each for the whole gang."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pumice import Job, Node, Plugin, Task
from pumice.testing import Scenario


class ByRack(Plugin):
    """A gang goes into one rack; racks in the order of their names."""

    name = "by-rack"

    def subset_nodes(self, job: Job, sub_job: object, tasks: Sequence[Task], nodes: Sequence[Node]) -> list[list[Node]]:
        def rack(node: Node) -> str:
            return node.labels.get("rack", "")

        return [list(found) for _, found in groupby(sorted(nodes, key=rack), key=rack)]


def racks(*sizes: int) -> Scenario:
    scenario = Scenario()
    for r, nodes in enumerate(sizes):
        for n in range(nodes):
            scenario.node(f"n{r}{n}", cpu=1, labels={"rack": f"r{r}"})
    return scenario


def test_the_first_set_that_takes_the_whole_gang_is_taken() -> None:
    scenario = racks(2, 3, 3).job("gang", tasks=3, cpu=1)
    cycle = scenario.run(plugins=["gang", ByRack])
    assert set(cycle.binds.values()) == {"n10", "n11", "n12"}
    assert not cycle.why("gang").text, "what the first set lacked did not stand in its way"


def test_a_gang_that_no_set_takes_waits_though_all_nodes_together_would_do() -> None:
    scenario = racks(2, 2).job("gang", tasks=3, cpu=1).job("small", tasks=2, cpu=1)
    cycle = scenario.run(plugins=["gang", ByRack])
    assert set(cycle.binds) == {"default/small-0", "default/small-1"}
    assert len({node[:2] for node in cycle.binds.values()}) == 1
    assert cycle.why("gang").text


def test_each_plugin_splits_what_the_one_before_it_gave() -> None:
    class ByZone(ByRack):
        name = "by-zone"

        def subset_nodes(
            self, job: Job, sub_job: object, tasks: Sequence[Task], nodes: Sequence[Node]
        ) -> list[list[Node]]:
            return [[n for n in nodes if n.name.endswith("1")], [n for n in nodes if not n.name.endswith("1")]]

    scenario = racks(2, 4).job("gang", tasks=2, cpu=1)
    cycle = scenario.run(plugins=["gang", ByRack, ByZone])
    assert set(cycle.binds.values()) == {"n10", "n12"}


def test_who_has_what_it_needs_gets_more_wherever_there_is_room() -> None:
    """A set in which nothing more of a job that is ready can be placed is not the one that will do."""
    scenario = Scenario().node("a", cpu=2, labels={"rack": "r0"}).node("b", cpu=8, labels={"rack": "r1"})
    scenario.job("elastic", tasks=3, min_available=1, cpu=4)
    cycle = scenario.run(plugins=["gang", ByRack])
    assert set(cycle.binds) == {"default/elastic-0", "default/elastic-1"}
    assert "Insufficient cpu" in cycle.why("elastic").text
    scenario.node("c", cpu=4, labels={"rack": "r2"})
    assert scenario.run().binds == {"default/elastic-2": "c"}


def test_without_any_set_the_job_is_told_so() -> None:
    class Nowhere(ByRack):
        name = "nowhere"

        def subset_nodes(
            self, job: Job, sub_job: object, tasks: Sequence[Task], nodes: Sequence[Node]
        ) -> list[list[Node]]:
            return []

    cycle = racks(2).job("a", cpu=1).run(plugins=["gang", Nowhere])
    assert cycle.binds == {}
    assert cycle.why("a").text == "no set of nodes is left to try it on"
