"""``pumice run`` takes the command line of Volcano's scheduler."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from pumice.cli import run
from pumice.cli.app import app
from pumice.cli.goflags import rewrite
from pumice.cli.options import WrongUsage

SWITCHES = frozenset(("--leader-elect", "--enable-metrics"))
VALUES = frozenset(("--schedule-period", "--scheduler-name", "-v"))
IDLE = {"--kube-api-qps": "no need", "--logtostderr": "always"}


def rewritten(*args: str) -> list[str]:
    return rewrite(args, SWITCHES, VALUES, IDLE)[0]


def test_switches_take_values_as_in_go() -> None:
    assert rewritten("--leader-elect=false", "--enable-metrics=true") == ["--no-leader-elect", "--enable-metrics"]
    assert rewritten("--leader-elect", "--no-enable-metrics") == ["--leader-elect", "--no-enable-metrics"]


def test_a_switch_with_another_value_is_an_error_that_names_it() -> None:
    with pytest.raises(WrongUsage, match="--leader-elect=maybe: must be true or false"):
        rewritten("--leader-elect=maybe")


def test_values_come_with_an_equals_sign_or_behind() -> None:
    assert rewritten("--schedule-period=2s", "--scheduler-name", "volcano", "-v=3", "-v", "4") == [
        *("--schedule-period", "2s", "--scheduler-name", "volcano", "-v", "3", "-v", "4")
    ]


def test_one_dash_is_enough_for_long_names() -> None:
    assert rewritten("-leader-elect=false", "-schedule-period=2s") == ["--no-leader-elect", "--schedule-period", "2s"]


def test_flags_that_change_nothing_are_left_out_with_a_warning() -> None:
    out, warnings = rewrite(
        ["--kube-api-qps=2000", "--kube_api_qps", "3", "--logtostderr", "--leader-elect"], SWITCHES, VALUES, IDLE
    )
    assert out == ["--leader-elect"]
    assert warnings == ["--kube-api-qps: no need", "--kube-api-qps: no need", "--logtostderr: always"]


@pytest.mark.parametrize("command", ["run", "controllers"])
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--leader-elct=false"], "--leader-elct: there is no such flag; did you mean --leader-elect?"),
        (["-listen-adress", ":1"], "-listen-adress: there is no such flag; did you mean --listen-address?"),
        (["--kube-api-qpss=3"], "--kube-api-qpss: there is no such flag; did you mean --kube-api-qps?"),
        (["--dry-run"], "--dry-run: there is no such flag"),
        (["-x"], "-x: there is no such flag"),
    ],
)
def test_any_other_flag_is_refused_before_anything_starts(command: str, args: list[str], message: str) -> None:
    result = CliRunner().invoke(app, [command, *args])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--schedule-period=soon"], "--schedule-period 'soon'"),
        (["--schedule-period=0s"], "must be above zero"),
        (["--node-selector", "pool"], "--node-selector 'pool': must be KEY:VALUE"),
        (["--leader-elect-renew-deadline=20s"], "leaderElection.leaseDuration: 15s must be longer"),
        (["--enable-healthz", "--healthz-address=nowhere"], "address 'nowhere': must be HOST:PORT"),
        (["--leader-elect=maybe"], "--leader-elect=maybe: must be true or false"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(args: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["run", *args])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--plugins-dir=nowhere"], "plugins directory 'nowhere': not a directory"),
        (["--kubeconfig=/does/not/exist"], "kubeconfig '/does/not/exist'"),
    ],
)
def test_a_file_that_is_not_there_is_one_line_and_exit_code_1(args: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["run", *args])
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_every_flag_that_changes_nothing_says_why() -> None:
    assert all(why for why in run.IDLE.values())
    assert not set(run.IDLE) & {"--scheduler-conf", "--schedule-period", "--leader-elect"}
