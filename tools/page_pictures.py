"""Take the pictures of the dashboard that the docs show: the demo's cluster, and a simulated day, in Debian's Chromium.

``make screenshots`` runs this; it needs chromium and playwright, as ``make test-web`` does.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
JOB = "job/research/llama"
WIDE, PHONE = {"width": 1280, "height": 1000}, {"width": 390, "height": 844}


def opened(browser: Browser, scheme: str, window: dict[str, int]) -> Page:
    """A window, in light or dark colours."""
    context = browser.new_context(color_scheme=scheme, viewport=window, device_scale_factor=1)  # type: ignore[arg-type]
    return context.new_page()


def supposed(page: Page, url: str) -> None:
    """Ask what more weight and a higher limit for a queue, and two more nodes, would change."""
    page.goto(f"{url}/what-if", wait_until="domcontentloaded")
    page.get_by_label("Weight of vision").fill("20")
    page.get_by_label("At most of vision").fill("cpu 400, memory 4Ti, nvidia.com/gpu 40")
    page.get_by_label("like").fill("a100-1")
    page.get_by_role("button", name="Ask").click()
    page.locator("#verdict").wait_for(timeout=60_000)


@contextmanager
def serving(command: str, *words: object) -> Iterator[str]:
    """The dashboard, at the address that is handed out."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    told = [command, "dashboard", *map(str, words), "--address", address]
    with subprocess.Popen(told, stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(300):
                try:
                    urllib.request.urlopen(f"http://{address}", timeout=20).close()
                    break
                except OSError:
                    time.sleep(0.2)
            yield f"http://{address}"
        finally:
            process.terminate()


def shoot(page: Page, name: str, *, whole: bool = False) -> None:
    """Take a picture."""
    page.wait_for_timeout(600)
    page.screenshot(path=IMAGES / f"{name}.png", full_page=whole)
    print(IMAGES / f"{name}.png")


def of_the_demo(browser: Browser, url: str) -> None:
    """A job's page, and a what-if."""
    for name, scheme, window in (("job", "light", WIDE), ("job-dark", "dark", WIDE), ("job-phone", "light", PHONE)):
        page = opened(browser, scheme, window)
        page.goto(f"{url}/{JOB}", wait_until="load")
        shoot(page, name, whole=window is PHONE)
    for name, scheme, window in (("what-if", "light", WIDE), ("what-if-phone", "dark", PHONE)):
        page = opened(browser, scheme, window)
        supposed(page, url)
        shoot(page, name)


def of_a_day(browser: Browser, url: str) -> None:
    """The first page and what changed, when some jobs wait."""
    while True:
        text = urllib.request.urlopen(url, timeout=60).read().decode()
        if int(text.partition('class="figure"><a href="/jobs?state=waiting">')[2].partition("<")[0]) >= 5:
            break
        time.sleep(0.5)
    pages = (("dashboard", "", "light", WIDE), ("dashboard-phone", "", "light", PHONE))
    for name, path, scheme, window in (*pages, ("dashboard-dark", "/changes", "dark", WIDE)):
        page = opened(browser, scheme, window)
        page.goto(f"{url}{path}", wait_until="load")
        shoot(page, name)


def main(command: str) -> None:
    """Write the pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed: apt-get install chromium")
    examples = ROOT / "examples"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with serving(command, examples / "demo", "--conf", examples / "demo" / "scheduler.conf") as url:
            of_the_demo(browser, url)
        with serving(command, "--scenario", examples / "scenarios" / "three-teams.yaml", "--speed", 1200) as url:
            of_a_day(browser, url)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(sys.executable).with_name("pumice")))
