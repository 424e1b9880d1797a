"""No text shows who asks at a URL, whichever way it goes: errors, logs, warnings, reasons."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pumice import errors
from pumice.cli import render
from pumice.cli.app import app
from pumice.cli.commands import LogLines
from pumice.errors import PumiceError, shown, without_passwords, words_of
from pumice.extender.asking.calls import CallFailed
from pumice.testing import Scenario

URL = "http://user:s3cret@127.0.0.1:1/predicate"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (URL, "http://127.0.0.1:1/predicate"),
        ("at https://user:s3/cr@et@host/x now", "at https://host/x now"),
        ("https://token-s3cret@host: no", "https://host: no"),
        ("'postgres://a:s3cret@h' and http://b:s3cret@i/j?k=l@m", "'postgres://h' and http://i/j?k=l@m"),
        ("http://host:80/path@x and mail a@b.c", "http://host:80/path@x and mail a@b.c"),
        ("https://[::1]:8443/x?y=z", "https://[::1]:8443/x?y=z"),
    ],
)
def test_names_and_passwords_are_taken_out_of_urls_and_nothing_else(text: str, left: str) -> None:
    assert without_passwords(text) == left


ERRORS = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, PumiceError)]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_no_error_of_ours_shows_one(kind: type[PumiceError]) -> None:
    error = kind.__new__(kind, URL)
    error.args = (f"{URL} cannot be reached",)
    assert str(error) == "http://127.0.0.1:1/predicate cannot be reached"


def test_no_way_to_people_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    record = logging.LogRecord("pumice", logging.ERROR, "x.py", 1, "asking %s", (URL,), None)
    try:
        raise OSError(URL)
    except OSError as exc:
        record.exc_info = (OSError, exc, exc.__traceback__)
    for say in (render.note, render.warning, render.error):
        say(URL)
    told = [
        LogLines("%(message)s").format(record),
        words_of(ValueError(URL)),
        shown(URL),
        CallFailed("v", "k", URL).text,
    ]
    assert not [text for text in (*told, capsys.readouterr().err) if "s3cret" in text]


def test_an_extender_that_cannot_be_reached_is_told_without_its_password() -> None:
    scenario = Scenario().node("n1", cpu=4).job("j", tasks=1, cpu=1)
    arguments = {"extender.urlPrefix": "http://user:s3cret@127.0.0.1:1", "extender.predicateVerb": "predicate"}
    conf = {"actions": "allocate", "tiers": [{"plugins": [{"name": "extender", "arguments": arguments}]}]}
    cycle = scenario.run(conf=conf)
    told = cycle.why("default/j").text + str(cycle.report.warnings)
    assert "127.0.0.1:1" in told
    assert "s3cret" not in told


@pytest.mark.parametrize("address", [":8443", "0.0.0.0:8443", "[::]:8443", "scheduler:8443"])
def test_answers_take_tokens_over_plain_http_only_on_this_machine(tmp_path: Path, address: str) -> None:
    file = tmp_path / "settings.yaml"
    answers = f"answers: {{address: {address!r}}}"
    file.write_text(f"apiVersion: pumice.dev/v1\nkind: Scheduler\n{answers}\n")
    result = CliRunner().invoke(app, ["run", "--config", str(file)])
    assert result.exit_code == 2
    assert f"answers.address {address!r}: tokens would cross the network as they are" in result.stderr
