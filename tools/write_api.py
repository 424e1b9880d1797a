"""Writes docs/reference/api.md, the list of public names, from the code: ``python tools/write_api.py``."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from pumice.answers.questions import openapi_document
from pumice.config.settings import ControllersSettings, SchedulerSettings, json_schema

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"
FOR_POLICIES = (
    *("Plugin", "Session", "Task", "Job", "Node", "Queue", "Resources", "TaskStatus"),
    *("Arguments", "Unfit", "reject", "Verdict", "reason_id", "Event", "EventHandler"),
    *("Scope", "scope", "same_class", "NodeRows"),
)
"""What policies are written with, in the order in which a reader meets it. Other names are for tools."""
PACKAGES = {
    "pumice": "",
    "pumice.testing": "Policies are tested with these names. A project that has Pumice installed has the pytest "
    "fixture `scenario`, a `Scenario` on which the laws of every cycle are checked when the test ends.",
}
"""The public packages. What they have in ``__all__`` is the public API."""
OF_A_SESSION = (
    *("jobs", "nodes", "queues", "hyper_nodes", "total", "now", "memory", "log", "metrics"),
    *("flag", "configured", "describes", "keep_sum", "add_event_handler", "register_binder", "prepare_binds"),
    *("open_plugin", "errors", "warnings"),
)
"""What a policy needs of a session. What actions need beside it is no public API."""
GIVEN = frozenset({"Session", "Task", "Job", "Node", "Queue", "NodeRows"})
"""Classes whose objects a policy is given: how they are made is no public API."""
OF_THE_ENGINE = frozenset(
    {"row", "version", "job_key", "klass", "assumed_at", "waiting", "in_session", "role_total", "join", "in_vain"}
    | {"pending_best_effort_count", "index", "extra"}
)
"""Attributes of the objects that policies see which the engine needs. They are no public API."""
HEAD = """# API

