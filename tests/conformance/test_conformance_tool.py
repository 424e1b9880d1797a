"""``tools/conformance.py run``: what it prints and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pumice_conformance.runner import CaseOutcome
from pumice_conformance.suite import differs, parse_differs, run_suite
from typer.testing import CliRunner

import conformance
from pumice.errors import InvalidInput
from pumice.framework.registry import default_registry

OBJECTS: dict[str, Any] = {
    "nodes": [{"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}}],
    "queues": [{"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}],
    "podGroups": [{"metadata": {"name": "g", "namespace": "ns"}, "spec": {"minMember": 1, "queue": "default"}}],
    "pods": [
        {
            "metadata": {"name": "p", "namespace": "ns", "annotations": {"scheduling.k8s.io/group-name": "g"}},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending"},
        }
    ],
}


def case(name: str, binds: dict[str, str], plugin: str = "gang", **more: Any) -> dict[str, Any]:
    conf = {"actions": "enqueue, allocate", "tiers": [{"plugins": [{"name": plugin}]}]}
    return {"id": name, "profile": "volcano", "conf": conf, "objects": OBJECTS, "expect": {"binds": binds}, **more}


GOOD = case("good", {"ns/p": "n1"})
BAD = case("bad", {})
ALIEN = case("alien", {}, plugin="astrology")


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(c) + "\n" for c in (GOOD, BAD, ALIEN)))
    return tmp_path


@dataclass(frozen=True)
class Ran:
    """What the tool printed."""

    out: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


def tool(*words: object, code: int = 0) -> Ran:
    """Run ``python tools/conformance.py run WORDS...`` in this process."""
    result = CliRunner().invoke(conformance.app, ["run", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return Ran(result.stdout)


def process(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the tool as outsiders do, from another folder."""
    file = Path(conformance.__file__)
    command = [sys.executable, str(file), "run", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=file.parents[2])


def test_the_tool_runs_from_any_folder_and_ends_with_the_counts(cases: Path, tmp_path: Path) -> None:
    ran = process(cases, "--skip-missing")
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (1, "1 passed, 1 failed, 1 skipped")
    nowhere = process(tmp_path / "nowhere")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert nowhere.stderr == f"error: path '{tmp_path / 'nowhere'}': does not exist\n"
    assert process(cases, "--frobnicate").returncode == 2


def write(path: Path, *cases: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(c) + "\n" for c in cases))
    return path


def test_a_failing_case_is_one_line_and_exit_code_1(cases: Path) -> None:
    lines = tool(cases, "--skip-missing", code=1).out.splitlines()
    assert lines == [
        "FAILED bad: binds: expected {}, got {'ns/p': 'n1'}",
        "skipped for want of: plugin astrology (1)",
        "1 passed, 1 failed, 1 skipped",
    ]


def test_what_is_missing_is_a_failure_unless_it_may_be_skipped(cases: Path) -> None:
    assert tool(cases, code=1).out.endswith("1 passed, 2 failed\n")


def test_all_passing_is_exit_code_0_and_the_filter_chooses(cases: Path) -> None:
    assert tool(cases, "--filter", "goo").out == "1 passed, 0 failed\n"


def test_verbose_prints_every_case(cases: Path) -> None:
    out = tool(cases, "-v", "--skip-missing", code=1).out
    assert "passed  good" in out
    assert "failed  bad\n        binds: expected {}, got" in out
    assert "skipped alien\n        needs plugin astrology" in out


def test_results_are_given_as_json(cases: Path) -> None:
    data = tool(cases, "--skip-missing", "-o", "json", code=1).data
    assert (data["passed"], data["failed"], data["skipped"], data["differ"]) == (1, 1, 1, 0)
    assert {r["id"]: r["outcome"] for r in data["results"]} == {"good": "passed", "bad": "failed", "alien": "skipped"}


def test_a_case_with_an_unknown_field_fails_with_its_reason(tmp_path: Path) -> None:
    write(tmp_path / "c.jsonl", case("odd", {}, wishes=[]))
    assert "FAILED odd: unknown fields: wishes" in tool(tmp_path, code=1).out


def test_extender_captures_are_passed_by(tmp_path: Path) -> None:
    (tmp_path / "extender").mkdir()
    write(tmp_path / "extender" / "capture.json", {"verb": "predicate"})
    assert tool(tmp_path).out == "0 passed, 0 failed\n"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"objects": []}, ""),
        ({"objects": ["x"]}, "objects must be an object"),
        ({"conf": "allocate"}, "conf must be an object"),
        ({"objects": {"pods": [{"metadata": {"name": 3}}]}}, "Pod 3: metadata.name: must be text, got a whole number"),
        ({"objects": {"pods": 3}}, "crashed: TypeError"),
        ({"environment": {"now": "soon"}}, "crashed: ValueError"),
    ],
)
def test_a_case_that_cannot_be_run_fails_alone(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    write(tmp_path / "c.jsonl", {**case("odd", {"ns/p": "n1"}), **change}, GOOD)
    out = tool(tmp_path, code=1).out
    assert f"FAILED odd: {reason}" in out
    assert out.endswith("1 passed, 1 failed\n")


def test_a_listed_case_that_differs_is_counted_apart(tmp_path: Path) -> None:
    suite = run_suite([write(tmp_path / "c.jsonl", BAD)], default_registry(), listed={"bad": "row 9"})
    [result] = suite.results
    assert result.outcome is CaseOutcome.DIFFERS
    assert result.details[0] == "docs/differences.md, row 9"


def test_a_listed_case_that_passes_is_an_error(tmp_path: Path) -> None:
    suite = run_suite([write(tmp_path / "c.jsonl", GOOD)], default_registry(), listed={"good": "row 9"})
    [result] = suite.results
    assert result.outcome is CaseOutcome.FAILED
    assert "take it off the list" in result.details[0]


def test_the_committed_list_of_mended_defects_can_be_read() -> None:
    assert all(row for row in differs().values())


def test_a_list_of_mended_defects_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"differs\.yaml: must map a case id"):
        parse_differs("- volcano/1\n")
