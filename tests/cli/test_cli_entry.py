"""The program starts quickly: it loads the command that is called and nothing of the others; and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from cli_runs import DEMO, DEMO_CONF, PUMICE, Pumice

from pumice.cli.app import COMMANDS, app
from pumice.cli.commands import SUMMARY

HELP_S = 0.3
"""CPU seconds that help and completion may take."""
VERSION_S = 0.15
TRIES = 8
"""The best run counts: what has to be compiled first and a busy machine make others longer, never shorter."""
HEAVY = (
    "rich",
    "msgspec",
    "numpy",
    "yaml",
    "aiohttp",
    "uvicorn",
    "starlette",
    "prometheus_client",
    "pumice.model",
    "pumice.framework",
)
"""What no parser needs."""


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command below a group."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path)
        return
    for name in below:
        yield from leaves(below[name], (*path, name))


ALL = sorted(leaves(typer.main.get_command(app)))
COMPLETIONS = [("pumice ", "1"), ("pumice sim", "1"), ("pumice cycle --re", "2"), ("pumice conf ", "2")]


def cpu(*words: str, **environment: str) -> float:
    """CPU seconds of a process that must end well."""
    with subprocess.Popen(
        [str(PUMICE), *words], env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    return used.ru_utime + used.ru_stime


def quick(limit: float, *words: str, **environment: str) -> bool:
    """Whether the best of some runs is within the limit."""
    return any(cpu(*words, **environment) < limit for _ in range(TRIES))


def test_the_version_is_printed_at_once() -> None:
    assert quick(VERSION_S, "--version")


@pytest.mark.parametrize("name", ["", *sorted({name.split()[0] for name in ALL} | set(ALL))])
@pytest.mark.part(8)
def test_help_of_every_command_is_quick(name: str) -> None:
    assert quick(HELP_S, *name.split(), "--help")


@pytest.mark.parametrize(("words", "at"), COMPLETIONS)
def test_completion_is_quick(words: str, at: str) -> None:
    assert quick(HELP_S, _PUMICE_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=at)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.part(8)
def test_help_of_a_command_loads_nothing_that_parsing_does_not_need(name: str) -> None:
    look = (
        "import sys; from pumice.cli.app import app\n"
        "try: app(sys.argv[1:], prog_name='pumice')\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", look, *name.split(), "--help"], capture_output=True, text=True, check=True
    )
    loaded = ran.stderr.split()
    assert "pumice.cli.app" in loaded
    assert [module for module in loaded if module.startswith(HEAVY)] == []


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_list_of_commands_has_a_summary_of_one_line_for_each(pumice: Pumice, entry: Any) -> None:
    assert len(entry.summary) <= SUMMARY
    lines = pumice("--help").out.splitlines()
    assert [line for line in lines if line.split()[:1] == [entry.name] and line.endswith(entry.summary)]
    assert entry.load().help
    assert f"\n{entry.section}:" in pumice("--help").out


def test_a_command_that_does_not_exist_is_named_with_the_nearest(pumice: Pumice) -> None:
    assert "Did you mean 'simulate'?" in pumice("simulat", code=2).err


@pytest.mark.parametrize(
    "words", [["cycle", str(DEMO), "--conf", str(DEMO_CONF)], ["plugin", "points", "-o", "json"], ["run", "-h"]]
)
@pytest.mark.part(9)
def test_a_reader_that_stops_reading_is_no_error(words: list[str]) -> None:
    with subprocess.Popen([str(PUMICE), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("signs", ["ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize("words", [["cycle", DEMO, "--conf", DEMO_CONF], ["why", "vision/sweep", DEMO]])
@pytest.mark.part(9)
def test_a_terminal_with_few_signs_gets_what_it_can_show(words: list[object], signs: str) -> None:
    surroundings = {**os.environ, "PYTHONIOENCODING": signs}
    ran = subprocess.run([PUMICE, *map(str, words)], capture_output=True, env=surroundings, check=False)
    assert (ran.returncode, b"Traceback" in ran.stderr) == (0, False)
    assert "\\x" in ran.stdout.decode(signs) or "\\u" in ran.stdout.decode(signs)


@pytest.mark.parametrize(
    ("output", "code", "said"),
    [(">&-", 0, ""), ("> /dev/full", 1, "error: what is printed cannot be written: No space left on device\n")],
)
@pytest.mark.parametrize("words", [f"cycle {DEMO} --conf {DEMO_CONF}", "plugin list", "plugin points -o json"])
@pytest.mark.part(9)
def test_output_that_nobody_takes_is_no_traceback(words: str, output: str, code: int, said: str) -> None:
    ran = subprocess.run(f"{PUMICE} {words} {output}", shell=True, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (code, said)


def test_ctrl_c_while_a_command_is_loaded_ends_it_without_a_traceback() -> None:
    interrupted = (
        "import sys, types; from pumice.cli import entry\n"
        "class Slow(types.ModuleType):\n"
        "    def __getattr__(self, name): raise KeyboardInterrupt\n"
        "sys.modules['pumice.cli.app'] = Slow('pumice.cli.app'); entry.main()"
    )
    ran = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")
