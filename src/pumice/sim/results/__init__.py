"""The result of a run: its record, the figures made from it, and the comparison of several runs.

The way of the data: the simulator fills a ``RunRecord`` (``records``) with facts only; ``summarise`` turns it into
figures (``statistics``, ``summary``), ``timeline`` into what happened over time, ``compare`` sets runs side by side and
``compare_seeds`` configurations over many seeds (``pairs``). Everything that can be derived is derived here, so that
each figure has one definition. Nothing here draws or prints; that is ``pumice.sim.report``.
"""

from pumice.sim.results.comparison import Change, Comparison, MetricRow, MetricTable, Mover, Movers, compare
from pumice.sim.results.intervals import Effect, Interval, Verdict
from pumice.sim.results.records import (
    EvictionRecord,
    JobRecord,
    NodeRecord,
    Origin,
    PodRecord,
    QueueRecord,
    RecordedReason,
    RunRecord,
    Sample,
    decode,
    encode,
)
from pumice.sim.results.seeds import Driver, SeedComparison, SeedRow, SeedTable, compare_seeds
from pumice.sim.results.statistics import Distribution, jain, percentile
from pumice.sim.results.summary import Figures, LeftJob, ReasonCount, Summary, Utilisation, summarise

__all__ = [
    "Change",
    "Comparison",
    "Distribution",
    "Driver",
    "Effect",
    "EvictionRecord",
    "Figures",
    "Interval",
    "JobRecord",
    "LeftJob",
    "MetricRow",
    "MetricTable",
    "Mover",
    "Movers",
    "NodeRecord",
    "Origin",
    "PodRecord",
    "QueueRecord",
    "ReasonCount",
    "RecordedReason",
    "RunRecord",
    "Sample",
    "SeedComparison",
    "SeedRow",
    "SeedTable",
    "Summary",
    "Utilisation",
    "Verdict",
    "compare",
    "compare_seeds",
    "decode",
    "encode",
    "jain",
    "percentile",
    "summarise",
]
