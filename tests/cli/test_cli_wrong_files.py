"""Whatever file a command is given: one that cannot be what it should be is named in a line, and the exit code is 1.

The commands are those that there are: a new one with a file among its arguments must be given a line here.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from cli_runs import DEMO, DEMO_CONF, ROOT
from typer.testing import CliRunner

from pumice.cli.app import app
from pumice.saved import SavedCycle, write

GUIDE = str(ROOT / "examples" / "scenarios" / "guide.yaml")
FILE = "{file}"
COMMANDS: dict[str, list[str]] = {
    "cycle": [FILE],
    "why": ["job", FILE],
    "what-if": [FILE, "--drain", "n1"],
    "what-if -f": [FILE, str(DEMO)],
    "status": ["--from", FILE],
    "status queue": ["--from", FILE],
    "simulate": [FILE],
    "plan": [FILE],
    "tune": [FILE],
    "report": [FILE],
    "trace": [FILE],
    "trace --kind history --write out.csv": [FILE],
    "conf check": [FILE],
    "conf explain": [FILE],
    "shadow": [FILE, "--conf", str(DEMO_CONF)],
    "extender serve": [FILE],
    "extender replay": [FILE, "--against", "http://127.0.0.1:1"],
    "dashboard": [FILE],
    "mcp": [FILE],
}
WITHOUT = {
    "run",
    "controllers",
    "plugin",
    "extender check",
    "extender record",
}
"""They take no file as an argument, or make one."""
CONTENTS: dict[str, bytes | None] = {
    "empty.yaml": b"",
    "binary.yaml": b"\x00\x01\x02\xff\xfe",
    "text.yaml": b"just text\n",
    "list.yaml": b"[1, 2, 3]\n",
    "service.yaml": b"kind: Service\nmetadata: {name: x}\n",
    "huge.yaml": b"a" * 3_000_000,
    "grows.yaml": b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (at, at, b",".join([b"*%c" % (at - 1)] * 9)) for at in range(ord("b"), ord("h"))
    ),
    "packed.gz": gzip.compress(b"just text\n", mtime=0),
    "broken.gz": b"\x1f\x8b\x08\x00nothing of the kind",
    "nowhere.yaml": None,
}  # fmt: skip


def names(command: Any, path: tuple[str, ...] = ()) -> list[str]:
    below = getattr(command, "commands", None)
    return [" ".join(path)] if below is None else [leaf for name in below for leaf in names(below[name], (*path, name))]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "folder").mkdir()
    for name, content in CONTENTS.items():
        if content is not None:
            (folder / name).write_bytes(content)
    return folder


def test_there_is_a_line_for_every_command() -> None:
    known = set(names(typer.main.get_command(app)))
    found = {next(n for n in sorted(known, key=len, reverse=True) if words.startswith(n)) for words in COMMANDS}
    assert found | WITHOUT == known


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.part(3)
def test_a_wrong_file_is_named_in_a_line(name: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    for file in [*CONTENTS, "folder"]:
        words = [*name.split(), *(file if word == FILE else word for word in COMMANDS[name])]
        ran = CliRunner().invoke(app, words)
        assert ran.exception is None or isinstance(ran.exception, SystemExit), f"{file}: {ran.exception!r}"
        assert ran.exit_code == 1, f"{file}: {ran.output}"
        said = [line for line in ran.output.splitlines() if file in line]
        assert said, f"{file}: {ran.output}"
        assert max(map(len, ran.output.splitlines())) < 1000, f"{file}: says too much"


@pytest.mark.parametrize("words", [["shadow", FILE, "--conf", str(DEMO_CONF)], ["simulate", FILE]])
def test_a_saved_cycle_that_is_given_for_a_scenario_is_called_one(words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "cycle.pumice"
    write(file, SavedCycle(now=0.0, objects={}, conf={}))
    ran = CliRunner().invoke(app, [str(file) if word == FILE else word for word in words])
    assert ran.exit_code == 1
    said = " ".join(ran.output.split())
    assert "is a saved cycle" in said
    assert "pumice cycle" in said


CONFS = {"cycle": [str(DEMO), "--conf", FILE], "run": ["--config", FILE], "run --scheduler-conf": [FILE]}
"""Commands with a file in an option."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("name", "words"), [*COMMANDS.items(), *CONFS.items()])
def test_no_command_waits_for_a_file_that_never_ends(name: str, words: list[str], tmp_path: Path) -> None:
    pipe, history = tmp_path / "pipe", tmp_path / "history"
    os.mkfifo(pipe)
    history.mkdir()
    (history / "20260101T000000Z-x-00001.jsonl").symlink_to("/dev/zero")
    for file in ("/dev/zero", pipe, *((history,) if name.startswith("trace") else ())):
        ran = CliRunner().invoke(app, [*name.split(), *(str(file) if word == FILE else word for word in words)])
        assert ran.exception is None or isinstance(ran.exception, SystemExit), f"{file}: {ran.exception!r}"
        assert ran.exit_code in (1, 2), f"{file}: {ran.output}"