Made from the code by `tools/write_api.py`. These names, their parameters and their attributes are the public API: they
change only with a line in the [changelog](../../CHANGELOG.md). Everything else in the package may change without one.
Extension points, the methods that a plugin may have, are on [a page of their own](points.md): register a function with
`ssn.add_<point>_fn(name, fn)`, and ask all plugins with `ssn.<point>(...)`.
"""


def page() -> str:
    """The page, as Markdown."""
    parts = [HEAD]
    for title, name, text, names in _sections():
        package = import_module(name)
        parts.append(f"## {title}\n\n{text}\n")
        anchors = [_anchor(name, public) for public in names]
        parts.append(
            "\n".join(
                f"- [`{public}`](#{anchor}{_repeated(anchors[:at].count(anchor))})"
                for at, (public, anchor) in enumerate(zip(names, anchors, strict=True))
            )
            + "\n"
        )
        parts += [_entry(name, public, getattr(package, public)) for public in names]
    return "\n".join(parts).rstrip() + "\n"


def _sections() -> Iterator[tuple[str, str, str, Sequence[str]]]:
    """(title, package, text, names) of each section of the page."""
    yield "For policies", "pumice", "`from pumice import ...` has all that a policy needs.", FOR_POLICIES
    for name, text in PACKAGES.items():
        if name == "pumice":
            rest = [public for public in import_module(name).__all__ if public not in FOR_POLICIES]
            text = "Actions, experiments, errors, and programs that assemble their own scheduler."
            yield "For tools", name, text, rest
        else:
            yield name, name, text, import_module(name).__all__


def _shown(cls: type, name: str) -> bool:
    """Report whether an attribute of a class is public API."""
    if name.startswith("_") or name in OF_THE_ENGINE:
        return False
    return name in OF_A_SESSION if cls.__name__ == "Session" else True


def _anchor(package: str, name: str) -> str:
    return re.sub(r"[^\w-]", "", f"{package}.{name}".lower())


def _repeated(times: int) -> str:
    """What forges add to an anchor that was there before: `Scope` and `scope` are one to them."""
    return f"-{times}" if times else ""


def _entry(package: str, name: str, value: Any) -> str:
    lines = [f"### {package}.{name}\n"]
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return "\n".join([*lines, _said(getattr(value, "__doc__", None)), ""])
    if inspect.isfunction(value):
        tree = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        lines += [f"```text\n{_signature(name, tree)}\n```\n"]
    elif name not in GIVEN and (
        builder := next((m for m in _members(value) if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)
    ):
        lines += [f"```text\n{_signature(name, builder, bound=True)}\n```\n"]
    lines += [_said(value.__doc__), ""]
    if inspect.isclass(value):
        rows = list(_rows(value))
        if rows:
            lines += ["| attribute or method | what it is |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _rows(cls: type) -> Iterator[str]:
    seen: set[str] = set()
    members = list(_members(cls))
    for at, member in enumerate(members):
        below = members[at + 1] if at + 1 < len(members) else None
        text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            name, shown = member.target.id, f"{member.target.id}: {_kind(member.annotation)}"
        elif isinstance(member, ast.Assign) and isinstance(member.targets[0], ast.Name) and issubclass(cls, Enum):
            name = shown = member.targets[0].id
        elif isinstance(member, ast.FunctionDef):
            name, text = member.name, ast.get_docstring(member) or ""
            if {ast.unparse(d).rpartition(".")[2] for d in member.decorator_list} & {"property", "cached_property"}:
                shown = f"{name}: {ast.unparse(member.returns)}" if member.returns else name
            else:
                shown = _signature(name, member, bound=True)
        else:
            continue
        if name in seen or not _shown(cls, name):
            continue
        seen.add(name)
        cells = [f"`{_flat(shown)}`", _first(str(text))]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _kind(annotation: ast.expr) -> str:
    """An annotation as readers need it: every attribute is read-only, so `Final` says nothing."""
    return re.sub(r"^Final\[(.*)\]$", r"\1", ast.unparse(annotation))


def _members(cls: type) -> Iterator[ast.stmt]:
    """What stands in the class and in those of ours that it is made from."""
    for base in cls.__mro__:
        if base.__module__.startswith("pumice"):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
            assert isinstance(tree, ast.ClassDef)
            yield from tree.body


def _signature(name: str, tree: ast.FunctionDef, *, bound: bool = False) -> str:
    arguments = tree.args
    if bound and arguments.args and not any(ast.unparse(d) == "staticmethod" for d in tree.decorator_list):
        arguments.args = arguments.args[1:]
    gives = f" -> {ast.unparse(tree.returns)}" if tree.returns and tree.name != "__init__" else ""
    return f"{name}({ast.unparse(arguments)}){gives}"


def _said(text: str | None) -> str:
    """A docstring as Markdown."""
    lines = inspect.cleandoc(text or "").replace("``", "`").splitlines()
    return "\n".join(re.sub(r"^:(?:param )?(\w+)(?: \w+)?:", r"- `\1`:", line) for line in lines)


def _first(text: str) -> str:
    """The first sentence."""
    flat = _flat(text.replace("``", "`"))
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", flat, maxsplit=1)[0]


def _flat(text: str) -> str:
    return " ".join(text.split())


def main() -> None:
    """Bring the page, and the OpenAPI document of the answers, up to date."""
    PAGE.write_text(page(), encoding="utf-8")
    for name, kind in (("scheduler", SchedulerSettings), ("controllers", ControllersSettings)):
        text = json.dumps(json_schema(kind), indent=1, sort_keys=True)
        PAGE.with_name(f"settings-{name}.json").write_text(text + "\n", encoding="utf-8")
    document = msgspec.json.format(msgspec.json.encode(openapi_document()), indent=1)
    PAGE.with_name("answers-v1.json").write_bytes(document + b"\n")


if __name__ == "__main__":
    main()
