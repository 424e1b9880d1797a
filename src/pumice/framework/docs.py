"""The pages about extension points, made from the table in `points`."""

from __future__ import annotations

from typing import Final

from pumice.framework.points import FLAGS, POINTS, Failure, Fold, Point

BEGIN: Final = "<!-- points: made by tools/write_points.py -->"
END: Final = "<!-- points: end -->"


def points_page() -> str:
    """The reference page of all extension points, as Markdown."""
    parts = [
        "# Extension points\n",
        "Made from `pumice/framework/points.py` by `tools/write_points.py`. Register with\n"
        "`ssn.add_<name>_fn(name, fn)`, or give your plugin a method of the point's name. `pumice points` shows the\n"
        "same on the command line.\n",
        "## How answers combine\n",
        "| rule | meaning |\n|---|---|",
        *(f"| {fold.name.lower().replace('_', ' ')} | {fold.value} |" for fold in Fold),
        "\n## When a callback raises\n",
        "It is contained: attributed to plugin, point, task and node, logged once, counted. Then its point's policy "
        "applies.\n",
        "| policy | meaning |\n|---|---|",
        *(f"| {failure.name.lower()} | {failure.value} |" for failure in Failure),
        "\n## Flags\n",
        "Each is a key of a plugin's entry in the conf; these are the defaults.\n",
        "| flag | default | points |\n|---|---|---|",
        *(f"| `{flag}` | {str(on).lower()} | {_points_of(flag)} |" for flag, on in FLAGS.items()),
        "\n## The points\n",
        *(_section(point) for point in POINTS.values()),
    ]
    return "\n".join(parts).rstrip() + "\n"


def points_table() -> str:
    """The short table of the developer guide, as Markdown."""
    rows = (
        f"| `{p.name}` | `{_escaped(p.signature)}` | {_asked(p)} | {p.users or '-'} |"
        for p in POINTS.values()
        if p.asked
    )
    return "\n".join(["| point | signature | asked by | typical users |", "|---|---|---|---|", *rows])


def with_table(page: str) -> str:
    """A page with the table of points put between its markers.

    :raises ValueError: the page has no markers.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page must have the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{points_table()}\n{END}{after}"


def _section(p: Point) -> str:
    facts = [
        f"`{p.register}(name, fn)`, `{p.go}` of {p.origin}",
        f"`{p.signature}`",
        f"flag: {f'`{p.flag}`' if p.flag else 'none, always asked'}",
        f"answers combine: {p.fold.value}",
        f"nobody answers: {p.nobody}",
        f"raises: {p.failure.value}",
        f"asked by: {_asked(p)}",
    ]
    if p.users:
        facts.append(f"typical users: {p.users}")
    return f"### {p.name}\n\n{p.contract}\n\n" + "\n".join(f"- {fact}" for fact in facts) + "\n"


def _asked(p: Point) -> str:
    return ", ".join(p.asked) or "no action"


def _points_of(flag: str) -> str:
    return ", ".join(f"`{p.name}`" for p in POINTS.values() if p.flag == flag) or "read by plugins themselves"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
