"""Writes what follows from the table of points and the declared arguments: ``python tools/write_points.py``."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from pumice.framework.arguments import Argument
from pumice.framework.docs import Who
from pumice.framework.point_examples import example_of
from pumice.framework.points import FLAGS, POINTS, OnFailure, Point, table
from pumice.framework.points.point import HINTS
from pumice.framework.registry import Registry
from pumice.scheduler.assembly import who

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
REGISTRATION: Final = ROOT / "src/pumice/framework/points/registration.py"
BEGIN: Final = "<!-- {}: made by tools/write_points.py -->"
END: Final = "<!-- {}: end -->"
WIDTH: Final = 120


# -- pages ----------------------------------------------------------------------------------------------------------
def points_page(who: Who) -> str:
    """The reference page of all extension points, as Markdown."""
    rules = {p.rule.name: p.rule.text for p in POINTS.values()}
    parts = [
        "# Extension points\n",
        "Made from `pumice/framework/points/table.py` by `tools/write_points.py`. Register with\n"
        "`ssn.add_<name>_fn(name, fn)`, or give your plugin a method of the point's name.\n"
        "`pumice plugin points` shows the same on the command line. The examples take their names from\n"
        "`from pumice import …`, and `np` is NumPy.\n",
        "## How answers combine\n",
        "| rule | meaning |\n|---|---|",
        *(f"| {name} | {text} |" for name, text in rules.items()),
        "\n## When a callback fails\n",
        "It raises, or its answer is none. It is contained: attributed to plugin, point, task, node and your line, "
        "logged once, counted. Then its point's policy applies. What is declared beside an answer (`key`, "
        "`max_tasks` …) and fails is as if it had not been declared; a sort key that fails sorts last.\n",
        "| policy | meaning |\n|---|---|",
        *(f"| {failure.name.lower()} | {failure.value} |" for failure in OnFailure),
        "\n## Flags\n",
        "Each is a key of a plugin's entry in the conf; these are the defaults.\n",
        "| flag | default | points |\n|---|---|---|",
        *(f"| `{flag}` | {str(on).lower()} | {_points_of(flag)} |" for flag, on in FLAGS.items()),
        "\n## The points\n",
        *(_section(point, who) for point in POINTS.values()),
    ]
    return "\n".join(parts).rstrip() + "\n"


def with_arguments(page: str, arguments: Sequence[Argument[Any]]) -> str:
    """A page of a plugin with the table of its arguments put between its markers; one without arguments has neither.

    :raises ValueError: the page has no markers, or has them in vain.
    """
    if not arguments:
        if BEGIN.format("arguments") in page:
            raise ValueError("the plugin declares no arguments")
        return page
    rows = [(f"`{one.name}`", one.written_default, one.kind, one.doc) for one in arguments]
    return _between(page, "arguments", _table(["name", "default", "value", "meaning"], rows))


def with_reasons(page: str) -> str:
    """The page of reasons with a table for each part of `ReasonCode` put between its markers."""
    source = (ROOT / "src/pumice/model/codes.py").read_text(encoding="utf-8")
    parts = []
    for part in re.split(r"^    # -- ", source, flags=re.MULTILINE)[1:]:
        title = re.split(r", | --", part.partition("\n")[0])[0]
        rows = re.findall(r'^    [A-Z_]+ = "(.+)"\n    """(.+)"""$', part, re.MULTILINE)
        parts.append(
            f"## {title.capitalize()}\n\n{_table(['reason', 'meaning'], [(f'`{c}`', doc) for c, doc in rows])}\n"
        )
    return _between(page, "reasons", "\n" + "\n".join(parts))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)])


def _between(page: str, what: str, text: str) -> str:
    opening, closing = BEGIN.format(what), END.format(what)
    before, begin, rest = page.partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        raise ValueError(f"the page must have the lines {opening} and {closing}")
    return f"{before}{opening}\n{text}\n{closing}{after}"


def _section(p: Point[..., Any, Any], who: Who) -> str:
    facts = [
        f"`{p.register}(name, fn)`, `{p.go}` of {p.origin}",
        f"`{p.signature}`",
        f"flag: {f'`{p.flag}`' if p.flag else 'none, always asked'}",
        f"answers combine: {p.rule.text}",
        f"nobody answers: {p.without}",
        f"fails: {p.on_failure.value}",
        f"asked by: {who.asked(p.name)}",
    ]
    if who.answers.get(p.name):
        facts.append(f"answered by: {who.answered(p.name)}")
    told = "\n".join(f"- {fact}" for fact in facts)
    return f"### {p.name}\n\n{p.contract}\n\n{told}\n\n```python\n{example_of(p.name)}```\n"


def _points_of(flag: str) -> str:
    return ", ".join(f"`{p.name}`" for p in POINTS.values() if p.flag == flag) or "read by plugins themselves"


# -- code -----------------------------------------------------------------------------------------------------------
HEAD: Final = '''\
"""Registration methods of a session and the methods that a plugin may have, each with the types of its point.

