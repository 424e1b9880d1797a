"""Writes what follows from the table of extension points: ``python tools/write_points.py``."""

from __future__ import annotations

from pathlib import Path

from pumice.framework.docs import points_page, registration_module, with_table
from pumice.framework.registry import Registry
from pumice.scheduler.assembly import who

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REGISTRATION = ROOT / "src/pumice/framework/points/registration.py"


def main() -> None:
    """Bring the registration methods, the reference page and the guide's table up to date."""
    REGISTRATION.write_text(registration_module())
    everybody = who(Registry())
    reference = DOCS / "reference" / "points.md"
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(points_page(everybody))
    guide = DOCS / "guides" / "plugin-development.md"
    guide.write_text(with_table(guide.read_text(), everybody))


if __name__ == "__main__":
    main()
