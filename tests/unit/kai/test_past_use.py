"""Past use of queues: how it is counted, and what it does to their shares."""

from __future__ import annotations

from typing import Any

import pytest
from kai_cases import cluster, job, node, queue
from kai_plans import world
from pumice_conformance.kai_rounds import prepare, state_of

from pumice.config.cron import CronSchedule
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.kai.view.settings import UsageAccount, UsageSettings
from pumice.scheduler.cycle import run_cycle

FULL = (8.0, 64.0, 4.0)
HALF = (4.0, 32.0, 2.0)


def shares(settings: UsageSettings, *steps: tuple[float, dict[str, tuple[float, float, float]]]) -> dict[str, float]:
    """Parts of the GPUs after looks at these times, of what was held from then on."""
    memory: dict[str, Any] = {}
    found: dict[str, Any] = {}
    for now, held in steps:
        found = UsageAccount(memory, settings).update(now, held, FULL)
    return {name: round(amounts[2], 3) for name, amounts in found.items()}


def test_a_queue_used_its_part_of_what_there_was() -> None:
    slides = UsageSettings(window=1000.0)
    assert shares(slides, (0, {"a": FULL}), (100, {"b": HALF}), (200, {})) == {"a": 0.5, "b": 0.25}


def test_what_is_older_than_the_window_is_forgotten() -> None:
    slides = UsageSettings(window=1000.0)
    steps = [(float(t), {"a": FULL} if t < 500 else {"b": FULL}) for t in range(0, 1700, 100)]
    assert shares(slides, *steps) == {"b": 1.0}


def test_a_tumbling_window_begins_with_nothing() -> None:
    tumbles = UsageSettings(window=1000.0, tumbling=True, start=-300.0)
    assert shares(tumbles, (0, {"a": FULL}), (600, {"b": FULL}), (900, {})) == {"b": 1.0}


def test_use_counts_half_after_its_half_life() -> None:
    fades = UsageSettings(window=100000.0, half_life=1000.0)
    got = shares(fades, (0, {"a": FULL}), (500, {"b": FULL}), (1000, {"c": FULL}), (1500, {}))
    assert got["c"] == pytest.approx(2**0.5 * got["b"], rel=0.01)
    assert got["b"] == pytest.approx(2**0.5 * got["a"], rel=0.01)


NINE = 9 * 3600.0


@pytest.mark.parametrize("half_life", [0.0, 1e9])
def test_a_window_by_cron_begins_when_it_says_however_long_it_is(half_life: float) -> None:
    """At nine every morning; 1970 began on a Thursday."""
    morning = UsageSettings(cron=CronSchedule.parse("0 9 * * *"), half_life=half_life)
    before = [(NINE - 600, {"a": FULL}), (NINE - 300, {"b": FULL})]
    assert shares(morning, *before, (NINE - 60, {"b": FULL})) == {"a": pytest.approx(5 / 9, abs=1e-3), "b": 0.444}
    assert shares(morning, *before, (NINE + 60, {"c": HALF}), (NINE + 180, {})) == {"b": 0.333, "c": 0.333}


def test_a_window_by_cron_fades_and_stays_small() -> None:
    yearly = UsageSettings(cron=CronSchedule.parse("@yearly"), half_life=60.0)
    memory: dict[str, Any] = {}
    for minute in range(200):
        held = {"a": FULL} if minute < 198 else {"b": FULL}
        found = UsageAccount(memory, yearly).update(60.0 * minute, held, FULL)
    assert found["b"][2] == pytest.approx(found["a"][2], rel=0.1)
    assert len(memory["portions"]) <= 8 * 64 + 1


def test_the_conf_says_when_a_window_begins() -> None:
    given = {"windowType": "cron", "cronString": "30 6 * * mon"}
    assert UsageSettings.of(given).begin(10 * 86400.0) == 4 * 86400.0 + 6.5 * 3600


def played(conf: dict[str, Any], cycles: int) -> list[str]:
    """Two queues without quota want the one node that there is, for ever: who has it, cycle by cycle."""
    case = cluster(
        *(node("n1", gpu=16), queue("a"), queue("b")),
        *(job("first", "a", gpu="16"), job("second", "b", gpu="16", minute=1)),
        conf=conf,
    )
    objects = case.data["objects"]
    for pod in objects["pods"]:
        pod["metadata"]["uid"] = pod["metadata"]["name"]
    assembly, runtime = prepare(case, default_registry()), Runtime()
    has = []
    for n in range(cycles):
        state = state_of(case, objects)
        state.now = case.now + 60.0 * n
        report = run_cycle(state, assembly, runtime)
        for pod in objects["pods"]:
            key = f"default/{pod['metadata']['name']}"
            if key in report.binds:
                pod["spec"]["nodeName"], pod["status"] = "n1", {"phase": "Running"}
            elif key in report.evictions:
                pod["spec"].pop("nodeName")
                pod["status"] = {"phase": "Pending"}
        has += [pod["metadata"]["name"][:-2] for pod in objects["pods"] if pod["status"]["phase"] == "Running"]
    return has


def test_with_past_use_two_queues_have_a_node_in_turn_and_without_one_has_it_for_ever() -> None:
    assert set(played({}, 20)) == {"first"}
    in_turn = played({"usageDBConfig": {"usageParams": {"windowSize": "20m"}}}, 40)
    assert 0.35 < in_turn.count("second") / len(in_turn) < 0.65


@pytest.mark.parametrize(
    ("conf", "counts"), [({}, False), ({"usageDBConfig": None}, False), ({"usageDBConfig": {}}, True)]
)
def test_past_use_counts_where_a_conf_says_anything_of_it(conf: dict[str, Any], counts: bool) -> None:
    assert (world(node("n1"), queue("q"), conf=conf).settings.usage is not None) == counts
