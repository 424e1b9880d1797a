"""JSON as Go writes it. The expected numbers and texts were printed by Go's encoding/json."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.errors import InvalidInput
from pumice.extender.gojson import encode, number, numbers, sorted_map


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (-0.0, "-0"),
        (2000.0, "2000"),
        (0.5, "0.5"),
        (-12.25, "-12.25"),
        (1e-5, "0.00001"),
        (1e-6, "0.000001"),
        (9.99e-7, "9.99e-7"),
        (1e-7, "1e-7"),
        (5e-324, "5e-324"),
        (123456789.125, "123456789.125"),
        (1e16, "10000000000000000"),
        (12345678901234567.0, "12345678901234568"),
        (9007199254740992, "9007199254740992"),
        (9007199254740993, "9007199254740992"),
        (-9007199254740993, "-9007199254740992"),
        (1e20, "100000000000000000000"),
        (10**21, "1e+21"),
        (-1.5e22, "-1.5e+22"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
    ],
)
def test_a_number_is_written_as_go_writes_a_float64(value: float, written: str) -> None:
    assert encode(number(value)) == written.encode()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_back_as_it_was(value: float) -> None:
    assert float(json.loads(encode(number(value)))) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_json_cannot_say_is_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match="JSON has no such number"):
        number(value)


def test_texts_are_escaped_as_go_escapes_them() -> None:
    text = '\x00\x08\x0c\n\r\t\x1f\x7f<>&\u2028\u2029é/"\\'
    expected = '"\\u0000\\b\\f\\n\\r\\t\\u001f\x7f\\u003c\\u003e\\u0026\\u2028\\u2029é/\\"\\\\"'
    assert encode(text) == expected.encode()


@given(st.text(st.characters(codec="utf-8")))
def test_a_text_is_read_back_as_it_was(text: str) -> None:
    body = encode({text: text})
    assert json.loads(body) == {text: text}
    assert not set(b"<>&") & set(body)


def test_maps_are_sorted_bytewise() -> None:
    keys = ["\U0001f600", "é", "a/b", "\uffff", "B", "a-b"]
    assert list(sorted_map(dict.fromkeys(keys))) == ["B", "a-b", "a/b", "é", "\uffff", "\U0001f600"]
    assert list(numbers(dict.fromkeys(keys, 1))) == ["B", "a-b", "a/b", "é", "\uffff", "\U0001f600"]
    assert list(sorted_map({str(bit): 0 for bit in (1, 2, 16, 32)})) == ["1", "16", "2", "32"]
