"""Promise: what would never run, or never be read, is an error where it is handed over, at the author's line.

Enumerates every point, every hint that a registration can carry, every hook, event handler and preparation, written as
``async def``, as an asynchronous generator and as a generator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

import pytest

from pumice import EventHandler, Plugin, PumiceError, Session
from pumice.framework.loading import HOOKS
from pumice.framework.points.callback import HANDLERS
from pumice.framework.points.registration import Registration
from pumice.framework.points.table import POINTS
from pumice.testing import Scenario

FORMS = {
    "async": "async def odd({0}): return None",
    "async generator": "async def odd({0}): yield None",
    "generator": "def odd({0}): yield None",
}


def written(form: str, names: str) -> Callable[..., Any]:
    """A function of some parameters in a form that does nothing when it is called."""
    scope: dict[str, Any] = {}
    exec(compile(FORMS[form].format(names), __file__, "exec"), scope)
    return cast("Callable[..., Any]", scope["odd"])


def plugin(opens: Callable[[Session], None]) -> type[Plugin]:
    class Odd(Plugin):
        name = "odd"

        def on_session_open(self, ssn: Session) -> None:
            opens(ssn)

    return Odd


def is_refused(odd: type[Plugin], what: str) -> None:
    scenario = Scenario().node("n1", cpu=4).job("a", tasks=1, cpu=1)
    with pytest.raises(PumiceError, match=r"nobody (awaits|iterates)") as refused:
        scenario.run(plugins=["gang", odd])
    assert what in str(refused.value)
    assert f"{__file__}:1" in str(refused.value)


@pytest.mark.parametrize("form", FORMS)
def test_at_every_point(form: str) -> None:
    for point, declared in POINTS.items():
        if form == "generator" and declared.signature.endswith("iterator of scenarios"):
            continue
        method = written(form, ", ".join(["self", *(f"a{n}" for n in range(declared.arity[0]))]))
        is_refused(type("Odd", (Plugin,), {"name": "odd", point: method}), point)


@pytest.mark.parametrize("form", ["async", "async generator"])
def test_in_every_hint(form: str) -> None:
    for name, method in inspect.getmembers(Registration, inspect.isfunction):
        for hint in inspect.signature(method).parameters.values():
            if name.startswith("add_") and "Fn" in str(hint.annotation) and hint.name not in ("name", "fn"):
                declared = {hint.name: written(form, "*_")}
                is_refused(plugin(lambda ssn: getattr(ssn, name)("odd", lambda *_: None, **declared)), hint.name)  # noqa: B023


@pytest.mark.parametrize("form", FORMS)
def test_in_every_hook_and_handler(form: str) -> None:
    for hook in HOOKS:
        is_refused(type("Odd", (Plugin,), {"name": "odd", hook: written(form, "self, ssn")}), hook)
    for handler in HANDLERS:
        fn = written(form, "event")
        is_refused(
            plugin(lambda ssn: ssn.add_event_handler(EventHandler(**cast("Any", {handler: fn})))),  # noqa: B023
            handler,
        )


def test_before_binds() -> None:
    is_refused(plugin(lambda ssn: ssn.prepare_binds(written("async", "task"))), "prepare_binds")
    binder = type("Binder", (), {"wants": staticmethod(written("async", "task"))})
    is_refused(plugin(lambda ssn: ssn.register_binder("odd", binder())), "wants")


@pytest.mark.parametrize("value", [3, "text", property(lambda self: None), (1, 2)])
@pytest.mark.part(3)
def test_a_point_that_is_no_method(value: object) -> None:
    for point in POINTS:
        with pytest.raises(PumiceError, match=f"{point} is the name of an extension point, and must be a method"):
            Scenario().run(plugins=[type("Odd", (Plugin,), {"name": "odd", point: value})])
    Scenario().run(plugins=[type("Fine", (Plugin,), {"name": "fine", "predicate": None})])


def test_a_name_that_its_constructor_replaced() -> None:
    class Replaced(Plugin):  # as a dataclass does whose first field is the name
        name = "replaced"

        def __init__(self, name: Any) -> None:
            self.name = name

    with pytest.raises(PumiceError, match="its name must be text, got"):
        Scenario().run(plugins=[Replaced])
