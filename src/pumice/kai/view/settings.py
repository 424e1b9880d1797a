"""What KAI takes as flags of its scheduler, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pumice.config.durations import parse_duration
from pumice.kai.view.stage import TaskStage
from pumice.kai.view.usage import UsageSettings
from pumice.model.keys import CPU_WORKER, GPU_WORKER, KAI_QUEUE_LABEL, NODE_POOL_LABEL


@dataclass(frozen=True, slots=True)
class KaiSettings:
    """The parameters of a scheduler of KAI."""

    max_consolidation_preemptees: int = 16
    """Jobs that consolidation looks at as victims; 0 switches it off, -1 is without limit."""
    consolidating_reclaim: bool = True
    """Do victims of reclaim that get another place not count as reclaimed?"""
    signatures: bool = True
    """Are jobs passed by that are like one which could not be helped?"""
    staleness_grace: float = 60.0
    """Seconds after which a stale gang is evicted; below 0: never."""
    stuck_after: float = 120.0
    """Seconds beyond its deletion time after which a running pod is taken to be stuck."""
    restrict_nodes: bool = False
    """Are only nodes used that are labelled as workers: tasks with GPUs on some, all others on the others?"""
    queue_label: str = KAI_QUEUE_LABEL
    """The label of shared device claims that names their queue."""
    full_hierarchy: bool = True
    """Is the tree of queues used as it is, or only its leaves?"""
    pool_label: str = NODE_POOL_LABEL
    pool: str | None = None
    """Only nodes, queues and jobs with this value of the label are seen; "": those without the label; None: all."""
    depth: Mapping[str, int] = field(default_factory=dict)
    """Action -> how many jobs of a queue it looks at."""
    gpu_memory: tuple[int | None, int | None] | None = None
    """The smallest and the largest GPU memory in MiB; None: as the nodes tell."""
    budgets: Mapping[str, Any] = field(default_factory=dict)
    """What a search for victims may cost, in seconds."""
    usage: UsageSettings | None = None
    """How past use is counted; None: not at all."""
    minted: int = 0
    """How many shared GPUs got names before; those of this session get others."""
    initial: Mapping[str, tuple[TaskStage, str]] = field(default_factory=dict)
    """Pod -> a stage and a node that no object can express."""

    def in_pool(self, labels: Mapping[str, str]) -> bool:
        """Is something with these labels of our pool of nodes?"""
        return self.pool is None or labels.get(self.pool_label, "") == self.pool

    def sees(self, labels: Mapping[str, str]) -> bool:
        """Is a node with these labels one of ours: of our pool, and a worker where only workers are used?"""
        return self.in_pool(labels) and (not self.restrict_nodes or GPU_WORKER in labels or CPU_WORKER in labels)


def settings_of(conf: Mapping[str, Any], environment: Mapping[str, Any]) -> KaiSettings:
    """What a conf sets, and what the surroundings of a session say; KAI's defaults for the rest."""
    given = conf.get("schedulerParams") or {}
    found: dict[str, Any] = {name: given[key] for key, name in _FLAGS.items() if key in given}
    if "globalDefaultStalenessGracePeriod" in given:
        found["staleness_grace"] = _seconds(given["globalDefaultStalenessGracePeriod"])
    if "stuckInReleasingThreshold" in given and (stuck := _seconds(given["stuckInReleasingThreshold"])) > 0:
        found["stuck_after"] = stuck
    found["depth"] = conf.get("queueDepthPerAction") or {}
    found["budgets"] = {key: _seconds(value) for key, value in (conf.get("scenarioSearchBudgets") or {}).items()}
    if "usageDBConfig" in conf:
        found["usage"] = UsageSettings.of((conf["usageDBConfig"] or {}).get("usageParams") or {})
    return KaiSettings(**(found | (environment.get("kai") or {})))


def _seconds(value: Any) -> Any:
    """A duration, or a table of them, in seconds."""
    if isinstance(value, Mapping):
        return {key: _seconds(each) for key, each in value.items()}
    return parse_duration(str(value), days=True) / 1e9


_FLAGS = {
    "maxNumberConsolidationPreemptees": "max_consolidation_preemptees",
    "allowConsolidatingReclaim": "consolidating_reclaim",
    "useSchedulingSignatures": "signatures",
    "restrictSchedulingNodes": "restrict_nodes",
    "queueLabelKey": "queue_label",
    "fullHierarchyFairness": "full_hierarchy",
    "nodePoolLabelKey": "pool_label",
    "nodePoolLabelValue": "pool",
}
