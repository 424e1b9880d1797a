"""Everything random: a stream of its own for each quantity of each thing, so that runs share their luck.

A draw for a thing depends on the seed, on the quantity and on the thing's own name, never on earlier draws. Two runs of
one seed therefore differ only by what the scheduler does: the same jobs arrive, the same pods fail, the same binds are
refused, whatever the configuration. A scenario that is changed in one place (a load, a pattern of the day) keeps what
it draws in all others.
"""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass
from typing import Protocol


def stream(seed: int, *names: object) -> random.Random:
    """Return the random numbers of one quantity: of the same seed and names, the same ones."""
    return random.Random("/".join(map(str, (seed, *names))))


def uniform_of(seed: int, *names: object) -> float:
    """Return one number from 0 to 1 (not included); cheaper than a stream where one is enough."""
    text = "/".join(map(str, (seed, *names))).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()[:7], "big") / 2**56


class Draw(Protocol):
    """A distribution: one number from it per call."""

    def __call__(self, rng: random.Random) -> float: ...


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    value: float

    def __call__(self, rng: random.Random) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Uniform:
    """Any number between two, equally often."""

    low: float
    high: float

    def __call__(self, rng: random.Random) -> float:
        return rng.uniform(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Memoryless, with this mean."""

    mean: float

    def __call__(self, rng: random.Random) -> float:
        return rng.expovariate(1 / self.mean)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Log-normal: half are below the median, nine tenths below *p90*."""

    median: float
    p90: float

    def __call__(self, rng: random.Random) -> float:
        sigma = math.log(self.p90 / self.median) / 1.2815515655446004
        return self.median * math.exp(rng.gauss(0.0, sigma))


@dataclass(frozen=True, slots=True)
class Weibull:
    """Weibull: 63 % are below the scale; a shape below 1 gives a heavy tail."""

    scale: float
    shape: float

    def __call__(self, rng: random.Random) -> float:
        return rng.weibullvariate(self.scale, self.shape)


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gamma, with this mean; the variance is the square of the mean over the shape."""

    mean: float
    shape: float

    def __call__(self, rng: random.Random) -> float:
        return rng.gammavariate(self.shape, self.mean / self.shape)


@dataclass(frozen=True, slots=True)
class Pareto:
    """Pareto: none is below the least; with a shape of at most 1 it has no mean."""

    least: float
    shape: float

    def __call__(self, rng: random.Random) -> float:
        return self.least * rng.paretovariate(self.shape)


@dataclass(frozen=True, slots=True)
class Empirical:
    """Values that were seen, as a distribution: between two neighbours any value is equally likely."""

    values: tuple[float, ...]
    """Ascending."""

    def __call__(self, rng: random.Random) -> float:
        at = rng.random() * (len(self.values) - 1)
        low = int(at)
        return self.values[low] + (at - low) * (self.values[min(low + 1, len(self.values) - 1)] - self.values[low])


@dataclass(frozen=True, slots=True)
class WeightedChoice:
    """One of several numbers, by weight."""

    values: tuple[float, ...]
    weights: tuple[float, ...]

    def __call__(self, rng: random.Random) -> float:
        return rng.choices(self.values, self.weights)[0]
