"""Each shape in a process of its own, so that memory and caches of one do not count for the next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pumice.errors import InvalidInput, PumiceError
from pumice_bench.shapes import SHAPES


def environment() -> dict[str, str]:
    """Return the environment in which a child process finds this package too."""
    tools = str(Path(__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([tools, *filter(None, [os.environ.get("PYTHONPATH")])])}


def run_shape(name: str, repeat: int = 1) -> dict[str, Any]:
    """Measure a shape in a child process, *repeat* times, and give the best run as plain data.

    :raises PumiceError: the child failed; says how.
    """
    if name not in SHAPES:
        raise InvalidInput(f"shape {name!r}: not one of {', '.join(SHAPES)}")
    runs = []
    for _ in range(repeat):
        child = subprocess.run(
            [sys.executable, "-m", "pumice_bench.children", name],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
        )
        if child.returncode != 0:
            last = child.stderr.strip().splitlines()[-1:] or ["no message"]
            raise PumiceError(f"shape {name}: the measurement failed: {last[0]}")
        runs.append(json.loads(child.stdout))
    best: dict[str, Any] = min(runs, key=lambda r: r["wall"])
    return best


def main(name: str) -> None:
    """Measure one shape and print it as JSON."""
    shape = SHAPES[name]()
    if shape.events_only:
        from pumice_bench.intake import measure as run
    else:
        from pumice_bench.run import measure as run  # knows far more of the scheduler
    result = run(shape)
    print(json.dumps({**asdict(result), "per_second": result.per_second}))


if __name__ == "__main__":
    main(sys.argv[1])
