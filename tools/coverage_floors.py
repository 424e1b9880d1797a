"""Is any package tested less than it was? The whole per cents of each top package may only rise.

python tools/coverage_floors.py out/coverage.json          compares with tests/coverage-floors
python tools/coverage_floors.py out/coverage.json --write  ... and writes what rose

A floor is written one per cent below what was found: a line that only some runs reach must not break the next one.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLOORS = Path(__file__).parents[1] / "tests" / "coverage-floors"


def per_package(report: Mapping[str, Any]) -> dict[str, int]:
    """Covered lines in whole per cents by top package, from a JSON report of coverage."""
    lines: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name, file in report["files"].items():
        parts = Path(name).parts
        package = Path(parts[parts.index("pumice") + 1]).stem
        lines[package][0] += file["summary"]["covered_lines"]
        lines[package][1] += file["summary"]["num_statements"]
    return {package: 100 * hit // total for package, (hit, total) in sorted(lines.items()) if total}


def read(text: str) -> dict[str, int]:
    """Floors from their file: a package and its per cents on each line."""
    return {package: int(floor) for package, floor in (line.split() for line in text.splitlines() if line.strip())}


def fallen(found: Mapping[str, int], floors: Mapping[str, int]) -> list[str]:
    """One line for every package that is below its floor, or has one and is gone."""
    return [
        f"{package}: {found.get(package, 0)} % of the lines are tested, {floor} % were before"
        for package, floor in floors.items()
        if found.get(package, 0) < floor
    ]


def main(arguments: list[str]) -> int:
    """Compare, and write what rose where that is asked for."""
    found = per_package(json.loads(Path(arguments[0]).read_text()))
    floors = read(FLOORS.read_text()) if FLOORS.exists() else {}
    below = fallen(found, floors)
    print("\n".join(below) or f"coverage: {', '.join(f'{package} {now} %' for package, now in found.items())}")
    if "--write" in arguments and not below:
        risen = {package: max(now - 1, floors.get(package, 0)) for package, now in found.items()}
        FLOORS.write_text("".join(f"{package} {floor}\n" for package, floor in risen.items()))
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
