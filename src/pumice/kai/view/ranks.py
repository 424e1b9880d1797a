"""What a score does to the order of nodes, where that can be said without scoring them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pumice.kai.view.tasks import TaskView

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.bool_]


class NodeRank(NamedTuple):
    """A number for each row: the score is higher where it is less, and the same where it is the same."""

    band: float
    """More than all scores in lower bands make of a difference together: of two the one with more goes first."""
    applies: Callable[[TaskView], bool]
    """Do the numbers say all of the score, for a task and its likes?"""
    of: Callable[[TaskView], Numbers]
    """The numbers for a task, whatever they are on rows without room for it."""
