"""A plugin's arguments: YAML scalars and strings alike, and errors that name the argument."""

from __future__ import annotations

import pytest

from pumice import Arguments, InvalidInput


@pytest.mark.parametrize(("value", "number"), [(5, 5), ("5", 5), ("-3", -3), (5.0, 5)])
def test_whole_numbers(value: object, number: int) -> None:
    got = Arguments({"weight": value}).int("weight", 1)
    assert got == number
    assert isinstance(got, int)


@pytest.mark.parametrize(("value", "number"), [(5, 5.0), ("2.5", 2.5), (0.5, 0.5), ("1e3", 1000.0)])
def test_numbers(value: object, number: float) -> None:
    assert Arguments({"weight": value}).float("weight", 1) == number


@pytest.mark.parametrize(
    ("value", "truth"),
    [(True, True), (False, False), ("true", True), ("False", False), ("1", True), (0, False), ("T", True)],
)
def test_truth_values(value: object, truth: bool) -> None:
    assert Arguments({"on": value}).bool("on", not truth) is truth


@pytest.mark.parametrize(
    ("value", "items"), [("a, b,,c", ["a", "b", "c"]), (["a"], ["a"]), (("x", "y"), ["x", "y"]), ("", [])]
)
def test_lists_are_lists_or_text_with_commas(value: object, items: list[str]) -> None:
    assert Arguments({"names": value}).list("names") == items


def test_what_is_not_given_has_its_default() -> None:
    arguments = Arguments()
    assert arguments.int("a", 1) == 1
    assert arguments.float("a", 1.5) == 1.5
    assert arguments.bool("a", True)
    assert arguments.str("a", "x") == "x"
    assert arguments.list("a", ["x"]) == ["x"]


@pytest.mark.parametrize(
    ("kind", "value", "want"),
    [
        ("int", "many", "a whole number"),
        ("int", True, "a whole number"),
        ("int", 1.5, "a whole number"),
        ("int", None, "a whole number"),
        ("float", "heavy", "a number"),
        ("float", True, "a number"),
        ("float", ["1"], "a number"),
        ("float", "nan", "a finite number"),
        ("float", float("inf"), "a finite number"),
        ("bool", "yes", "true or false"),
        ("bool", 2, "true or false"),
        ("str", 5, "text"),
        ("list", 5, "a list of texts or a text with commas"),
        ("list", [1], "a list of texts or a text with commas"),
    ],
)
def test_anything_else_is_an_error_that_names_argument_value_and_rule(kind: str, value: object, want: str) -> None:
    defaults = {"int": 1, "float": 1.0, "bool": False, "str": "", "list": ()}
    with pytest.raises(InvalidInput) as caught:
        getattr(Arguments({"key": value}, owner="mine"), kind)("key", defaults[kind])
    assert str(caught.value) == f"mine: argument key: must be {want}, got {value!r}"


def test_arguments_are_a_mapping() -> None:
    arguments = Arguments({"a": 1, "b": "x"})
    assert dict(arguments) == {"a": 1, "b": "x"}
    assert len(arguments) == 2
    assert arguments["a"] == 1
    assert repr(arguments) == "Arguments({'a': 1, 'b': 'x'})"
    with pytest.raises(InvalidInput, match=r"^argument a: must be text"):
        arguments.str("a", "")
