"""The page about controllers names only what exists, and the example is a job that can be run."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import typer.main
import yaml

from pumice.cli.app import app
from pumice.cli.controllers import IDLE
from pumice.config.settings import CONTROLLERS as NAMES
from pumice.workloads import lifecycle, vcjob

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "controllers.md").read_text(encoding="utf-8")


def options() -> set[str]:
    command = typer.main.get_command(app).commands["controllers"]  # type: ignore[attr-defined]
    return {name for p in command.params for name in p.opts if name.startswith("-")}


def column(section: str) -> set[str]:
    """The names in the first column of the table that begins so."""
    table = TEXT.partition(f"| {section} |")[2].partition("\n\n")[0]
    return {
        name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1] if "|" in row else "")
    }


def test_no_flag_both_works_and_changes_nothing() -> None:
    assert not set(IDLE) & options()


def test_the_controllers_are_those_that_exist() -> None:
    line = next(line for line in TEXT.splitlines() if line.startswith("| `controllers`"))
    assert set(re.findall(r"`([a-z]+)`", line.split("|")[4])) == set(NAMES)


def test_every_phase_event_and_action_is_on_the_page() -> None:
    assert column("event") == set(vcjob.EVENTS)
    assert column("action") == {r.value for r in vcjob.Reaction}
    phases = {v for k, v in vars(lifecycle).items() if k.isupper() and isinstance(v, str) and k == v.upper()}
    assert column("phase") == phases


def test_every_file_on_the_page_exists() -> None:
    named = set(re.findall(r"(?:deploy|examples)/[\w./-]+\w", TEXT))
    assert len(named) == 3
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_example_breaks_no_rule_and_asks_for_nothing_that_is_missing() -> None:
    data = yaml.safe_load((ROOT / "examples" / "kubernetes" / "vcjob.yaml").read_text(encoding="utf-8"))
    spec = msgspec.convert(data["spec"], vcjob.VcJobSpec)
    assert vcjob.problems_of(data["metadata"]["name"], spec) == []
    assert vcjob.gaps_of(spec) == vcjob.blocks_of(spec) == []
