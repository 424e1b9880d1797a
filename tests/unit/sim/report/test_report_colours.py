"""Colours of the page: series are told apart by those who see colours differently, text and lines stand out.

Deficiencies are simulated as Machado, Oliveira and Fernandes (2009) do at full severity, in linear light; differences
are those of CIEDE2000 (Sharma, Wu and Dalal 2005), where 2 is just seen and 10 is plain.
"""

from __future__ import annotations

import math
import re
from importlib import resources
from itertools import combinations

import pytest

from pumice.sim.report.charts import COLOURS, OTHER_CLASS

CSS = resources.files("pumice.sim.report").joinpath("assets", "report.css").read_text(encoding="utf-8")
NAMED = {name: values for name, *values in re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", CSS)}
SCHEMES = {"light": 0, "dark": 1}
SERIES = [*(f"c{n}" for n in range(COLOURS)), OTHER_CLASS]
PLAIN = 10.0
DEFICIENCIES = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
Three = tuple[float, float, float]


def linear(colour: str) -> Three:
    """Red, green and blue in linear light."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return red, green, blue


def times(matrix: tuple[tuple[float, ...], ...], colour: Three) -> Three:
    first, second, third = (sum(a * b for a, b in zip(row, colour, strict=True)) for row in matrix)
    return first, second, third


def seen(colour: Three, deficiency: str) -> Three:
    first, second, third = (min(max(part, 0.0), 1.0) for part in times(DEFICIENCIES[deficiency], colour))
    return first, second, third


def lab(colour: Three) -> Three:
    """CIE L*, a*, b* of a colour in linear light (D65)."""
    xyz = times(
        ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041)),
        colour,
    )
    x, y, z = (
        math.cbrt(part) if part > 216 / 24389 else (24389 / 27 * part + 16) / 116
        for part in (xyz[0] / 0.95047, xyz[1], xyz[2] / 1.08883)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: Three, other: Three) -> float:
    """CIEDE2000 of two colours in L*, a*, b*."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 1.5 - 0.5 * math.sqrt(mean**7 / (mean**7 + 25**7))
    c1, c2 = math.hypot(a1 * g, b1), math.hypot(a2 * g, b2)
    h1, h2 = (math.degrees(math.atan2(b, a * g)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = 0.0 if not c1 * c2 else (h2 - h1 + 180) % 360 - 180
    hue = (h1 + turn / 2) % 360 if c1 * c2 else h1 + h2
    step = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn) / 2)
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))
    t = 1 + sum(size * math.cos(math.radians(n * hue + shift)) for size, n, shift in waves)
    s_l = 1 + 0.015 * (light - 50) ** 2 / math.sqrt(20 + (light - 50) ** 2)
    s_c, s_h = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    turned = -2 * math.sqrt(chroma**7 / (chroma**7 + 25**7))
    turned *= math.sin(math.radians(60 * math.exp(-(((hue - 275) / 25) ** 2))))
    d_l, d_c, d_h = (l2 - l1) / s_l, (c2 - c1) / s_c, step / s_h
    return math.sqrt(d_l**2 + d_c**2 + d_h**2 + turned * d_c * d_h)


def contrast(one: str, other: str) -> float:
    """The contrast of two colours by WCAG 2, from 1 to 21."""
    weights = ((0.2126, 0.7152, 0.0722),) * 3
    low, high = sorted(times(weights, linear(colour))[0] for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("one", "other", "known"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((22.7233, 20.0904, -46.6940), (23.0331, 14.9730, -42.5619), 2.0373),
        ((90.8027, -2.0831, 1.4410), (91.1528, -1.6435, 0.0447), 1.4441),
    ],
)
def test_differences_are_those_of_the_published_pairs(one: Three, other: Three, known: float) -> None:
    assert difference(one, other) == pytest.approx(known, abs=1e-4)


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_two_of_eight_series_and_the_others_are_plainly_different(scheme: str, deficiency: str) -> None:
    looks = {name: lab(seen(linear(NAMED[name][SCHEMES[scheme]]), deficiency)) for name in SERIES}
    alike = {
        f"{one} {other}": round(step, 1)
        for one, other in combinations(SERIES, 2)
        if (step := difference(looks[one], looks[other])) < PLAIN
    }
    assert alike == {}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", [*SERIES, "accent", "accent2", "warn", "good", "bad"])
def test_a_line_has_three_to_one_against_what_it_is_drawn_on(name: str, scheme: str) -> None:
    assert contrast(NAMED[name][SCHEMES[scheme]], NAMED["card"][SCHEMES[scheme]]) >= 3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("behind", ["page", "card", "faint"])
@pytest.mark.parametrize("name", ["ink", "muted", "good", "bad", "warn"])
def test_text_has_four_and_a_half_to_one_wherever_it_stands(name: str, behind: str, scheme: str) -> None:
    assert contrast(NAMED[name][SCHEMES[scheme]], NAMED[behind][SCHEMES[scheme]]) >= 4.5


def test_no_other_colour_is_the_colour_of_text() -> None:
    """Whoever gives text another colour must have it looked at above."""
    texts = set(re.findall(r"(?<![-\w])color: (?:var\(--(\w+)\)|inherit)", CSS)) - {""}
    marks = {*SERIES, "accent", "accent2"}  # they colour swatches, lines and bars
    assert texts - marks == {"ink", "muted", "good", "bad", "warn"}


def test_from_the_fourth_line_on_a_pattern_tells_it_too() -> None:
    patterns = dict(re.findall(r"\.line\.(c\d) \{ stroke-dasharray: ([^;]+); \}", CSS))
    assert set(patterns) == {f"c{n}" for n in range(3, COLOURS)}
    assert len(set(patterns.values())) == len(patterns)
