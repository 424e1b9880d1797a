"""The command line as a user runs it, in process."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from pumice.cli.app import app

PUMICE = Path(sys.executable).with_name("pumice")
ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "demo"
DEMO_CONF = DEMO / "scheduler.conf"


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


class Pumice:
    """Runs commands."""

    def __call__(self, *words: object, code: int | None = 0) -> Ran:
        """Run ``pumice WORDS...``, which must end with *code*; None: in any way but a traceback."""
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert code is None or result.exit_code == code, f"exit code {result.exit_code}: {result.stdout}{result.stderr}"
        return Ran(result.exit_code, result.stdout, result.stderr)
