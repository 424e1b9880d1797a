"""best_node chooses among the candidates: whoever names another node is told so, and the next is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from pumice import Node, Plugin, Task, Unfit
from pumice.testing import Scenario


def chooser(name: str, choice: Callable[[], object]) -> type[Plugin]:
    def best_node(self: Plugin, task: Task, scores: dict[str, float]) -> object:
        scores["refused"] = 1e9  # what is done to the table makes no candidate
        return choice()

    return type(name.title(), (Plugin,), {"name": name, "best_node": best_node})


class NotThere(Plugin):
    name = "not-there"

    def predicate(self, task: Task, node: Node) -> None:
        if node.name == "refused":
            raise Unfit("not there")


def world() -> Scenario:
    scenario = Scenario().node("a", cpu=4).node("b", cpu=4).node("full", cpu=4).node("refused", cpu=4)
    return scenario.job("running", tasks=4, on="full").job("new")


@pytest.mark.parametrize("choice", ["full", "refused", "no-such-node"])
def test_a_node_that_is_no_candidate_is_not_taken(choice: str) -> None:
    scenario = world()
    cycle = scenario.run(plugins=["gang", NotThere, chooser("odd", lambda: choice)])
    assert cycle.binds == {"default/new-0": "a"}
    assert (
        f"plugin 'odd' failed at 'best_node': ValueError: a choice is one of the 2 candidates, got '{choice}'"
        in str(cycle.errors)
    )
    assert f"{__file__}:" in str(cycle.errors)
    scenario.assert_invariants()


@pytest.mark.parametrize("choice", ["full", "refused"])
def test_nor_is_it_if_it_is_given_as_a_node(choice: str) -> None:
    scenario = world()
    nodes: Mapping[str, Node] = {name: scenario.node_of(name) for name in ("full", "refused")}
    cycle = scenario.run(plugins=["gang", NotThere, chooser("odd", lambda: nodes[choice])])
    assert cycle.binds == {"default/new-0": "a"}
    assert "'odd' failed at 'best_node'" in str(cycle.errors)


def test_the_next_is_asked() -> None:
    odd, fine = chooser("odd", lambda: "full"), chooser("fine", lambda: "b")
    cycle = world().run(plugins=["gang", NotThere, odd, fine])
    assert cycle.binds == {"default/new-0": "b"}
    assert len(cycle.errors) == 1
