"""Promise: what a plugin's author hands over and nobody can use is an error where it is handed over, at his line.

Enumerates every hook, point, hint and registration method, each with parameters with which nobody calls it or with a
keyword that it does not take; everything else that takes a function, with what is none; odd declarations of a class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from pumice import Argument, Plugin, PumiceError, Scope, Session, scope
from pumice.framework.loading import HOOKS
from pumice.framework.points.point import HINTS
from pumice.framework.points.registration import Registration
from pumice.framework.points.table import POINTS
from pumice.framework.registry import Registry
from pumice.testing import Scenario

METHODS = [name for name, _ in inspect.getmembers(Registration, inspect.isfunction) if name.startswith("add_")]
HINT_METHODS = [
    (name, hint.name)
    for name, method in inspect.getmembers(Registration, inspect.isfunction)
    for hint in inspect.signature(method).parameters.values()
    if name.startswith("add_") and hint.name in HINTS and "Fn" in HINTS[hint.name][0]
]


def written(names: str) -> Callable[..., Any]:
    """A function of some parameters."""
    found: dict[str, Any] = {}
    exec(compile(f"def odd({names}): return None", __file__, "exec"), found)
    return cast("Callable[..., Any]", found["odd"])


def plugin(**parts: Any) -> type[Plugin]:
    return type("Odd", (Plugin,), {"name": "odd", **parts})


def opening(opens: Callable[[Session], object]) -> type[Plugin]:
    def on_session_open(self: Plugin, ssn: Session) -> None:
        opens(ssn)

    return plugin(on_session_open=on_session_open)


def is_refused(odd: Any, *words: str) -> None:
    with pytest.raises(PumiceError) as refused:
        Scenario().node("n1", cpu=4).job("a", tasks=1, cpu=1).run(plugins=["gang", odd])
    assert all(word in str(refused.value) for word in (*words, f"{__file__}:")), str(refused.value)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("names", ["self", "self, ssn, more", "self, ssn, *, more", ""])
def test_every_hook_takes_the_session(hook: str, names: str) -> None:
    is_refused(plugin(**{hook: written(names)}), f"{hook} must take one parameter, the session")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_may_be_written_in_any_way_that_can_be_called(hook: str) -> None:
    for fine in (staticmethod(written("ssn")), classmethod(written("cls, ssn")), written("self, ssn, more=1")):
        Scenario().node("n1").run(plugins=[plugin(**{hook: fine})])
    Scenario().node("n1").run(plugins=[plugin(**{hook: written("*args, **named")})])


def test_a_keyword_that_nobody_gives_is_refused_at_every_point() -> None:
    for point, declared in POINTS.items():
        names = ", ".join(["self", *(f"a{n}" for n in range(declared.arity[0])), "*", "strict"])
        is_refused(plugin(**{point: written(names)}), point, "requires the keyword 'strict'")
    Scenario().node("n1").job("a").run(plugins=["gang", plugin(predicate=written("self, task, node, *, strict=True"))])


@pytest.mark.parametrize(("method", "hint"), HINT_METHODS)
def test_every_hint_takes_what_it_is_asked_about(method: str, hint: str) -> None:
    for names in ("", "a, b, c, d", "a, b=1, *, c"):
        declared = {hint: written(names)}
        is_refused(opening(lambda ssn: getattr(ssn, method)("odd", lambda *_: None, **declared)), f"{hint} must take (")  # noqa: B023


def test_a_sort_key_takes_what_is_sorted() -> None:
    for point, declared in POINTS.items():
        if declared.keyed:
            method = f"add_{point}_key_fn"
            is_refused(opening(lambda ssn: getattr(ssn, method)("odd", written("a, b"))), f"{point}: the key must take")  # noqa: B023


@pytest.mark.parametrize("method", METHODS)
def test_a_keyword_that_a_registration_does_not_take_is_an_error(method: str) -> None:
    is_refused(
        opening(lambda ssn: getattr(ssn, method)("odd", lambda *_: None, scoop=Scope.NODE)),
        method.removesuffix("s"),
        "'scoop'",
    )


def test_what_nobody_would_ask_is_not_registered_at_any_point() -> None:
    for declared in POINTS.values():
        fn = written(", ".join(f"a{n}" for n in range(declared.arity[0])))
        odd = opening(partial(Session.add, point=declared.name, name="ood", fn=fn))
        is_refused(odd, f"{declared.register}: nobody asks what is registered as 'ood'")
    fine = opening(lambda ssn: ssn.add_node_order_fn("gang", lambda task, node: 0))
    Scenario().node("n1").run(plugins=["gang", fine])


def test_what_a_point_does_not_know_is_not_declared_of_its_method() -> None:
    for point, declared in POINTS.items():
        method = written(", ".join(["self", *(f"a{n}" for n in range(declared.arity[0]))]))
        if "scope" not in declared.hints:
            is_refused(plugin(**{point: scope(Scope.NODE)(method)}), f"{point} takes no scope")
        if "key" not in declared.hints:
            is_refused(plugin(**{point: scope(Scope.SESSION, key=lambda item: 1)(method)}), f"{point} takes no key")


def test_the_scope_of_a_method_is_said_in_parentheses() -> None:
    with pytest.raises(PumiceError, match=r"@scope\(Scope\.NODE\)") as refused:
        scope(cast("Any", written("self, task, node")))
    assert f"{__file__}:1" in str(refused.value)


@pytest.mark.parametrize("value", [3, "text", None, (1, 2)])
def test_what_is_no_function_is_not_taken_for_one(value: Any) -> None:
    is_refused(opening(lambda ssn: ssn.prepare_binds(value)), "prepare_binds: needs a function, got")
    is_refused(opening(lambda ssn: ssn.keep_sum("mine", value)), "keep_sum: needs a function, got")


def test_nobody_is_no_binder() -> None:
    is_refused(opening(lambda ssn: ssn.register_binder("mine", None)), "register_binder: needs a binder")


@pytest.mark.parametrize("value", [3, None, ["a"]])
def test_what_is_offered_under_a_name_has_one(value: Any) -> None:
    binder = type("Binder", (), {"bind": lambda self, intent: None})()
    is_refused(opening(lambda ssn: ssn.register_binder(value, binder)), "register_binder: the name must be text, got")
    is_refused(
        opening(lambda ssn: ssn.keep_sum(value, lambda job: job.allocated)), "keep_sum: the name must be text, got"
    )


@pytest.mark.parametrize("value", [None, {}, object(), b"weight"])
def test_an_argument_whose_default_has_no_reader_is_refused_where_it_is_declared(value: Any) -> None:
    with pytest.raises(TypeError, match=r"Argument: a default such as .* needs read="):
        Argument(value, "Nothing reads it.")


def test_what_builds_a_plugin_returns_one_and_not_its_class() -> None:
    class Mine:
        def predicate(self, task: Any, node: Any) -> None:
            """With its object it has as many parameters as KAI's form."""

    registry = Registry()
    registry.register("mine", lambda arguments: Mine)
    with pytest.raises(PumiceError, match=r"built the class Mine, not an object of it"):
        Scenario(registry=registry).run(plugins=["mine"])


def test_a_builder_of_which_nothing_is_known_is_called(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("New = dict\n")
    registry = Registry()
    registry.load_directory(tmp_path)
    with pytest.raises(PumiceError, match="built a dict, not a plugin"):
        Scenario(registry=registry).run(plugins=["odd"])


def test_an_abstract_class_is_named_by_its_line(tmp_path: Path) -> None:
    text = "import abc\nfrom pumice import Plugin\n\n\nclass Half(Plugin, abc.ABC):\n    name = 'half'\n"
    (tmp_path / "half.py").write_text(text + "    @abc.abstractmethod\n    def predicate(self, task, node): ...\n")
    registry = Registry()
    registry.load_directory(tmp_path)
    with pytest.raises(PumiceError, match=r"half\.py:5: .*abstract"):
        Scenario(registry=registry).run(plugins=["half"])
