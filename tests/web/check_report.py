"""The report in a real browser (Debian's Chromium). Run by ``make test-web``; not part of the plain tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from typer.testing import CliRunner

from pumice.cli.app import app

SCENARIO = """\
name: small
cluster: {nodes: [{name: n, count: 3, cpu: 8, memory: 64Gi, gpu: 4}]}
workload:
  generators:
  - name: llm-pretraining-of-the-vision-team
    arrivals: {every: 2m, count: 60}
    duration: {uniform: [5m, 40m]}
    gpu: {choice: {1: 3, 4: 1}}
configurations:
  plain: {actions: "enqueue, allocate", tiers: [{plugins: [{name: gang}, {name: predicates}]}]}
  packed: {actions: "enqueue, allocate", tiers: [{plugins: [{name: gang}, {name: predicates}, {name: gpupacking}]}]}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "chromium is not installed: apt-get install chromium"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The report of two runs, opened."""
    return opened(browser, tmp_path_factory.mktemp("report"), SCENARIO)


@pytest.fixture(scope="module")
def seeds_page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The report of two configurations over several seeds, one with a long name, opened."""
    scenario = SCENARIO.replace("  packed:", "  packed-as-tightly-as-it-goes:")
    return opened(browser, tmp_path_factory.mktemp("seeds"), scenario, "--seeds=1..4")


def opened(browser: Browser, directory: Path, scenario: str, *flags: str) -> Page:
    (directory / "s.yaml").write_text(scenario)
    written = ["--report", str(directory / "r.html")]
    result = CliRunner().invoke(app, ["simulate", str(directory / "s.yaml"), *flags, *written])
    assert result.exit_code == 0, result.stderr
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if not request.url.startswith("file:") else None)
    page.goto((directory / "r.html").as_uri())
    page.said = said  # type: ignore[attr-defined]
    return page


def test_the_page_opens_without_a_word_and_without_the_network(page: Page) -> None:
    assert page.locator("h1").inner_text() == "small"
    assert page.said == []  # type: ignore[attr-defined]


def test_every_chart_is_drawn(page: Page) -> None:
    charts = page.locator("svg:visible").all()
    assert len(charts) == 3  # shares, waiting jobs, waits
    for chart in charts:
        box = chart.bounding_box()
        assert box is not None
        assert box["width"] > 5
        assert box["height"] > 5


def test_the_tab_of_a_run_shows_that_run(page: Page) -> None:
    page.locator("nav >> text=packed").click()
    assert page.locator("h2.run-name:visible").inner_text() == "packed"
    page.locator("nav >> text=Compare").click()
    assert page.locator("h2.run-name:visible").count() == 0


def test_nothing_is_wider_than_the_window_even_on_a_telephone(page: Page) -> None:
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_verdict_is_seen_on_a_telephone_without_a_finger(seeds_page: Page) -> None:
    seeds_page.set_viewport_size({"width": 375, "height": 800})
    outside = "all => all.filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.textContent)"
    cells = seeds_page.locator(".judged :is(th, td):visible")
    assert cells.count() > 20
    assert cells.evaluate_all(outside) == []
    cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"
    assert seeds_page.locator(".judged :is(th, td):visible, .strips .job b").evaluate_all(cut) == []


LOW = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return rgb("Canvas");
  };
  const low = [];
  for (const element of document.querySelectorAll("main *")) {
    const words = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!words || !element.checkVisibility()) continue;
    const pair = [light(rgb(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) low.push(`${element.className}: ${element.textContent.slice(0, 40)} ${contrast.toFixed(2)}`);
  }
  return low;
}
"""
"""Visible text whose contrast with what is behind it is low."""


@pytest.mark.parametrize("tab", ["Compare", "packed"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out(page: Page, scheme: str, tab: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.locator(f"nav >> text={tab}").click()
    assert page.evaluate(LOW) == []


def test_names_of_jobs_differ_and_have_room_even_on_a_telephone(page: Page) -> None:
    page.locator("nav >> text=packed").click()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        names = page.locator(".gantt .job b:visible").all_inner_texts()
        assert len(names) == len(set(names)) > 20
        cut = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"
        assert page.locator(".gantt .job b:visible").evaluate_all(cut) == []


def test_the_page_is_light_or_dark_as_the_reader_wants_it(page: Page) -> None:
    colours = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours[0] != colours[1]
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == colours[0]
