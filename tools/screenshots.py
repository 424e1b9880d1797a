"""Take the pictures of the report that the docs show: the demo's page in Debian's Chromium.

``make screenshots`` runs the demo and this; it needs chromium and playwright, as ``make test-web`` does.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SHOTS = (("report.png", "All seeds"), ("run.png", "tidy, seed 1"))
"""File, and the tab that it shows."""
WINDOW = {"width": 1280, "height": 1000}


def main(page: Path) -> None:
    """Write the pictures of a report."""
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("chromium is not installed: apt-get install chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        tab = browser.new_page(viewport=WINDOW, color_scheme="light")  # type: ignore[arg-type]
        tab.goto(page.resolve().as_uri())
        for name, link in SHOTS:
            tab.locator(f"nav >> text={link}").click()
            tab.mouse.move(0, 0)
            tab.screenshot(path=IMAGES / name)
            print(IMAGES / name)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