Made from `pumice/framework/points/table.py` by `tools/write_points.py`. A registration method takes ``(name, fn)`` or,
in KAI's form, ``(fn)`` alone: then it registers for the plugin that is being opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pumice.engine.scope import Scope

Fn: TypeAlias = Callable[..., Any]

if TYPE_CHECKING:
    from pumice.engine.rows import NodeRows
    from pumice.framework.points.table import {aliases}
    from pumice.model.job import Job, SubJob
    from pumice.model.node import Node
    from pumice.model.queue import Queue
    from pumice.model.reason import Verdict
    from pumice.model.task import Task

'''
REGISTERING: Final = '''

class Registration:
    """One typed line over `add` for every point."""

    def add(self, point: str, name: str | Fn, fn: Fn | None = None, **declared: Any) -> None:
        """Register *fn* at a point. *declared*: the hints of the point."""
        raise NotImplementedError
'''
METHODS: Final = '''
    class PointMethods:
        """The methods of `Plugin` that are registered by their names, for editors and type checkers."""
'''


def registration_module() -> str:
    """The module with the registration methods and the declared methods of a plugin, as Python."""
    head = HEAD.replace("{aliases}", ", ".join(sorted(_ALIASES)))
    types_of = "\n".join(line for point in POINTS.values() for line in _types(point))
    methods = "".join(_method(point) for point in POINTS.values())
    return head + types_of + "\n" + METHODS + methods + REGISTERING + "".join(map(_registering, POINTS.values()))


_ALIASES: Final = {name: getattr(table, name) for name in ("Fits", "Said", "Scores", "Victims", "Vote")}
"""Types of answers that have a name."""


def _types(point: Point[..., Any, Any]) -> list[str]:
    """The types of a point's callbacks."""
    takes, gives = _form(point)
    forms = [takes]
    if len(point.arity) > 1:  # KAI's form, which takes the job after the task
        forms.append([takes[0], "Job", *takes[1:]])
    lines = [f"{_type_of(point)}: TypeAlias = " + " | ".join(f"Callable[[{', '.join(f)}], {gives}]" for f in forms)]
    if point.keyed:
        lines.append(f"{_type_of(point, 'KeyFn')}: TypeAlias = Callable[[{takes[0]}], Any]")
    return [f"    {line}" for line in lines]


def _method(point: Point[..., Any, Any]) -> str:
    """A point as a method of a plugin. Its parameters may have any name."""
    takes, gives = _form(point)
    parameters = ["self", *(f"{name}: {kind}" for name, kind in zip(_parameters(point), takes, strict=True))]
    head = "\n".join(_call(f"        def {point.name}", [*parameters, "/"] if takes else parameters, f" -> {gives}:"))
    return f'\n{head}\n            """{_question(point)}"""\n            raise NotImplementedError\n'


def _question(point: Point[..., Any, Any]) -> str:
    return re.split(r"(?<=[?.])\s", point.contract, maxsplit=1)[0]


def _type_of(point: Point[..., Any, Any], kind: str = "Fn") -> str:
    return point.name.title().replace("_", "") + kind


def _form(point: Point[..., Any, Any]) -> tuple[list[str], str]:
    """What a callback takes and gives, as annotations. A sequence is handed over as a list."""
    takes, gives = get_args(point.form)
    return [re.sub(r"^Sequence\[", "list[", _annotation(kind)) for kind in takes], _annotation(gives)


def _annotation(kind: Any) -> str:
    """A type as it is written."""
    for name, alias in _ALIASES.items():
        if kind == alias:
            return name
    if kind is None or kind is type(None):
        return "None"
    origin = get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return " | ".join(_annotation(part) for part in get_args(kind))
    if origin is not None:
        return f"{origin.__name__}[{', '.join(_annotation(part) for part in get_args(kind))}]"
    return str(getattr(kind, "__name__", kind))


_NAMES: Final = {
    "node name: score": "scores",
    "hypernode: [node]": "hyper_nodes",
    "task": "tasks",
    "job": "jobs",
    "node": "nodes",
    "hypernode": "hyper_nodes",
}
"""What stands in brackets in a signature, as a name of a parameter."""


def _parameters(point: Point[..., Any, Any]) -> list[str]:
    """Names for the parameters of a point's callbacks, from its signature; of two alike one is left, one right."""
    inside = point.signature.partition(" -> ")[0][1:-1]
    written = [part for part in re.split(r", (?![^{]*})", inside) if part]
    names = [_NAMES[w[1:-1]] if w[0] in "[{" else w.replace(" ", "_") for w in written]
    alike = {name for name in names if names.count(name) > 1}
    sides = iter(("left", "right"))
    return [next(sides) if name in alike else name for name in names]


def _registering(point: Point[..., Any, Any]) -> str:
    fn = _type_of(point)
    parameters = ["self", f"name: str | {fn}", f"fn: {fn} | None = None"]
    if point.hints:
        parameters += ["*", *(f"{hint}: {HINTS[hint][0]}" for hint in point.hints)]
    passed = [f'"{point.name}"', "name", "fn", *(f"{hint}={hint}" for hint in point.hints)]
    lines = ["", *_call(f"    def {point.register}", parameters, " -> None:")]
    said = [HINTS[hint][1] for hint in point.hints]
    if len(said) == 1:
        lines.append(f'        """{said[0]}"""')
    elif said:
        lines += [f'        """{said[0]}', *(f"        {text}" for text in said[1:]), '        """']
    lines += _call("        self.add", passed, "")
    if point.plural:
        lines += ["", f"    {point.register}s = {point.register}"]
    if point.keyed:
        key = _type_of(point, "KeyFn")
        parameters = ["self", f"name: str | {key}", f"fn: {key} | None = None"]
        lines += ["", *_call(f"    def add_{point.name}_key_fn", parameters, " -> None:")]
        lines += ['        """Order by ``key(item)`` instead of comparing pairs."""']
        lines += [f'        self.add("{point.name}", name, fn, sort_key=True)']
    return "\n".join(lines) + "\n"


def _call(head: str, parts: Sequence[str], tail: str) -> list[str]:
    """A definition or call as the formatter lays it out: in a line, in an indented line, or a part a line."""
    inside = ", ".join(parts)
    pad = " " * (len(head) - len(head.lstrip()))
    if len(f"{head}({inside}){tail}") <= WIDTH:
        return [f"{head}({inside}){tail}"]
    if len(f"{pad}    {inside}") <= WIDTH:
        return [f"{head}(", f"{pad}    {inside}", f"{pad}){tail}"]
    return [f"{head}(", *(f"{pad}    {part}," for part in parts), f"{pad}){tail}"]


def main() -> None:
    """Bring the registration methods, the reference page, the reasons and the plugins' pages up to date."""
    REGISTRATION.write_text(registration_module())
    everybody = who(Registry())
    (DOCS / "reference" / "points.md").write_text(points_page(everybody))
    reasons = DOCS / "reasons.md"
    reasons.write_text(with_reasons(reasons.read_text()))
    for name, info in Registry().plugins.items():
        page = DOCS / "plugins" / f"{name}.md"
        page.write_text(with_arguments(page.read_text(), info.arguments or ()))


if __name__ == "__main__":
    main()
