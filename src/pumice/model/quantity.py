"""Kubernetes quantities: ``100m``, ``1.5Gi``, ``1e3``, ``12E`` to exact numbers and back."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from pumice.errors import InvalidInput, shown

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"(?P<suffix>[eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE]?)"
)
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_NANO = 10**9
_MAX_EXPONENT = 60
_MOST_CHARACTERS = 100


def whole_number(text: str, least: int = 0, most: int = 2**63 - 1) -> int | None:
    """The whole number that an annotation or a label says in ASCII digits; None if it says none within the bounds."""
    number = int(text) if _WHOLE.fullmatch(text) is not None else None
    return number if number is not None and least <= number <= most else None


def _is_exponent(suffix: str) -> bool:
    return len(suffix) > 1 and suffix not in _BINARY


def _scale(suffix: str) -> Fraction:
    if suffix in _DECIMAL:
        return Fraction(10) ** _DECIMAL[suffix]
    if suffix in _BINARY:
        return Fraction(2) ** _BINARY[suffix]
    return Fraction(10) ** int(suffix[1:])


@lru_cache(maxsize=8192)
def _parse(text: str) -> tuple[Fraction, str]:
    match = _FORM.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if match is None:
        raise InvalidInput(f"quantity {shown(text)}: must be a number with an optional suffix such as m, k, Mi or e3")
    suffix = match["suffix"]
    if _is_exponent(suffix) and abs(int(suffix[1:])) > _MAX_EXPONENT:
        raise InvalidInput(f"quantity {text!r}: the exponent must lie between -{_MAX_EXPONENT} and {_MAX_EXPONENT}")
    number = Fraction(match["number"] if match["number"][-1] != "." else match["number"][:-1])
    exact = number * _scale(suffix)
    nano = exact * _NANO
    if nano.denominator != 1:  # finer than nano: Kubernetes rounds away from zero
        exact = Fraction(-(-nano.numerator // nano.denominator), _NANO)
    return (-exact if match["sign"] == "-" else exact), suffix


def parse(quantity: str | int | float) -> Fraction:
    """The exact value of a quantity.

    :raises InvalidInput: not a quantity; the message names the text.
    """
    if isinstance(quantity, bool):
        raise InvalidInput(f"quantity {quantity!r}: must be a number, got a truth value")
    if isinstance(quantity, int):
        return Fraction(quantity)
    if isinstance(quantity, float):
        return _parse(repr(quantity))[0]
    return _parse(quantity)[0]


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


@lru_cache(maxsize=8192)
def _value_of(text: str) -> int:
    return _ceil(_parse(text)[0])


@lru_cache(maxsize=8192)
def _milli_of(text: str) -> int:
    return _ceil(_parse(text)[0] * 1000)


def value(quantity: str | int | float) -> int:
    """The quantity in whole units, rounded up."""
    if type(quantity) is int:
        return quantity
    return _value_of(quantity) if isinstance(quantity, str) else _ceil(parse(quantity))


def milli(quantity: str | int | float) -> int:
    """The quantity in thousandths, rounded up."""
    if type(quantity) is int:
        return 1000 * quantity
    return _milli_of(quantity) if isinstance(quantity, str) else _ceil(parse(quantity) * 1000)


def _decimal_form(number: Fraction, exponents: dict[str, int] = _DECIMAL) -> str:
    for suffix, exponent in sorted(exponents.items(), key=lambda item: -item[1]):
        scaled = number / Fraction(10) ** exponent
        if scaled.denominator == 1:
            return f"{scaled.numerator}{suffix}"
    raise InvalidInput(f"quantity {number}: finer than a thousand-millionth")


def canonical(quantity: str | int | float) -> str:
    """The quantity as Kubernetes prints it: an integer with the largest fitting suffix of the same family."""
    number = parse(quantity)
    suffix = _parse(quantity)[1] if isinstance(quantity, str) else ""
    if number == 0:
        return "0"
    if suffix in _BINARY and number.denominator == 1 and not -1024 < number < 1024:
        for name, power in sorted(_BINARY.items(), key=lambda item: -item[1]):
            if number % 2**power == 0:
                return f"{number // 2**power}{name}"
        return str(number.numerator)
    if _is_exponent(suffix):
        exponents = {f"e{e}" if e else "": e for e in range(-9, 61, 3)}
        return _decimal_form(number, exponents)
    return _decimal_form(number)


def milli_text(milli: int) -> str:
    """The shortest quantity that reads back as so many thousandths."""
    return str(milli // 1000) if milli % 1000 == 0 else f"{milli}m"


def bytes_text(amount: int) -> str:
    """An amount in the greatest binary unit that divides it; reads back as the same number."""
    for name, power in sorted(_BINARY.items(), key=lambda item: -item[1]):
        if amount and amount % 2**power == 0:
            return f"{amount // 2**power}{name}"
    return str(amount)
