"""How our commands are made: options that belong together are one value, and usage lines have no braces."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

Function = TypeVar("Function", bound=Callable[..., None])


class PumiceCommand(TyperCommand):
    """A command in whose usage line a name is what must be given, and a name in brackets what may be.

    Its help ends with the lines below ``Examples:`` in the function's docstring.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        text, _, examples = inspect.cleandoc(settings.get("help") or "").partition("\n\nExamples:\n")
        super().__init__(*args, **{**settings, "help": text})
        self.examples = tuple(line.strip() for line in examples.splitlines())

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class Commands(typer.Typer):
    """Commands of this kind."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        settings["cls"] = settings.get("cls") or PumiceCommand
        register = super().command(name, **settings)

        def registered(function: Function) -> Function:
            register(spread(function))
            return function

        return registered


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """The function as a command sees it: in the place of a parameter that is a dataclass of options, its fields.

    The fields are annotated as parameters of a command are.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    if not groups:
        return function
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        group = groups.get(parameter.name)
        own = parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += [own] if group is None else _fields(group)

    @wraps(function)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        function(**given)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _fields(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
