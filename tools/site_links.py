"""Hooks of MkDocs: links to folders, and to files of the repository outside docs.

A link to a folder leads to its README or, if there is none, to the first page in it. A link to a file outside docs is
shown as its path, because the site does not contain it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Write a folder in the navigation as the pages that it holds."""
    config["nav"] = [_entry(one) for one in config["nav"]]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite the links that lead to folders or out of the docs."""
    here = (DOCS / page.file.src_uri).parent

    def link(match: re.Match[str]) -> str:
        target = match["target"]
        if target.startswith(("http:", "https:", "mailto:")):
            return match[0]
        there = (here / target).resolve()
        if not there.is_relative_to(DOCS):
            text = match["text"]
            return text if text.startswith("`") else f"{text} (`{there.relative_to(ROOT)}`)"
        if there.is_dir():
            return f"[{match['text']}]({target.rstrip('/')}/{_first(there)}{match['anchor'] or ''})"
        return match[0]

    return LINK.sub(link, markdown)


def _entry(entry: Any) -> Any:
    if isinstance(entry, dict):
        return {title: _entry(value) for title, value in entry.items()}
    if isinstance(entry, list):
        return [_entry(one) for one in entry]
    return _pages(DOCS / entry) if entry.endswith("/") else entry


def _pages(folder: Path) -> list[Any]:
    files = sorted(folder.glob("*.md"), key=lambda path: (path.name != "README.md", path.name))
    pages: list[Any] = [{_title(path): str(path.relative_to(DOCS))} for path in files]
    return pages + [{sub.name: _pages(sub)} for sub in sorted(folder.iterdir()) if sub.is_dir()]


def _title(page: Path) -> str:
    return "Overview" if page.name == "README.md" else page.stem


def _first(folder: Path) -> str:
    pages = sorted(path.name for path in folder.glob("*.md"))
    return "README.md" if "README.md" in pages else pages[0]
