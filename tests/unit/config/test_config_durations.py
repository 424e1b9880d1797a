from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.config.durations import DAY, HOUR, MILLISECOND, MINUTE, SECOND, WEEK, format_duration, parse_duration
from pumice.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("0s", 0),
        ("1m30s", 90 * SECOND),
        ("100ms", 100 * MILLISECOND),
        ("-5s", -5 * SECOND),
        ("+5s", 5 * SECOND),
        ("1.5h", 90 * MINUTE),
        (".5s", 500 * MILLISECOND),
        ("1.s", SECOND),
        ("1h1h", 2 * HOUR),
        ("1us", 1000),
        ("1µs", 1000),
        ("1μs", 1000),
        ("7ns", 7),
        ("0.9ns", 0),
        ("0.3333333333333333333h", 1_199_999_999_999),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
    ],
)
def test_a_go_duration_is_read_exactly(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("-", "it is empty"),
        ("5", "the unit after '5' is missing"),
        ("1m30", "the unit after '30' is missing"),
        ("s", "a number must stand before 's'"),
        (".s", "a number must stand before '.s'"),
        ("1d", "there is no unit 'd'"),
        ("1 s", "there is no unit ' s'"),
        (" 1s", "a number must stand before ' 1s'"),
        ("1s ", "there is no unit 's '"),
        ("1..5s", "the unit after '1.' is missing"),
        ("--1s", "a number must stand before '-1s'"),
        ("١s", "a number must stand before"),
        ("9223372036854775808ns", "longer than 292 years"),
        ("99999999999999999999999h", "longer than 292 years"),
        ("3000000h", "longer than 292 years"),
    ],
)
def test_what_is_no_duration_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_duration(text)
    assert f"duration {text!r}" in str(caught.value)
    assert why in str(caught.value)


def test_days_and_weeks_are_read_only_when_asked_for() -> None:
    assert parse_duration("1w2d", days=True) == WEEK + 2 * DAY
    with pytest.raises(InvalidInput, match="no unit 'w'"):
        parse_duration("1w2d")


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (90 * SECOND, "1m30s"),
        (HOUR + 30 * MINUTE, "1h30m0s"),
        (HOUR, "1h0m0s"),
        (4 * MINUTE + 5_001 * MILLISECOND, "4m5.001s"),
        (-90 * SECOND, "-1m30s"),
    ],
)
def test_a_duration_is_printed_as_go_prints_it(nanoseconds: int, text: str) -> None:
    assert format_duration(nanoseconds) == text


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_what_is_printed_is_read_back(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds
