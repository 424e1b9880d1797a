"""A conf from another scheduler: what Pumice lacks is named as the other's, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.config import InvalidConf, load
from pumice.config.loader import ELSEWHERE
from pumice.config.loader import LIMITS as POINTER
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import catalogue_of

LIMITS = (Path(__file__).parents[3] / "docs" / "limits.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_plugin_that_only_another_scheduler_has_is_said_to_be_its(name: str) -> None:
    conf = f"actions: allocate\ntiers:\n- plugins: [{{name: gang}}, {{name: {name}}}]\n"
    with pytest.raises(InvalidConf) as caught:
        load(conf, catalogue_of(default_registry()), "volcano.conf")
    [problem] = caught.value.problems
    assert (problem.code, problem.value, problem.nearest) == ("missing-plugin", name, None)
    assert str(problem) == (
        f"volcano.conf:3:34: tiers[0].plugins[1].name: {ELSEWHERE[name]}'s plugin {name!r}, not in Pumice: see "
        "docs/limits.md#plugins-of-volcano-and-kai-scheduler-that-are-missing; leave it out to go on without it"
    )


def test_the_page_has_the_heading_that_is_pointed_to() -> None:
    heading = "## Plugins of Volcano and KAI-Scheduler that are missing"
    assert heading in LIMITS
    assert POINTER.endswith("#" + heading.removeprefix("## ").lower().replace(" ", "-"))


def test_what_there_is_is_not_said_to_be_missing() -> None:
    registry = default_registry()
    assert set(ELSEWHERE) & set(registry.plugins) == set()


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_the_page_of_limits_names_each(name: str) -> None:
    assert f"`{name}`" in LIMITS
