"""The settings file of ``pumice run``: what breaks a rule is refused with line and column, flags win over the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.cli.goflags import settings_of
from pumice.cli.options import WrongUsage
from pumice.cli.run import FLAGS
from pumice.config.settings import ControllersSettings, SchedulerSettings, read
from pumice.errors import ConfigError

HEAD = "apiVersion: pumice.dev/v1\nkind: Scheduler\n"
ROOT = Path(__file__).resolve().parents[3]


def settings(tmp_path: Path, text: str, **flags: Any) -> SchedulerSettings:
    file = tmp_path / "s.yaml"
    file.write_text(HEAD + text)
    return settings_of(SchedulerSettings, file, {path.replace("__", "."): v for path, v in flags.items()}, FLAGS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bindsInFlight: many\n", "s.yaml:3:1: bindsInFlight: must be a whole number, got text"),
        ("bindsInFlight: 2000\n", "s.yaml:3:1: bindsInFlight: must be a whole number <= 1000"),
        ("metrics:\n  adress: ':1'\n", "s.yaml:4:3: metrics.adress: there is no such setting; did you mean 'address'?"),
        ("schedulePeriod: soon\n", "s.yaml:3:1: schedulePeriod: duration 'soon'"),
        ("schedulePeriod: 0s\n", "schedulePeriod: duration '0s': must be above zero"),
        ("health:\n  address: here\n", "s.yaml:4:3: health.address: address 'here': must be HOST:PORT or :PORT"),
        ("answers: {dashboard: true}\n", "s.yaml:3:11: answers.dashboard: needs answers.address"),
        ("history: {keep: 90d}\n", "s.yaml:3:11: history.keep: needs history.directory"),
        ("metrics: {tlsCertFile: a}\n", "s.yaml:3:1: metrics: tlsCertFile and tlsPrivateKeyFile: both must be given"),
        ("conf: a\nconfMap: b/c\n", "conf and confMap: only one of them may be given"),
        ("nodeSelector: [pool]\n", "s.yaml:3:1: nodeSelector: 'pool': must be KEY:VALUE"),
        ("confMap: conf\n", "s.yaml:3:1: confMap: ConfigMap 'conf': must be NAMESPACE/NAME"),
        ("bindsInFlight: 1\nbindsInFlight: 2\n", "s.yaml:4:1: bindsInFlight: the key"),
        ("---\na: b\n", "only one document"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as failure:
        settings(tmp_path, text)
    assert message in str(failure.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Scheduler\n", "apiVersion: is missing; must be pumice.dev/v1"),
        (
            "apiVersion: pumice.dev/v9\nkind: Scheduler\n",
            "x:1:1: apiVersion: is 'pumice.dev/v9'; must be pumice.dev/v1",
        ),
        ("apiVersion: pumice.dev/v1\nkind: Controllers\n", "x:2:1: kind: is 'Controllers'; must be Scheduler"),
        ("- a\n", "x:1:1: must be a mapping"),
    ],
)
def test_a_file_of_another_version_or_kind_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as failure:
        read(text, "x", SchedulerSettings)
    assert message in str(failure.value)


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    text = "leaderElection: {leaseDuration: 30s, renewDeadline: 20s}\nmetrics: {enabled: true, debug: true}\n"
    found = settings(tmp_path, text, leaderElection__renewDeadline="25s", metrics__enabled=False)
    assert (found.leader_election.lease_duration, found.leader_election.renew_deadline) == ("30s", "25s")
    assert (found.metrics.enabled, found.metrics.debug) == (False, True)
    with pytest.raises(WrongUsage, match="--schedule-period 'soon': duration"):
        settings(tmp_path, "", schedulePeriod="soon")


@pytest.mark.parametrize(("name", "kind"), [("scheduler", SchedulerSettings), ("controllers", ControllersSettings)])
def test_the_settings_of_the_plain_manifests_are_read(name: str, kind: Any) -> None:
    text = (ROOT / "deploy" / "manifests" / f"{name}.yaml").read_text(encoding="utf-8")
    maps = [document for document in yaml.safe_load_all(text) if document["kind"] == "ConfigMap"]
    found = next(one["data"]["settings.yaml"] for one in maps if one["metadata"]["name"] == f"pumice-{name}-settings")
    assert read(found, name, kind)["metrics"]["enabled"] is True
