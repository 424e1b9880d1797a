"""Classes of jobs by size: by GPUs, or by CPUs in a run without any GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pumice.sim.results.records import JobRecord

_BY_GPUS: Final = (
    (1, "part of a GPU"),
    (1.5, "1 GPU"),
    (4.5, "2 to 4 GPUs"),
    (8.5, "5 to 8 GPUs"),
    (32.5, "9 to 32 GPUs"),
)
_BY_CPUS: Final = ((1.5, "1 CPU"), (8.5, "2 to 8 CPUs"), (64.5, "9 to 64 CPUs"))
NO_GPU: Final = "no GPU"
SIZES: Final[tuple[str, ...]] = (
    NO_GPU, *(name for _, name in _BY_GPUS), "over 32 GPUs", *(name for _, name in _BY_CPUS), "over 64 CPUs",
)  # fmt: skip
"""All classes, small to large; a run uses those by GPUs or those by CPUs."""


def classes(jobs: Iterable[JobRecord]) -> dict[str, str]:
    """Return the size class of each job, by key."""
    known = list(jobs)
    by_gpus = any(job.gpus > 0 for job in known)
    return {job.key: _by_gpus(job.gpus) if by_gpus else _by_cpus(job.cpus) for job in known}


def _by_gpus(gpus: float) -> str:
    if gpus <= 0:
        return NO_GPU
    return next((name for bound, name in _BY_GPUS if gpus < bound), "over 32 GPUs")


def _by_cpus(cpus: float) -> str:
    return next((name for bound, name in _BY_CPUS if cpus < bound), "over 64 CPUs")
