"""Whatever stands behind an option, of every command: it ends with a word on it and exit code 1 or 2, if not well.

The options are those that the commands have: a new one is covered by being there.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_runs import DEMO, DEMO_CONF, ROOT
from typer.testing import CliRunner

from pumice.cli.app import app

GUIDE = ROOT / "examples" / "scenarios" / "guide.yaml"
NEEDED: dict[str, list[object]] = {
    "simulate": [GUIDE],
    "report": ["{nowhere}"],
    "cycle": [DEMO, "--conf", DEMO_CONF],
    "status": ["--from", DEMO],
    "trace": ["{nowhere}"],
    "conf check": [DEMO_CONF],
    "plugin": ["new", "gang"],
    "extender serve": ["nonesuch"],
    "extender check": ["http://127.0.0.1:1"],
    "extender record": ["http://127.0.0.1:1", "tape", "--address", "127.0.0.1:{taken}"],
    "extender replay": ["{nowhere}"],
    "run": ["--kubeconfig", "{nowhere}"],
    "controllers": ["--kubeconfig", "{nowhere}"],
}
"""What a command cannot do without; servers are kept from starting."""
WRONG = ["", "nonsense", "-1", "99999999999999999999", "\u2028"]


def leaves(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        return [(" ".join(path), command)]
    return [leaf for name in below for leaf in leaves(below[name], (*path, name))]


OPTIONS = [
    (name, max(parameter.opts, key=len))
    for name, command in leaves(typer.main.get_command(app))
    for parameter in command.params
    if parameter.opts[0].startswith("-") and not getattr(parameter, "is_flag", False)
]


def test_there_are_many_of_them() -> None:
    assert len(OPTIONS) > 80


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=[f"{name} {option}" for name, option in OPTIONS])
@pytest.mark.part(6)
def test_a_value_that_makes_no_sense_never_ends_in_a_traceback(
    name: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with socket.create_server(("", 0)) as taken:
        meant = {"{nowhere}": str(tmp_path / "nowhere"), "{taken}": str(taken.getsockname()[1])}
        needed = [meant.get(str(word), str(word)) for word in NEEDED.get(name, [])]
        _try_all(name, option, needed)


WRITTEN = {
    "HOST:PORT": "must be HOST:PORT",
    "URL": "must begin with https:// or http://",
    "DURATION": "",
    "SEEDS": "",
    "TIME": "",
}
"""What stands behind an option must be written so: anything else is wrong usage, whatever else is wrong."""
TO_BE_ASKED: dict[str, list[object]] = {
    **NEEDED,
    "tune": [GUIDE],
    "plan": [GUIDE, "--load", "2"],
    "shadow": ["--conf", DEMO_CONF],
    "why": ["llama"],
}
"""... and with which an option is looked at; a value that is refused keeps these from starting."""
FORMS = [
    (name, max(parameter.opts, key=len), parameter.metavar)
    for name, command in leaves(typer.main.get_command(app))
    for parameter in command.params
    if parameter.metavar in WRITTEN and parameter.opts[0].startswith("-")
]


@pytest.mark.parametrize(("name", "option", "form"), FORMS, ids=[f"{name} {option}" for name, option, _ in FORMS])
def test_a_value_of_the_wrong_form_is_wrong_usage(
    name: str, option: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    needed = [str(word) for word in TO_BE_ASKED.get(name, [])]
    ran = CliRunner().invoke(app, [*name.split(), *needed, f"{option}=nonsense"])
    assert ran.exit_code == 2, ran.output
    assert WRITTEN[form] in " ".join(ran.output.split())


@pytest.mark.parametrize("command", [["simulate", GUIDE], ["tune", GUIDE], ["plan", GUIDE, "--load", "2"]], ids=str)
def test_no_command_starts_processes_without_end(command: list[object]) -> None:
    ran = CliRunner().invoke(app, [*map(str, command), "--workers=99999999999"])
    assert ran.exit_code == 2, ran.output
    assert "--workers" in ran.output


def _try_all(name: str, option: str, needed: list[str]) -> None:
    for value in WRONG:
        ran = CliRunner().invoke(app, [*name.split(), *needed, f"{option}={value}"])
        what = f"{option}={value!r}: {ran.output}"
        assert ran.exception is None or isinstance(ran.exception, SystemExit), what
        assert ran.exit_code in (0, 1, 2), what
        assert "Traceback" not in ran.output, what
        assert ran.exit_code == 0 or ran.output.strip(), what
