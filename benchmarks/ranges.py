"""What each shape took in which runs, so that a slow-down is seen.

    python benchmarks/ranges.py [SHAPE ...]         # measure, and say what lies outside its range
    python benchmarks/ranges.py --keep [SHAPE ...]  # … and write the run down in ranges.json

CPU time is told in yardsticks: a fixed piece of work of the kind that a cycle is made of, measured right before and
after the shape. So runs on other machines and in busy minutes can be compared, roughly: a range is as wide as its runs
are, and with fewer than three nothing is judged. `python tools/bench.py --against` is for small differences.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tools_path  # noqa: F401
from pumice_bench.children import run_shape
from pumice_bench.shapes import SHAPES

FILE = Path(__file__).parent / "ranges.json"
FEWEST, MARGIN = 3, 1.15
"""So far beyond all runs that are known is outside."""


def yardstick() -> float:
    """CPU seconds of the fixed work, the best of five."""
    best = float("inf")
    for _ in range(5):
        begun = time.process_time()
        column, known = np.arange(5000.0), dict[int, float]()
        for n in range(2000):
            some = column.take((n, n + 1, n + 2)) * 0.5
            known[n % 97] = known.get(n % 97, 0.0) + float(some[0])
            if n % 20 == 0:
                column[n] = float(column.argmax())
        best = min(best, time.process_time() - begun)
    return best


def measured(shape: str) -> float:
    """What a shape takes, in yardsticks."""
    before = yardstick()
    cpu: float = run_shape(shape)["cpu"]
    return cpu / ((before + yardstick()) / 2)


def judged(took: float, runs: list[dict[str, Any]]) -> str:
    """Where a run lies among those that are known."""
    if len(runs) < FEWEST:
        return f"not judged: {len(runs)} runs are known"
    low, high = min(r["took"] for r in runs), max(r["took"] for r in runs)
    where = "SLOWER" if took > high * MARGIN else "faster" if took < low / MARGIN else "within"
    return f"{where} ({low:.3g} to {high:.3g} in {len(runs)} runs)"


def main() -> int:
    """Measure and judge; 1 if a shape is slower than ever."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", default=[])
    parser.add_argument("--keep", action="store_true", help="write the runs down")
    given = parser.parse_args()
    if unknown := set(given.shapes) - set(SHAPES):
        parser.error(f"not a shape: {', '.join(sorted(unknown))}")
    known: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    today = time.strftime("%Y-%m-%d", time.gmtime())
    slower = False
    for shape in given.shapes or SHAPES:
        took, runs = round(measured(shape), 4), known.setdefault(shape, [])
        said = judged(took, runs)
        slower |= said.startswith("SLOWER")
        print(f"{shape:<20} {took:>10.3g} yardsticks  {said}", flush=True)
        if given.keep:
            runs.append({"on": today, "took": took})
            lines = (f"{json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known))
            FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return int(slower)


if __name__ == "__main__":
    sys.exit(main())
