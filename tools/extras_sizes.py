"""What each extra brings: packages, and the room that their files take as pip installs them.

    python tools/extras_sizes.py

It looks at the environment in which it runs, which must have all extras (`make setup`): nothing is downloaded.
"""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "wheel"))

from wheel_env import closure  # noqa: E402  # the tests of the wheel know what an extra requires


def main() -> None:
    """Print a line for each extra."""
    own = sum(file.stat().st_size for file in (ROOT / "src" / "pumice").rglob("*") if file.is_file())
    pumice = distribution("pumice")
    for extra in ("", "kube", "extender", "dashboard", "plots", "tables", "tune", "mcp", "all"):
        found = closure(pumice, {extra} if extra else set())
        found.pop("pumice", None)
        size = own + sum(map(taken, found.values()))
        print(f"{extra or 'none':10} {len(found) + 1:3} packages  {size / 1e6:4.0f} MB")


def taken(package: Distribution) -> int:
    """Bytes of a package's files, those that Python compiled included."""
    files = (Path(str(package.locate_file(file))) for file in package.files or ())
    return sum(file.stat().st_size for file in files if file.exists())


if __name__ == "__main__":
    main()
