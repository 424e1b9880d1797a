"""The occasions that candidates are tried on: seeds, or parts of a trace; to search, to choose, and for the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pumice.errors import InvalidInput
from pumice.sim.results.pairs import FEWEST
from pumice.sim.results.records import SEED
from pumice.sim.scenario import SimScenario

FEWEST_OCCASIONS: Final = FEWEST + 3
"""Two to search on, one to choose on, and enough for a verdict."""


Occasion = int
"""One day or week to be played, the same for every candidate: the seed, or the part of a trace counted from 1."""


@dataclass(frozen=True, slots=True)
class OccasionSplit:
    """The occasions, in their order: of a trace the later ones are held out."""

    search: tuple[Occasion, ...]
    choose: tuple[Occasion, ...]
    held_out: tuple[Occasion, ...]
    each: str
    """The name of an occasion: ``seed``, or ``part of 7 d``."""

    @classmethod
    def of(cls, occasions: Sequence[Occasion], each: str) -> OccasionSplit:
        """Half of them for the verdict, and no fewer than it needs; a third of the rest to choose on.

        :raises InvalidInput: there are too few.
        """
        count = len(occasions)
        if count < FEWEST_OCCASIONS:
            raise InvalidInput(f"{count} occasions ({each}) are too few; at least {FEWEST_OCCASIONS} are needed")
        held = max(FEWEST, count // 2)
        choose = max(1, (count - held) // 3)
        search = count - held - choose
        return cls(
            tuple(occasions[:search]), tuple(occasions[search : search + choose]), tuple(occasions[-held:]), each
        )


def by_seed(seeds: Sequence[int]) -> OccasionSplit:
    """Return occasions that are drawn, one for each seed."""
    return OccasionSplit.of(seeds, SEED)


def by_time(scenario: SimScenario, length_s: float) -> tuple[OccasionSplit, SimScenario]:
    """Return the parts of a scenario's traces as occasions, and the scenario that plays them.

    :raises InvalidInput: it has other work than traces, or too few parts.
    """
    cut = scenario.split_into(length_s)
    assert cut.split is not None
    try:
        return OccasionSplit.of(cut.split.numbers, cut.split.unit()), cut
    except InvalidInput as exc:
        longest = cut.split.numbers[-1] * length_s / FEWEST_OCCASIONS / 3600
        raise InvalidInput(f"--split: {exc}: say parts of at most {longest:.0f} h") from None
