"""A point: a question put to plugins, whose whole declaration is executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeVar

from pumice.framework.points.rules import OnFailure, Rule
from pumice.model.reason import Verdict

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


class Form(Generic[P, R]):
    """The parameters of a callback, and its permitted answers."""


HINTS: Final[Mapping[str, tuple[str, str]]] = {
    "scope": ("Scope = Scope.SESSION", "*scope*: what the answer depends on, and so when it is asked again."),
    "key": (
        "Fn | None = None",
        "*key(item)*: items of equal keys get equal answers until something changes. It reads the item alone.",
    ),
    "normalize": (
        "Fn | None = None",
        "*normalize(scores, mask)*: how the scores of all candidates are made comparable.",
    ),
    "max_tasks": ("Fn | None = None", "*max_tasks(queue, task)*: how many equal tasks in a row the queue would take."),
}
"""Hint -> its type and default in registration methods, and what it says."""


@dataclass(frozen=True, slots=True, eq=False)
class Point(Generic[P, R, A]):
    """A question: asked with *P*, answered by a plugin with *R*, by all of them together with *A*."""

    name: str
    form: type[Form[P, R]]
    rule: Rule
    nobody: A
    """The result without an answer."""
    on_failure: OnFailure
    go: str = ""
    signature: str = ""
    forms: tuple[int, ...] = ()
    """How many parameters a callback may take, the usual form first; empty: as many as the signature lists."""
    flag: str | None = None
    """The conf flag that switches it off for a plugin; None: always on."""
    contract: str = ""
    otherwise: str = ""
    """The result without an answer, in words, if *without* does not say it all."""
    origin: str = "Volcano"
    switch: tuple[str, Rule] | None = None
    """A compat switch, and the rule that holds where it is on."""
    part: str = "fn"
    """The asked part of a callback: its function, or a hint that it declares beside it."""
    hints: tuple[str, ...] = ()
    """The hints that a callback may declare beside its function, of `HINTS`."""
    keyed: bool = False
    """Whether a plugin may give a sort key in place of a comparison."""
    plural: bool = False
    """Whether it is also registered under Volcano's plural name."""

    @property
    def register(self) -> str:
        """The name of the session's registration method."""
        return f"add_{self.name}_fn"

    @property
    def arity(self) -> tuple[int, ...]:
        """How many parameters a callback may take, the usual form first."""
        inside = self.signature.partition(" -> ")[0].strip("()")
        return self.forms or (_parameters(inside),)

    @property
    def without(self) -> str:
        """The result without an answer, in words."""
        return self.otherwise or _WORDS.get(str(self.nobody), str(self.nobody))

    def hint(self, part: str, rule: Rule, nobody: Any) -> Point[..., Any, Any]:
        """A point of its own for what callbacks of this one declare; one that fails is as if it were not declared."""
        return Point(f"{self.name}.{part}", Form[..., Any], rule, nobody, OnFailure.ABSTAIN, flag=self.flag, part=part)

    @property
    def at(self) -> str:
        """The point at which callbacks that are asked were registered."""
        return self.name if self.part == "fn" else self.name.partition(".")[0]


_WORDS = {
    str(Verdict(True)): "yes",
    str(Verdict(False)): "no",
    "None": "nothing",
    "()": "nobody",
    "0.0": "0",
    "{}": "nothing",
}


def _parameters(inside: str) -> int:
    """How many parameters a signature lists, those in brackets of their own counted as one."""
    depth, count = 0, 1 if inside else 0
    for sign in inside:
        depth += (sign in "[{(") - (sign in "]})")
        count += sign == "," and not depth
    return count
