"""shuffle: what a plugin names is evicted, for nobody in particular."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.framework.plugin import Plugin
from pumice.model.intents import Evict
from pumice.model.task import Task
from pumice.testing.builders import node
from pumice.testing.scenario import Scenario


class Noon(Plugin):
    """Wants every second task gone."""

    name = "noon"

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        return list(tasks)[::2]


def test_the_named_tasks_are_evicted_and_no_others() -> None:
    scenario = Scenario(node("n0", cpu=4)).job("work", tasks=3, on="n0")
    scenario.run(actions=("shuffle",), plugins=[[Noon]])
    assert scenario.last.evictions == ["default/work-0", "default/work-2"]
    assert {i.beneficiary for i in scenario.last.intents if isinstance(i, Evict)} == {""}


def test_without_a_plugin_that_names_anybody_nothing_happens() -> None:
    scenario = Scenario(node("n0", cpu=4)).job("work", tasks=3, on="n0")
    scenario.run(actions=("shuffle",), plugins=[["gang"]])
    assert scenario.last.evictions == []
