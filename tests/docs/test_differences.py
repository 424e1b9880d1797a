"""docs/differences is true: each example there does what it says, with and without ``compat: volcano``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from pumice import Node, Plugin, Session, Task
from pumice.framework.compat import Compat
from pumice.model.api import PodSpec, decode
from pumice.testing import Scenario, job, node, pod, queue

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "differences.md").read_text()
PAGES = {page.stem: page.read_text() for page in sorted((ROOT / "docs" / "differences").glob("*.md"))}
SECTION = re.compile(r"^## (?P<name>[a-z0-9_-]+)\n(?P<body>.*?)(?=^## |\Z)", flags=re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```yaml\n(?P<cluster>.*?)^```\n+```text\n(?P<outcome>.*?)^```$", flags=re.MULTILINE | re.DOTALL)
SECTIONS = {m["name"]: m["body"] for text in PAGES.values() for m in SECTION.finditer(text)}
SWITCHES = [field.name for field in fields(Compat)]
ELSEWHERE = {
    "kai_any_excess",
    "kai_claimed_gpus",
    "kai_flat_gangs",
    "kai_forgotten_promises",
    "kai_free_spread",
    "kai_movable_only",
    "kai_narrow_topology",
    "kai_over_share",
    "kai_placed_demand",
    "kai_raw_affinity",
    "kai_sharing_score",
    "kai_unset_limits",
    "kai_waiting_gpus",
    "extender_answers",
    "first_shortage",
    "raising_handlers",
    "moves_in_vain",
    "unmeasured_nodes",
    "unscored_single_candidate",
    "unknown_geometries",
    "unscored_vgpu_spread",
}
"""Sections without a cluster; what they say is tested where it says."""


def built(data: Mapping[str, Any]) -> Scenario:
    """The cluster of an example: builders of `pumice.testing` by name, manifests under ``objects``."""
    scenario = Scenario()
    for obj in data.get("objects", ()):
        scenario.add(decode(obj["kind"], obj))
    for make, kind in ((node, "nodes"), (queue, "queues"), (job, "jobs"), (pod, "pods")):
        for name, options in data.get(kind, {}).items():
            scenario.add(make(name, **_options(options or {})))
    return scenario


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    out = {"on" if key == "runs_on" else key: value for key, value in options.items()}
    if "spec" in out:
        out["spec"] = msgspec.convert(out["spec"], PodSpec)
    return out


def outcome(data: Mapping[str, Any], compat: str | None) -> str:
    """What the cycles of an example decided, in one line."""
    scenario = built(data)
    tiers = [{"plugins": [p if isinstance(p, dict) else {"name": p} for p in tier]} for tier in data["tiers"]]
    conf = {"actions": data["actions"], "tiers": tiers, "configurations": data.get("configurations", [])}
    said: list[str] = []
    for n in range(data.get("cycles", 1)):
        cycle = scenario.run(conf=conf, compat=compat) if n == 0 else scenario.run()
        said += [f"evict {_short(p)}" for p in sorted(cycle.evictions)]
        said += [f"bind {_short(p)} to {n}" for p, n in sorted(cycle.binds.items())]
        for change in data.get("then", {}).get(n + 1, ()):
            _happens(scenario, change)
    return "; ".join(said) or "nothing"


def _happens(scenario: Scenario, change: str) -> None:
    what, _, pod_name = change.partition(" ")
    {"finish": scenario.finish, "delete": scenario.delete, "remove": scenario.remove}[what](pod_name)


def _short(key: str) -> str:
    return key.removeprefix("default/")


def examples() -> Iterator[Any]:
    for name, body in SECTIONS.items():
        for n, found in enumerate(EXAMPLE.finditer(body)):
            said = dict(line.split(": ", 1) for line in found["outcome"].splitlines())
            yield pytest.param(yaml.safe_load(found["cluster"]), said, id=f"{name}-{n}" if n else name)


@pytest.mark.parametrize(("cluster", "said"), list(examples()))
def test_an_example_does_what_the_page_says(cluster: dict[str, Any], said: dict[str, str]) -> None:
    assert {"pumice": outcome(cluster, None), "volcano": outcome(cluster, "volcano")} == said


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_has_a_section_whose_example_shows_both_behaviours(switch: str) -> None:
    body = SECTIONS[switch]
    shown = [dict(line.split(": ", 1) for line in m["outcome"].splitlines()) for m in EXAMPLE.finditer(body)]
    if switch in ELSEWHERE:
        (named,) = re.findall(r"`(tests/[^`]+)`", body)
        assert (ROOT / named).exists()
    else:
        assert any(said["pumice"] != said["volcano"] for said in shown)


def test_a_switch_is_read_in_exactly_one_place() -> None:
    read = re.compile(r'compat\.(\w+)|_[A-Z]+ = \("(\w+)", ')
    places: dict[str, list[str]] = {switch: [] for switch in SWITCHES}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for n, line in enumerate(path.read_text().splitlines(), 1):
            for switch in {first or second for first, second in read.findall(line)} & set(SWITCHES):
                places[switch].append(f"{path.relative_to(ROOT)}:{n}")
    assert {switch: found for switch, found in places.items() if len(found) != 1} == {}


def test_the_list_at_the_top_leads_to_every_section() -> None:
    listed = re.findall(r"\(differences/(\w+)\.md#([\w-]+)\)", TEXT.partition("\n## ")[0])
    assert sorted(listed) == sorted((page, m["name"]) for page, text in PAGES.items() for m in SECTION.finditer(text))


def test_every_known_defect_has_a_row() -> None:
    rows = re.findall(r"^\| (\d+) \|", TEXT, flags=re.MULTILINE)
    assert [int(n) for n in rows] == list(range(1, 41))


def test_switches_named_in_the_table_exist() -> None:
    named = set(re.findall(r"switch \[`(\w+)`\]\([\w/.]*#\w+\)", "\n".join((TEXT, *PAGES.values()))))
    assert named
    assert named <= set(SWITCHES)


class Counting(Plugin):
    """A score that counts how often it is asked."""

    name = "counting"

    def on_session_open(self, ssn: Session) -> None:
        def score(task: Task, node: Node) -> float:
            ssn.metrics.counter("asked")
            return 0.0

        ssn.add_node_order_fn(self.name, score)


@pytest.mark.parametrize(("compat", "asked"), [(None, 1), ("volcano", 0)])
def test_a_single_candidate_is_scored_unless_as_volcano(scenario: Scenario, compat: str | None, asked: int) -> None:
    scenario.node("n1", cpu=1).job("one", cpu=1)
    cycle = scenario.run(actions=["allocate"], plugins=["gang", Counting], compat=compat)
    assert cycle.binds == {"default/one-0": "n1"}
    assert cycle.counter("asked") == asked
