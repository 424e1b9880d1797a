"""The settings of a scheduler of KAI, and the account of past use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pumice.config.cron import CronSchedule
from pumice.config.durations import parse_duration
from pumice.kai.view.queues import NOTHING, Amounts
from pumice.model.keys import CPU_WORKER, GPU_WORKER, KAI_QUEUE_LABEL, NODE_POOL_LABEL

WEEK: Final = 7 * 86400.0
PORTIONS: Final = 200
"""So many portions a window has."""
_AGES: Final = 1e11
"""More seconds than any window has."""


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """How past use counts."""

    window: float = WEEK
    """Seconds that are looked back on."""
    tumbling: bool = False
    """Whether windows follow each other, each beginning with nothing, or one slides along."""
    start: float = 0.0
    """When a tumbling window began, whichever."""
    half_life: float = 0.0
    """Seconds after which use counts half; 0: it counts fully as long as it is in the window."""
    cron: CronSchedule | None = None
    """When windows begin, whatever their length; None: they have one."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> UsageSettings:
        """As a conf of KAI writes it."""
        began = given.get("tumblingWindowStartTime")
        return cls(
            window=_seconds(given.get("windowSize", "168h")),
            tumbling=given.get("windowType") == "tumbling",
            start=began.timestamp() if isinstance(began, datetime) else _time(str(began)) if began else 0.0,
            half_life=_seconds(given.get("halfLifePeriod", "0s")),
            cron=CronSchedule.parse(str(given["cronString"])) if given.get("windowType") == "cron" else None,
        )

    @property
    def width(self) -> float:
        """Seconds of a portion. A window by cron needs portions only where use fades."""
        if self.cron is None:
            return self.window / PORTIONS
        return self.half_life / 8 if self.half_life else _AGES

    def begin(self, now: float) -> float:
        """When the window that we are in began; what has faded long ago is not of it."""
        if self.cron is None:
            return now - (now - self.start) % self.window if self.tumbling else now - self.window
        return max(self.origin(now), now - 64 * self.half_life if self.half_life else -math.inf)

    def origin(self, now: float) -> float:
        """A time at which a portion begins."""
        began = self.cron.last(now) if self.cron is not None else None
        return began if began is not None else self.start


class UsageAccount:
    """The account, in a memory that outlives the session."""

    def __init__(self, memory: dict[str, Any], settings: UsageSettings) -> None:
        self._memory, self._settings = memory, settings
        self._portions: list[list[Any]] = memory.setdefault("portions", [])
        """[begin, what the cluster could give, queue -> what it held], amounts times seconds."""

    def update(self, now: float, held: Mapping[str, Amounts], offered: Amounts) -> dict[str, Amounts]:
        """The use since the last session is booked; queue -> its part of the total, 0 to 1."""
        memory, begin = self._memory, self._settings.begin(now)
        before = memory.get("at", now)
        if now > before:
            self._book(max(before, begin), now, memory.get("held") or {}, memory.get("offered") or NOTHING)
        memory["at"], memory["offered"] = now, list(offered)
        memory["held"] = {name: list(amounts) for name, amounts in held.items() if any(amounts)}
        while self._portions and self._portions[0][0] < begin - 1e-6:
            del self._portions[0]
        return self._shares(now)

    def _book(self, begin: float, end: float, held: Mapping[str, Any], offered: Any) -> None:
        width, origin = self._settings.width, self._settings.origin(end)
        first = math.floor((begin - origin) / width)
        last = math.floor((end - origin) / width)
        for number in range(first, last + 1):
            at = origin + number * width
            seconds = min(end, at + width) - max(begin, at)
            if seconds <= 0:
                break
            if not self._portions or self._portions[-1][0] < at:
                self._portions.append([at, [0.0, 0.0, 0.0], {}])
            _, could, sums = self._portions[-1]
            _add(could, offered, seconds)
            for name, amounts in held.items():
                _add(sums.setdefault(name, [0.0, 0.0, 0.0]), amounts, seconds)

    def _shares(self, now: float) -> dict[str, Amounts]:
        half, width = self._settings.half_life, self._settings.width
        could = [0.0, 0.0, 0.0]
        sums: dict[str, list[float]] = {}
        for begin, offered, held in self._portions:
            weight = 0.5 ** (max(now - begin - width / 2, 0.0) / half) if half else 1.0
            _add(could, offered, weight)
            for name, amounts in held.items():
                _add(sums.setdefault(name, [0.0, 0.0, 0.0]), amounts, weight)
        return {
            name: (_part(mine[0], could[0]), _part(mine[1], could[1]), _part(mine[2], could[2]))
            for name, mine in sums.items()
        }


def _add(sums: list[float], amounts: Any, times: float) -> None:
    for n in range(3):
        sums[n] += amounts[n] * times


def _part(held: float, offered: float) -> float:
    return held / offered if offered > 0 else 0.0


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@dataclass(frozen=True, slots=True)
class KaiSettings:
    """The parameters of a scheduler of KAI."""

    max_consolidation_preemptees: int = 16
    """Jobs that consolidation looks at as victims; 0 switches it off, -1 is without limit."""
    consolidating_reclaim: bool = True
    """Whether victims of reclaim that get another place do not count as reclaimed."""
    signatures: bool = True
    """Whether jobs are skipped that are like one that could not be helped."""
    staleness_grace: float = 60.0
    """Seconds after which a stale gang is evicted; below 0: never."""
    stuck_after: float = 120.0
    """Seconds beyond its deletion time after which a running pod is taken to be stuck."""
    restrict_nodes: bool = False
    """Whether only nodes labelled as workers are used: tasks with GPUs on some, all others on the others."""
    queue_label: str = KAI_QUEUE_LABEL
    """The label of shared device claims that names their queue."""
    full_hierarchy: bool = True
    """Whether the tree of queues is used as it is, or only its leaves."""
    pool_label: str = NODE_POOL_LABEL
    pool: str | None = None
    """Only nodes, queues and jobs with this value of the label are seen; "": those without the label; None: all."""
    depth: Mapping[str, int] = field(default_factory=dict)
    """Action -> how many jobs of a queue it looks at."""
    gpu_memory: tuple[int | None, int | None] | None = None
    """The smallest and the largest GPU memory in MiB; None: as the nodes tell."""
    budgets: Mapping[str, Any] = field(default_factory=dict)
    """The budget of a search for victims, in seconds."""
    usage: UsageSettings | None = None
    """How past use is counted; None: not at all."""
    minted: int = 0
    """How many shared GPUs got names before; those of this session get others."""

    def in_pool(self, labels: Mapping[str, str]) -> bool:
        """Report whether an object with these labels is of our pool of nodes."""
        return self.pool is None or labels.get(self.pool_label, "") == self.pool

    def sees(self, labels: Mapping[str, str]) -> bool:
        """Report whether a node with these labels is one of ours: of our pool, and a worker if only workers are
        used."""
        return self.in_pool(labels) and (not self.restrict_nodes or GPU_WORKER in labels or CPU_WORKER in labels)


def settings_of(conf: Mapping[str, Any], environment: Mapping[str, Any]) -> KaiSettings:
    """The settings of a conf, and of the surroundings of a session; KAI's defaults for the rest."""
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
