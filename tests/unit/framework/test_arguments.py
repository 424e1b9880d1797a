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


@pytest.mark.parametrize(("value", "seconds"), [("1m30s", 90.0), ("100ms", 0.1), ("0s", 0.0), ("-1s", -1.0)])
def test_durations_are_text(value: str, seconds: float) -> None:
    for typed in (False, True):
        assert Arguments({"interval": value}, typed=typed).seconds("interval", 5.0) == seconds


@pytest.mark.parametrize("value", ["soon", "5", 5, 1.5, True, None])
def test_what_is_no_duration_leaves_the_default_where_arguments_are_typed(value: object) -> None:
    assert Arguments({"interval": value}, typed=True).seconds("interval", 5.0) == 5.0


@pytest.mark.parametrize("value", [["a", "b"], 5, None])
def test_names_are_one_text_where_arguments_are_typed(value: object) -> None:
    assert Arguments({"names": value}, typed=True).names("names") == []
    assert Arguments({"names": "a, b,,c"}, typed=True).names("names") == ["a", "b", "c"]
    assert Arguments({"names": ["a", "b"]}).names("names") == ["a", "b"]


def test_what_is_not_given_has_its_default() -> None:
    arguments = Arguments()
    assert arguments.seconds("a", 1.5) == 1.5
    assert arguments.names("a") == []
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
        ("seconds", 5, "a text such as 500ms or 1m30s"),
        ("list", 5, "a list of texts or a text with commas"),
        ("list", [1], "a list of texts or a text with commas"),
    ],
)
def test_anything_else_is_an_error_that_names_argument_value_and_rule(kind: str, value: object, want: str) -> None:
    defaults = {"int": 1, "float": 1.0, "bool": False, "str": "", "seconds": 1.0, "list": ()}
    with pytest.raises(InvalidInput) as caught:
        getattr(Arguments({"key": value}, owner="mine"), kind)("key", defaults[kind])
    assert str(caught.value) == f"mine: argument key: must be {want}, got {value!r}"


def test_a_duration_that_cannot_be_read_is_an_error_that_names_the_argument() -> None:
    with pytest.raises(InvalidInput, match=r"^mine: argument interval: duration 'soon': "):
        Arguments({"interval": "soon"}, owner="mine").seconds("interval", 1.0)


def test_arguments_are_a_mapping() -> None:
    arguments = Arguments({"a": 1, "b": "x"})
    assert dict(arguments) == {"a": 1, "b": "x"}
    assert len(arguments) == 2
    assert arguments["a"] == 1
    assert repr(arguments) == "Arguments({'a': 1, 'b': 'x'})"
    with pytest.raises(InvalidInput, match=r"^argument a: must be text"):
        arguments.str("a", "")
