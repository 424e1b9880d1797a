"""Amounts in base units, as quantities and in documented units."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.errors import InvalidInput
from pumice.extender.wire import amounts

names = st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "ephemeral-storage"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1500m", Fraction(3, 2)),
        ("2Gi", 2**31),
        ("1.5Ki", 1536),
        ("100n", Fraction(1, 10**7)),
        ("7u", Fraction(7, 10**6)),
        ("3k", 3000),
        ("1E", 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("-5", -5),
        ("+.5", Fraction(1, 2)),
        ("12e-1", Fraction(6, 5)),
    ],
)
def test_a_quantity_has_its_exact_value(text: str, value: int | Fraction) -> None:
    assert amounts.quantity(text) == value


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1GiB", "1ki", "1e", "--1", "0x10", "1.2.3", "1e9999"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="must be a number with an optional suffix"):
        amounts.quantity(text)


def test_a_resource_list_is_rounded_up_and_leaves_out_what_volcano_does_not_count() -> None:
    listed = {
        "cpu": "1.0001",
        "memory": "1500m",
        "pods": "110",
        "nvidia.com/gpu": 2,
        "ephemeral-storage": "1Ki",
        "hugepages-2Mi": "4Mi",
        "storage": "1Gi",
        "count/pods": "3",
        "requests.nvidia.com/gpu": "1",
    }
    assert amounts.from_quantities(listed) == {
        "cpu": 1001,
        "memory": 2,
        "pods": 110,
        "nvidia.com/gpu": 2000,
        "ephemeral-storage": 1024000,
        "hugepages-2Mi": 4 * 2**20 * 1000,
    }


@given(st.dictionaries(names, st.integers(-(2**63), 2**63)))
def test_amounts_come_back_from_quantities_as_they_were(said: dict[str, int]) -> None:
    assert amounts.from_quantities(amounts.to_quantities(said)) == said


@given(names, st.integers(-(2**51), 2**51))
def test_an_amount_comes_back_from_documented_units_as_it_was(name: str, amount: int) -> None:
    again = amounts.from_documented(name, amounts.to_documented(name, amount))
    assert again == amount
    assert isinstance(again, int)


@given(names, st.integers(0, 2**80))
def test_whole_documented_units_are_exact_at_any_size(name: str, units: int) -> None:
    assert amounts.to_documented(name, amounts.from_documented(name, units)) == units


def test_a_fraction_of_a_base_unit_is_kept() -> None:
    assert amounts.from_documented("cpu", 0.0005) == 0.5
    assert amounts.to_documented("cpu", 0.5) == 0.0005
    assert amounts.from_documented("cpu", 0.001) == 1


def test_sums_and_maxima_are_taken_resource_by_resource() -> None:
    left, right = {"cpu": 1, "memory": 5}, {"cpu": 2, "x/y": 3}
    assert amounts.total([left, right]) == {"cpu": 3, "memory": 5, "x/y": 3}
    assert amounts.largest(left, right) == {"cpu": 2, "memory": 5, "x/y": 3}
