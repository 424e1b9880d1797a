"""What plugins publish can be read by whoever scrapes it: one odd figure would hide all others."""

from __future__ import annotations

from typing import Any

import pytest

from pumice import Plugin, Session
from pumice.errors import WrongCall
from pumice.framework.metrics import Metrics
from pumice.testing import Scenario

NAMES: list[Any] = ["", "bad name", "a\nb", "1a", "π", "a{b}", 3, None]
LABELS: list[Any] = ["la bel", "__name__", "1a", "π", ""]
VALUES: list[Any] = [None, "x", 10**400, object(), [1], 1j]


@pytest.mark.parametrize("kind", ["gauge", "counter", "histogram"])
def test_an_odd_name_label_or_value_is_refused_where_it_is_published(kind: str) -> None:
    metrics = Metrics()
    publish = getattr(metrics, kind)
    rest = ([1.0, 2.0],) if kind == "histogram" else ()
    for name in NAMES:
        with pytest.raises(WrongCall, match="a name is made of"):
            publish(name, 1, *rest)
    for label in LABELS:
        with pytest.raises(WrongCall, match="a label is made of"):
            publish("fine", 1, *rest, **{label: "x"})
    for value in VALUES:
        with pytest.raises(WrongCall, match="a value is a number"):
            publish("fine", value, *rest)
    publish("fine", 1, *rest, queue='a\n"b\\')
    assert len(getattr(metrics, f"{kind}s")) == 1


@pytest.mark.parametrize("bounds", [[2, 1], [1, 1], [None], ["x"], [float("nan")]])
def test_bounds_are_ascending_numbers(bounds: list[Any]) -> None:
    with pytest.raises(WrongCall):
        Metrics().histogram("h", 1, bounds)


def test_the_values_of_labels_are_text_whatever_they_were() -> None:
    metrics = Metrics()
    metrics.gauge("g", 1, a=None, b=3, c="\ud800")  # type: ignore[arg-type]
    assert [*metrics.gauges] == [("g", (("a", ""), ("b", "3"), ("c", "?")))]


def test_a_plugin_that_publishes_nonsense_is_told_at_its_line() -> None:
    class Odd(Plugin):
        name = "odd"

        def on_session_close(self, ssn: Session) -> None:
            ssn.metrics.gauge("waiting jobs", len(ssn.jobs))

    cycle = Scenario().node("n1", cpu=4).job("a", cpu=1).run(plugins=["gang", Odd])
    assert cycle.binds
    [error] = cycle.errors
    assert "metric 'waiting jobs'" in error
    assert __file__ in error
