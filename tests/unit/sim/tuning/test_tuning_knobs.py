"""What can be tuned: read from the command line, or from the conf itself; and the conf that a point makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.config import HELM_CONF, from_data, load
from pumice.errors import InvalidInput
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.scenario import read_scenario
from pumice.sim.tuning.evaluations import by_time
from pumice.sim.tuning.knobs import Knob, knobs_of, made_of, parse_over, worded

REGISTRY = default_registry()
CATALOGUE = catalogue_of(REGISTRY)
BASE = load(HELM_CONF, CATALOGUE, "<helm>").conf
QUEUES = {"default": 1, "research": 2, "vision": 1}


def one(text: str) -> Knob:
    [knob] = parse_over(text, BASE, QUEUES, CATALOGUE)
    return knob


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("binpack.weight=0..10", "0..10"),
        ("binpack.binpack.weight=0..10", "0..10"),
        ("overcommit.overcommit-factor=1.0..3.0", "1..3"),
        ("binpack.weight=1..100 log", "1..100 log"),
        ("binpack.weight=1, 5,9", "1, 5, 9"),
        ("binpack=on,off", "on, off"),
        ("sjf@1=off, on", "on, off"),
        ("actions=enqueue allocate, enqueue easybackfill", "enqueue, allocate, enqueue, easybackfill"),
        ("queues.research.weight=1..8", "1..8"),
    ],
)
def test_a_text_says_what_is_tuned_and_within_which_values(text: str, said: str) -> None:
    assert one(text).in_words() == said


def test_whole_ends_give_whole_numbers_and_a_pattern_names_many_queues() -> None:
    assert one("binpack.weight=0..10").whole
    assert not one("overcommit.overcommit-factor=1.0..3.0").whole
    assert [k.owner for k in parse_over("queues.*.weight=1..4", BASE, QUEUES, CATALOGUE)] == list(QUEUES)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("binpack", "must be NAME=VALUES"),
        ("binpak=on,off", "did you mean 'binpack'"),
        ("binpack=1,2", "a plugin is on,off"),
        ("binpack.wait=1..2", "did you mean 'binpack.weight'"),
        ("sjf.x=1..2", "has none of that name"),
        ("binpack.weight=3..1", "from a lower to a higher"),
        ("binpack.weight=0..5 log", "above 0"),
        ("binpack.weight=1..2..3", "two numbers"),
        ("binpack.weight=4", "two different values"),
        ("queues.reserch.weight=1..3", "did you mean 'research'"),
        ("queues.research.weight=0..3", "at least 1"),
        ("queues.research.weight=1.5,2", "whole number"),
        ("queues.research=1..3", "queues.NAME.weight"),
        ("sjf@5=on,off", "1 to 2"),
        ("gang@1=on,off", "stands in the conf already"),
    ],
)
def test_what_cannot_be_tuned_is_refused_with_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse_over(text, BASE, QUEUES, CATALOGUE)


def test_a_conf_offers_the_numbers_that_its_plugins_read_and_who_only_ranks_nodes() -> None:
    knobs = {knob.name: knob for knob in knobs_of(BASE, REGISTRY)}
    assert {"binpack", "nodeorder"} <= {knob.owner for knob in knobs.values() if knob.kind == "plugin"}
    assert not {"gang", "predicates", "proportion"} & {k.owner for k in knobs.values() if k.kind == "plugin"}
    assert (knobs["binpack.weight"].low, knobs["binpack.weight"].high) == (0, 10)
    factor = knobs["overcommit.overcommit-factor"]
    assert (factor.low, factor.high, factor.log) == (1, pytest.approx(4.8), True), "it declares that it is at least 1"


def test_every_value_that_a_conf_offers_by_itself_makes_a_conf_that_can_be_used() -> None:
    knobs = knobs_of(BASE, REGISTRY)
    for pick in (0, -1):
        point = {k.name: k.choices[pick] if k.choices else (k.low, k.high)[pick] for k in knobs}
        point = {name: int(v) if isinstance(v, float) and v.is_integer() else v for name, v in point.items()}
        assemble(made_of(BASE, knobs, point, QUEUES, CATALOGUE).conf, REGISTRY)


def test_a_point_makes_a_conf_and_weights_of_queues() -> None:
    texts = ["binpack.weight=0..9", "nodeorder=on,off", "sjf@1=on,off", "queues.*.weight=1..8"]
    knobs = [knob for text in texts for knob in parse_over(text, BASE, QUEUES, CATALOGUE)]
    point = {"binpack.weight": 7, "nodeorder": False, "sjf@1": True}
    point |= {"queues.default.weight": 1, "queues.research.weight": 8, "queues.vision.weight": 1}
    made = made_of(BASE, knobs, point, QUEUES, CATALOGUE)
    names = [[plugin.name for plugin in tier.plugins] for tier in made.conf.tiers]
    assert names[0] == ["priority", "gang", "conformance", "sjf"]
    assert "nodeorder" not in names[1]
    [binpack] = [p for tier in made.conf.tiers for p in tier.plugins if p.name == "binpack"]
    assert binpack.arguments == {"binpack.weight": 7}
    assert made.weights == (("research", 8),)
    assert made_of(BASE, knobs, {}, QUEUES, CATALOGUE).conf == BASE
    assert [worded(value) for value in (True, False, 2.5, "x")] == ["on", "off", "2.5", "x"]


def test_parts_of_a_trace_are_occasions(tmp_path: Path) -> None:
    jobs = "".join(f"j{day}-{n},{day * 86400 + n * 3600},600\n" for day in range(11) for n in range(3) if day != 4)
    (tmp_path / "jobs.csv").write_text(f"job,submit_s,duration_s\n{jobs}")
    text = "cluster: {nodes: [{name: n, cpu: 4}]}\nworkload: {trace: {file: jobs.csv}}\n"
    (tmp_path / "s.yaml").write_text(text)
    scenario = read_scenario(tmp_path / "s.yaml", CATALOGUE)
    split, cut = by_time(scenario, 86_400)
    assert [*split.search, *split.choose, *split.held_out] == [1, 2, 3, 4, *range(6, 11)]
    assert split.each == "part of 1 d"
    assert cut.drawn(10).setting.measure == (9 * 86_400, 10 * 86_400)
    with pytest.raises(InvalidInput, match="at most 24 h"):
        by_time(scenario, 3 * 86_400)


def test_in_a_conf_of_kai_a_name_of_both_worlds_means_kais_plugin() -> None:
    base = from_data({"dialect": "kai", "actions": "allocate"}, CATALOGUE).conf
    [knob] = parse_over("proportion.kValue=0.5,1", base, QUEUES, CATALOGUE)
    assert (knob.name, knob.owner) == ("proportion.kValue", "kai/proportion")
    [switch] = parse_over("gpupack=on,off", base, QUEUES, CATALOGUE)
    assert switch.owner == "kai/gpupack"
