"""All pages together: links lead somewhere, the index leads everywhere, commands exist, lists are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pumice.cli.app import COMMANDS
from pumice.framework.registry import default_registry
from pumice.model.codes import ReasonCode
from pumice.model.status import TaskStatus

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What a forge lets links to the headings of a page end in."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} (.+)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
        found.append(f"{anchor}-{times}" if (times := found.count(anchor)) else anchor)
    return set(found)


def links(page: Path) -> list[tuple[str, Path, str]]:
    """Links of a page to other places of the project: as written, the file, the anchor."""
    made = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        where, _, anchor = link.partition("#")
        made.append((link, (page.parent / where).resolve() if where else page, anchor))
    return made


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    broken = [
        link
        for link, target, anchor in links(page)
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target))
    ]
    assert broken == []


def test_a_broken_link_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text(
        "# One `two`, three\n[x](b.md) [y](#one-two-three) [z](#four) [w](https://x.y)\n```\n[n](no)\n```\n"
    )
    assert [(link, target.exists()) for link, target, _ in links(page)] == [
        ("b.md", False), ("#one-two-three", True), ("#four", True),
    ]  # fmt: skip
    assert anchors(page) == {"one-two-three"}


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    named = {target for _, target, _ in links(index)}
    reached = named | {page for folder in named if folder.is_dir() for page in folder.glob("*.md")}
    reached |= {target for _, target, _ in links(ROOT / "docs" / "decisions" / "README.md")}
    left_out = set((ROOT / "docs").rglob("*.md")) - reached - {index}
    assert left_out == set()


def test_the_readme_leads_to_the_index() -> None:
    assert ROOT / "docs" / "README.md" in {target for _, target, _ in links(ROOT / "README.md")}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_command_that_a_page_names_exists(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|\$ |&& )pumice ([a-z]+(?:-[a-z]+)*)\b", text))
    assert named <= {entry.name for entry in COMMANDS}


def test_the_concepts_have_every_status_of_a_task_and_the_usual_actions() -> None:
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([A-Z][\w, ]+) \|", text[text.index("| status |") :], re.MULTILINE)
    assert {name for row in rows for name in row.split(", ")} == {status.title for status in TaskStatus}
    named = set(re.findall(r"`(\w+)`", text[text.index("**Action.**") : text.index("**Plugin.**")]))
    assert named <= set(default_registry().actions)


def test_the_concepts_explain_the_words_that_newcomers_ask_for() -> None:
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    explained = {word.strip().lower() for words in re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE)
                 for word in re.split(",| and ", words)}  # fmt: skip
    asked = "gang tier session statement pipelined hyper-node job task queue nomination victim scope conf extender"
    assert set(asked.split()) <= explained


def test_the_tree_has_a_branch_for_everything_that_stops_a_job() -> None:
    tree = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    reasons = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
    section = reasons[reasons.index("## Why a job waits") :].split("\n## ")[0]
    stages = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert stages == re.findall(r"^\| `(\w+)` \|", tree, re.MULTILINE)
    assert set(stages) <= {str(code.value) for code in ReasonCode}


def test_every_promise_names_tests_that_exist() -> None:
    rows = re.findall(
        r"^\| .+? \| (`.+`) \|$", (ROOT / "docs" / "promises.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = [name for row in rows for name in re.findall(r"`([\w./]+)`", row)]
    assert len(named) > 50
    tests = ROOT / "tests"
    assert [name for name in named if not (tests / name).exists() and not (tests / "promises" / name).exists()] == []
