"""``pumice controllers`` as a command: its flags and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_runs import Pumice


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text("")
    return f"--kubeconfig={path}"


def test_a_controller_that_does_not_exist_is_refused_with_those_that_do(nowhere: str) -> None:
    ran = Pumice()("controllers", nowhere, "--controllers=job,cron", code=2)
    assert "--controllers 'cron': must be one of job, podgroup, queue" in ran.err


def test_times_that_do_not_go_together_are_refused(nowhere: str) -> None:
    ran = Pumice()("controllers", nowhere, "--leader-elect-renew-deadline=20s", code=2)
    assert "leaderElection.leaseDuration: 15s must be longer than renewDeadline 20s" in ran.err


def test_flags_of_volcanos_controller_manager_are_taken_with_a_word_on_what_they_do(nowhere: str) -> None:
    ran = Pumice()("controllers", nowhere, "--leader-elect=false", "--worker-threads=3", "--logtostderr", code=1)
    assert "--worker-threads: keys are looked at several at once" in ran.err
    assert "--logtostderr: the log always goes to stderr" in ran.err
    assert "kubeconfig" in ran.err.splitlines()[-1]
