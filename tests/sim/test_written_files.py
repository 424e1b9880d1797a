"""A file that an option names and that cannot be written is named with its option, however late that is found out."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pumice import InvalidInput, simulate
from pumice.cli.app import app

FULL = "/dev/full"
SCENARIO = (
    "horizon: 1h\ncluster: {nodes: [{name: n, count: 2, cpu: 8, memory: 64Gi}]}\n"
    "workload:\n  generators:\n  - {name: a, arrivals: {every: 2m, count: 4}, duration: 5m, cpu: 1, queue: default}\n"
)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    return path


def run(*arguments: object) -> tuple[int, str]:
    """Exit code and stderr of a command."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.stderr


@pytest.mark.skipif(not Path(FULL).exists(), reason="only some systems have a device that is always full")
@pytest.mark.parametrize("option", ["--record", "--report", "--log"])
@pytest.mark.parametrize("seeds", [(), ("--seeds", "1..2", "--workers", "1")])
def test_a_full_disk_names_the_option(scenario: Path, option: str, seeds: tuple[str, ...]) -> None:
    if option == "--log" and seeds:
        return  # the log is that of single runs
    code, said = run("simulate", scenario, *seeds, option, FULL)
    assert code == 1
    assert f"error: {option} '{FULL}': No space left on device" in said


@pytest.mark.skipif(not Path(FULL).exists(), reason="only some systems have a device that is always full")
def test_a_page_of_records_that_finds_no_room_is_named(scenario: Path, tmp_path: Path) -> None:
    records = tmp_path / "runs.jsonl"
    assert run("simulate", scenario, "--record", records)[0] == 0
    code, said = run("report", records, "--report", FULL)
    assert (code, said) == (1, f"error: --report '{FULL}': No space left on device\n")


@pytest.mark.parametrize("horizon", ["0s", "-5h", "0"])
@pytest.mark.parametrize("command", [("simulate",), ("simulate", "--vary", "gang.x=1,2"), ("tune",), ("plan",)])
def test_a_run_ends_after_it_begins(scenario: Path, command: tuple[str, ...], horizon: str) -> None:
    code, said = run(*command, scenario, f"--horizon={horizon}")
    assert code == 2
    assert "Invalid value for --horizon: horizon: must be a duration above 0, got " in " ".join(said.split())


def test_a_study_ends_after_it_begins(scenario: Path) -> None:
    with pytest.raises(InvalidInput, match="horizon: must be a duration above 0, got -5 s"):
        simulate(scenario, seeds=[1], horizon="-5s")
