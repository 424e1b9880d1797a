"""The pages about extension points, made from the table in `points`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pumice.framework.points import FLAGS, POINTS, OnFailure, Point
from pumice.framework.points.point import HINTS

BEGIN: Final = "<!-- points: made by tools/write_points.py -->"
END: Final = "<!-- points: end -->"


@dataclass(frozen=True, slots=True)
class Who:
    """Who asks each point, and who of the plugins that ship answers there. Both are found out, not written down."""

    asks: Mapping[str, Sequence[str]]
    answers: Mapping[str, Sequence[str]]

    def asked(self, point: str) -> str:
        """The actions that ask a point, in words."""
        return ", ".join(self.asks.get(point, ())) or "no action"

    def answered(self, point: str) -> str:
        """The plugins that answer at a point, in words."""
        return ", ".join(self.answers.get(point, ())) or "none that ships"


def points_page(who: Who) -> str:
    """The reference page of all extension points, as Markdown."""
    rules = {p.rule.name: p.rule.text for p in POINTS.values()}
    parts = [
        "# Extension points\n",
        "Made from `pumice/framework/points/table.py` by `tools/write_points.py`. Register with\n"
        "`ssn.add_<name>_fn(name, fn)`, or give your plugin a method of the point's name.\n"
        "`pumice plugin points` shows the same on the command line.\n",
        "## How answers combine\n",
        "| rule | meaning |\n|---|---|",
        *(f"| {name} | {text} |" for name, text in rules.items()),
        "\n## When a callback fails\n",
        "It raises, or its answer is none. It is contained: attributed to plugin, point, task, node and your line, "
        "logged once, counted. Then its point's policy applies. What is declared beside an answer (`needs`, `room`, "
        "`key` …) and fails is as if it had not been declared; a sort key that fails sorts last.\n",
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


def points_table(who: Who) -> str:
    """The short table of the developer guide, as Markdown."""
    rows = (
        f"| `{p.name}` | `{_escaped(p.signature)}` | {who.asked(p.name)} | {who.answered(p.name)} |"
        for p in POINTS.values()
        if who.asks.get(p.name)
    )
    return "\n".join(["| point | signature | asked by | answered by |", "|---|---|---|---|", *rows])


def with_table(page: str, who: Who) -> str:
    """A page with the table of points put between its markers.

    :raises ValueError: the page has no markers.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page must have the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{points_table(who)}\n{END}{after}"


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
    return f"### {p.name}\n\n{p.contract}\n\n" + "\n".join(f"- {fact}" for fact in facts) + "\n"


def _points_of(flag: str) -> str:
    return ", ".join(f"`{p.name}`" for p in POINTS.values() if p.flag == flag) or "read by plugins themselves"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def registration_module() -> str:
    """The module with the registration methods of a session, as Python."""
    return _REGISTRATION + "".join(_registering(point) for point in POINTS.values())


_WIDTH: Final = 120
_REGISTRATION: Final = '''\
"""The registration methods of a session, under the names that Volcano's and KAI's authors know.

Made from `pumice/framework/points/table.py` by `tools/write_points.py`. Each takes ``(name, fn)`` or, in KAI's form,
``(fn)`` alone: then the plugin that is being opened is meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pumice.engine.scope import Scope

Fn: TypeAlias = Callable[..., Any]


class Registration:
    """One typed line over `add` for every point."""

    def add(self, point: str, name: str | Fn, fn: Fn | None = None, **declared: Any) -> None:
        """Register *fn* at a point. *declared*: the hints of the point."""
        raise NotImplementedError
'''


def _registering(point: Point[..., Any, Any]) -> str:
    parameters = ["self", "name: str | Fn", "fn: Fn | None = None"]
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
        lines += ["", f"    def add_{point.name}_key_fn(self, name: str | Fn, fn: Fn | None = None) -> None:"]
        lines += ['        """Order by ``key(item)`` instead of comparing pairs."""']
        lines += [f'        self.add("{point.name}", name, fn, sort_key=True)']
    return "\n".join(lines) + "\n"


def _call(head: str, parts: Sequence[str], tail: str) -> list[str]:
    """A definition or call as the formatter lays it out: in a line, in an indented line, or a part a line."""
    inside = ", ".join(parts)
    pad = " " * (len(head) - len(head.lstrip()))
    if len(f"{head}({inside}){tail}") <= _WIDTH:
        return [f"{head}({inside}){tail}"]
    if len(f"{pad}    {inside}") <= _WIDTH:
        return [f"{head}(", f"{pad}    {inside}", f"{pad}){tail}"]
    return [f"{head}(", *(f"{pad}    {part}," for part in parts), f"{pad}){tail}"]
