"""What a run gave: its record, the figures made from it, and the comparison of several runs.

The way of the data: the simulator fills a ``RunRecord`` (``records``) with facts only; ``summarise`` turns it into
figures (``statistics``, ``summary``), ``timeline`` into what happened over time, and ``compare`` sets runs side by
side. Everything that can be derived is derived here, so that each figure has one definition. Nothing here draws or
prints; that is ``pumice.sim.report``.
"""

from pumice.sim.results.comparison import Change, Comparison, MetricRow, MetricTable, Mover, Movers, compare
from pumice.sim.results.records import (
    EvictionRecord,
    JobRecord,
    NodeRecord,
    PodRecord,
    QueueRecord,
    Reason,
    RunRecord,
    Sample,
    decode,
    encode,
)
from pumice.sim.results.statistics import Distribution, jain, percentile
from pumice.sim.results.summary import Figures, ReasonCount, Summary, Utilisation, summarise

__all__ = [
    "Change",
    "Comparison",
    "Distribution",
    "EvictionRecord",
    "Figures",
    "JobRecord",
    "MetricRow",
    "MetricTable",
    "Mover",
    "Movers",
    "NodeRecord",
    "PodRecord",
    "QueueRecord",
    "Reason",
    "ReasonCount",
    "RunRecord",
    "Sample",
    "Summary",
    "Utilisation",
    "compare",
    "decode",
    "encode",
    "jain",
    "percentile",
    "summarise",
]
