"""``pumice points``: the extension points."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pumice.cli import render
from pumice.cli.options import Output, OutputOption
from pumice.errors import InvalidInput

if TYPE_CHECKING:
    from pumice.framework.docs import Who
    from pumice.framework.points import Point


def points(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show one point: predicate, PredicateFn, …")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the extension points, or show one."""
    from pumice.framework.points import POINTS
    from pumice.framework.registry import default_registry
    from pumice.scheduler.assembly import who

    everybody = who(default_registry())
    if name is not None:
        point = find(name)
        if output is Output.JSON:
            render.data(as_data(point, everybody))
        else:
            _show(point, everybody)
        return
    if output is Output.JSON:
        render.data([as_data(p, everybody) for p in POINTS.values()])
        return
    render.table(
        ["POINT", "WHAT IS ASKED", "RULE", "FLAG", "ASKED BY"],
        [
            (p.name, question(p), p.rule.name, p.flag or "-", _asked(everybody.asks.get(p.name, ())))
            for p in POINTS.values()
        ],
        wrap=["WHAT IS ASKED"],
        text="WHAT IS ASKED",
        spare=["ASKED BY", "FLAG", "RULE"],
    )


def find(name: str) -> Point[..., Any, Any]:
    """The point of a name, written as here or as in Go.

    :raises InvalidInput: there is none; says which one is near.
    """
    from pumice.config.problems import nearest
    from pumice.framework.points import POINTS

    wanted = name.replace("_", "").replace("-", "").casefold().removesuffix("fn").removeprefix("add")
    for point in POINTS.values():
        if wanted in (point.name.replace("_", ""), point.go.casefold().removesuffix("fn")):
            return point
    near = nearest(name, POINTS)
    hint = f"; did you mean {near!r}?" if near else "; `pumice points` lists them"
    raise InvalidInput(f"extension point {name!r}: there is none of that name{hint}")


def question(point: Point[..., Any, Any]) -> str:
    """What a point asks: the first sentence of its contract."""
    return re.split(r"(?<=[?.])\s", point.contract, maxsplit=1)[0]


def as_data(point: Point[..., Any, Any], everybody: Who) -> dict[str, Any]:
    """A point for programs."""
    return {
        "name": point.name,
        "go": point.go,
        "register": point.register,
        "signature": point.signature,
        "flag": point.flag,
        "fold": point.rule.text,
        "nobody": point.without,
        "failure": point.on_failure.value,
        "asked": list(everybody.asks.get(point.name, ())),
        "contract": point.contract,
        "origin": point.origin,
    }


def _asked(asked: Sequence[str]) -> str:
    if not asked:
        return "nobody"
    return ", ".join(asked[:3]) + (f" +{len(asked) - 3}" if len(asked) > 3 else "")


def _show(point: Point[..., Any, Any], everybody: Who) -> None:
    render.heading(point.name, f"{point.go}, from {point.origin}")
    render.line()
    render.paragraph(point.contract, indent=2)
    render.line()
    render.pairs(
        [
            ("callback", point.signature),
            ("register", f"ssn.{point.register}(name, fn), or a method named {point.name}"),
            ("flag", point.flag or "none: always on"),
            ("combine", point.rule.text),
            ("nobody answers", point.without),
            ("if it fails", point.on_failure.value),
            ("asked by", everybody.asked(point.name)),
            ("answered by", everybody.answered(point.name)),
        ],
    )
