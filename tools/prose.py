"""Measure how plain the prose of the project is, and fail if it gets less plain.

    python tools/prose.py              the figures, and exit 1 above the limits of tools/prose-limits.json
    python tools/prose.py --list PATH  the sentences of files or folders that are to be rewritten

A sentence is marked if it begins with a clause in place of its subject ("Where no node fits, ..."), if it contains two
relative clauses or persons for things, or if it is longer than 30 words. It is looked for in the pages, and in the
docstrings, comments and messages (texts of errors, log lines and help) of the source. The limits are shares of all
sentences, in percent, and the number of words of docs/. Generated pages and tables, and code, are not counted.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ROOT / "tools" / "prose-limits.json"
KINDS = ("pages", "docstrings", "comments", "messages")
MARKS = ("clause first", "two clauses", "long")
GENERATED = ("docs/reference/api.md", "docs/reference/points.md")
_MADE = re.compile(r"<!-- \w+: made .*?<!-- \w+: end -->|^```.*?^```$", re.DOTALL | re.MULTILINE)

_FIRST = re.compile(
    r"(?:Who|Whoever|Whom|Whose|What|Where|Wherever|Of|Nor|Nobody|Somebody|Everybody|So it is|That)\b(?!'s)"
)
_CLAUSE = re.compile(
    r"\b(?:who|whom|whose|whoever|(?:of|for) (?:whom|which)|(?:in|by) which|(?:what|that) is|(?:no|some|every)body"
    r"|those (?:who|that))\b",
    re.IGNORECASE,
)
_SPLIT = re.compile(r"\n\s*\n|^\s*[-*]\s+|^\s*\d+\.\s+", re.MULTILINE)
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z*])")


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text with at least four words; code, tables and headings are left out."""
    text = re.sub(r"```.*?```", " ", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"^\s*[|#].*$", " ", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for part in _SPLIT.split(text):
        for sentence in _END.split(" ".join(part.split())):
            plain = sentence.strip("* ")
            if len(plain.split()) >= 4:
                yield plain


def marks(sentence: str) -> list[str]:
    """Return what is wrong with a sentence."""
    found = (
        bool(_FIRST.match(sentence)),
        len(_CLAUSE.findall(sentence)) >= 2,
        len(sentence.split()) > 30,
    )
    return [mark for mark, wrong in zip(MARKS, found, strict=True) if wrong]


def words() -> int:
    """Return the number of words of the pages in docs/."""
    return sum(len(_MADE.sub("", page.read_text(encoding="utf-8")).split()) for page in files([ROOT / "docs"]))


def texts_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the prose of a file: its kind, and the text."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield "pages", source
        return
    tree = ast.parse(source)
    docs = {id(node) for node in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in docs:
                yield "docstrings", node.value
        elif isinstance(node, (ast.Raise, ast.Call)):
            yield from (("messages", text) for text in _messages(node))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield "comments", token.string.lstrip("# ")


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Every string that stands alone: docstrings of modules, classes and functions, and of attributes."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, (ast.Lambda, ast.IfExp)) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value


def _messages(node: ast.Raise | ast.Call) -> Iterator[str]:
    """The texts that a call is given: of an error, a log line, or a help text."""
    call = node.exc if isinstance(node, ast.Raise) else node
    if not isinstance(call, ast.Call):
        return
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    logs = name in ("debug", "info", "warning", "error", "exception", "Unfit", "reject")
    given = call.args if isinstance(node, ast.Raise) or logs else []
    given = [*given, *(k.value for k in call.keywords if k.arg in ("help", "text", "message", "advice", "contract"))]
    for one in given:
        if isinstance(one, ast.JoinedStr):
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in one.values)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the pages and modules below paths."""
    for path in paths:
        found = [path] if path.is_file() else sorted([*path.rglob("*.md"), *path.rglob("*.py")])
        yield from (one for one in found if str(one.relative_to(ROOT)) not in GENERATED)


def main() -> int:
    """Print figures or sentences; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", nargs="+", type=Path, metavar="PATH", help="print the marked sentences below paths")
    options = parser.parse_args()
    counted: Counter[tuple[str, str]] = Counter()
    for path in files(p.resolve() for p in options.list or (ROOT / "docs", ROOT / "src", *sorted(ROOT.glob("*.md")))):
        for kind, text in texts_of(path):
            for sentence in sentences(text):
                found = marks(sentence)
                counted[kind, "sentences"] += 1
                counted.update((kind, mark) for mark in found)
                if options.list and found:
                    print(f"{path.relative_to(ROOT)}: {', '.join(found)}: {sentence}")
    figures = {
        kind: {mark: 100 * counted[kind, mark] / max(counted[kind, "sentences"], 1) for mark in MARKS} for kind in KINDS
    }
    for kind in KINDS:
        shares = ", ".join(f"{mark} {counted[kind, mark]} ({figures[kind][mark]:.2f} %)" for mark in MARKS)
        print(f"{kind}: {counted[kind, 'sentences']} sentences, {shares}")
    if options.list:
        return 0
    limits = json.loads(LIMITS.read_text(encoding="utf-8"))
    above = [
        f"{kind}: {mark}: {figures[kind][mark]:.2f} %, at most {limits[kind][mark]} %"
        for kind in KINDS
        for mark in MARKS
        if figures[kind][mark] > limits[kind][mark]
    ]
    print(f"docs: {words()} words")
    if words() > limits["words"]:
        above.append(f"docs: {words()} words, at most {limits['words']}")
    if above:
        print("Less plain than before; --list PATH names the sentences:", *above, sep="\n  ", file=sys.stderr)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
