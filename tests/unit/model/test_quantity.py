"""Kubernetes quantities: every form is read exactly and printed as Kubernetes prints it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.errors import InvalidInput
from pumice.model import quantity


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ("0", Fraction(0)),
        ("1", Fraction(1)),
        ("+1", Fraction(1)),
        ("-1", Fraction(-1)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("100n", Fraction(1, 10**7)),
        ("100u", Fraction(1, 10**4)),
        ("100m", Fraction(1, 10)),
        ("2k", Fraction(2000)),
        ("2M", Fraction(2 * 10**6)),
        ("2G", Fraction(2 * 10**9)),
        ("2T", Fraction(2 * 10**12)),
        ("2P", Fraction(2 * 10**15)),
        ("2E", Fraction(2 * 10**18)),
        ("2Ki", Fraction(2048)),
        ("1.5Mi", Fraction(3 * 2**19)),
        ("2Gi", Fraction(2**31)),
        ("2Ti", Fraction(2**41)),
        ("2Pi", Fraction(2**51)),
        ("2Ei", Fraction(2**61)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("12e-3", Fraction(12, 1000)),
        ("1e+3", Fraction(1000)),
        (3, Fraction(3)),
        (0.25, Fraction(1, 4)),
        (1e21, Fraction(10**21)),
        ("0.0000000001", Fraction(1, 10**9)),
        ("-0.0000000001", Fraction(-1, 10**9)),
    ],
)
def test_every_form_is_read_exactly(written: str | int | float, exact: Fraction) -> None:
    assert quantity.parse(written) == exact


@pytest.mark.parametrize("written", ["", " ", "lots", "1 Gi", "1gi", "Gi", "1.2.3", "--1", "1e", "0x10", "1Kib", "١"])
def test_what_is_no_quantity_is_named(written: str) -> None:
    with pytest.raises(InvalidInput, match="must be a number with an optional suffix") as caught:
        quantity.parse(written)
    assert repr(written) in str(caught.value)


@pytest.mark.parametrize("written", ["1e100", "1e-100"])
def test_an_absurd_exponent_is_refused(written: str) -> None:
    with pytest.raises(InvalidInput, match="the exponent must lie between -60 and 60"):
        quantity.parse(written)


@pytest.mark.parametrize("written", [True, float("nan"), float("inf")])
def test_a_value_that_only_looks_like_a_number_is_refused(written: float) -> None:
    with pytest.raises(InvalidInput):
        quantity.parse(written)


@pytest.mark.parametrize(
    ("written", "whole", "milli"),
    [("1", 1, 1000), ("100m", 1, 100), ("1001m", 2, 1001), ("1n", 1, 1), ("-1500m", -1, -1500), (1.5, 2, 1500)],
)
def test_whole_units_and_thousandths_are_rounded_up(written: str | float, whole: int, milli: int) -> None:
    assert (quantity.value(written), quantity.milli(written)) == (whole, milli)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("0Gi", "0"),
        ("-2048Mi", "-2Gi"),
        ("1e3", "1e3"),
        ("1500e3", "1500e3"),
        ("1e4", "10e3"),
        (5, "5"),
        (2000, "2k"),
        ("1025Ki", "1025Ki"),
        ("0.1Ki", "102400m"),
        ("1e-9", "1e-9"),
    ],
)
def test_the_canonical_form_is_the_one_kubernetes_prints(written: str | int, printed: str) -> None:
    assert quantity.canonical(written) == printed


@given(st.integers(-(10**12), 10**12), st.sampled_from(["", "m", "u", "n", "k", "M", "Ki", "Mi", "Gi", "e3", "e-3"]))
def test_the_canonical_form_means_the_same_and_is_its_own_canonical_form(number: int, suffix: str) -> None:
    written = f"{number}{suffix}"
    printed = quantity.canonical(written)
    assert quantity.parse(printed) == quantity.parse(written)
    assert quantity.canonical(printed) == printed


@given(st.integers(0, 2**62))
def test_amounts_read_back_as_they_were_written(amount: int) -> None:
    assert quantity.value(quantity.bytes_text(amount)) == amount
    assert quantity.milli(quantity.milli_text(amount)) == amount
