"""Take the pictures of a job's page and of a what-if that the docs show: the demo's cluster in Debian's Chromium.

``make screenshots`` runs this; it needs chromium and playwright, as ``make test-web`` does.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
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


def main(command: str) -> None:
    """Write the pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed: apt-get install chromium")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    demo = ROOT / "examples" / "demo"
    words = [command, "dashboard", str(demo), "--conf", str(demo / "scheduler.conf"), "--address", f"127.0.0.1:{port}"]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as serving, sync_playwright() as play:
        try:
            for _ in range(300):
                try:
                    urllib.request.urlopen(url, timeout=20).close()
                    break
                except OSError:
                    time.sleep(0.2)
            browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for name, scheme, window in (
                ("job", "light", WIDE),
                ("job-dark", "dark", WIDE),
                ("job-phone", "light", PHONE),
            ):
                page = opened(browser, scheme, window)
                page.goto(f"{url}/{JOB}", wait_until="load")
                page.wait_for_timeout(500)
                page.screenshot(path=IMAGES / f"{name}.png", full_page=window is PHONE)
                print(IMAGES / f"{name}.png")
            for name, scheme, window in (
                ("what-if", "light", WIDE),
                ("what-if-phone", "dark", PHONE),
            ):
                page = opened(browser, scheme, window)
                supposed(page, url)
                page.wait_for_timeout(300)
                page.screenshot(path=IMAGES / f"{name}.png")
                print(IMAGES / f"{name}.png")
            browser.close()
        finally:
            serving.terminate()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(sys.executable).with_name("pumice")))
