"""minruntime: what has just begun is left alone for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pumice.config.durations import parse_duration
from pumice.errors import InvalidInput
from pumice.framework.arguments import Argument, Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.search.scenarios import VictimScenario
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView, diverge
from pumice.kai.view.tasks import USED, TaskView
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.kai import KaiQueueSpec

LCA, QUEUE = "lca", "queue"


def _seconds(arguments: Arguments, key: str, _: float) -> float:
    text = arguments.get(key, "0s") or "0s"
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    try:
        return parse_duration(str(text), days=True) / 1e9
    except InvalidInput as exc:
        raise InvalidInput(f"minruntime: argument {key}: {exc}") from exc


class MinRuntime(Plugin):
    """Jobs that started too short a time ago are not evicted below their minimum.

    How long is too short is said by queues, nearest first, or by ``defaultPreemptMinRuntime`` and
    ``defaultReclaimMinRuntime``. ``reclaimResolveMethod``: where to begin looking, at the queue where the two parties
    part (``lca``) or at the victim's own (``queue``).
    """

    name = "minruntime"
    persistent = True
    preempt = Argument(0.0, "If no queue says one.", name="defaultPreemptMinRuntime", values="duration", read=_seconds)
    reclaim = Argument(0.0, "If no queue says one.", name="defaultReclaimMinRuntime", values="duration", read=_seconds)
    method = Argument(
        LCA,
        "Where the search begins: where the chains of the two queues part, or at the queue of the victim.",
        name="reclaimResolveMethod",
        choices=(LCA, QUEUE, ""),
    )

    def on_session_open(self, ssn: Session) -> None:
        """Protect victims of both actions."""
        self._world: KaiWorld = world_of(ssn)
        self._known: dict[tuple[str, str], float] = {}
        ssn.add_reclaim_victim_filter_fn(self.name, self._may_be_reclaimed)
        ssn.add_preempt_victim_filter_fn(self.name, self._may_be_preempted)
        ssn.add_reclaim_scenario_validator_fn(self.name, self._reclaim_valid)
        ssn.add_preempt_scenario_validator_fn(self.name, self._preempt_valid)

    def preempt_time(self, victim: QueueView) -> float:
        """Seconds for which work of a queue is not preempted."""
        return _nearest(victim, "preempt_min_runtime", self.preempt)

    def reclaim_time(self, reclaimer: QueueView, victim: QueueView) -> float:
        """Seconds for which work of one queue is not reclaimed by another."""
        pair = (reclaimer.name, victim.name)
        known = self._known.get(pair)
        if known is None:
            start = start_of(self.method or LCA, reclaimer, victim)
            known = self._known[pair] = _nearest(start, "reclaim_min_runtime", self.reclaim)
        return known

    def _protected(self, victim: JobView, seconds: float) -> bool:
        start = victim.last_start
        if start is None or self._world.now >= start + seconds:
            return False
        self._world.ssn.wake_at(start + seconds)
        return True

    def _may_be_reclaimed(self, job: JobView, victim: JobView) -> bool:
        return not self._protected(victim, self.reclaim_time(job.queue, victim.queue)) or victim.elastic

    def _may_be_preempted(self, job: JobView, victim: JobView) -> bool:
        return not self._protected(victim, self.preempt_time(victim.queue)) or victim.elastic

    def _reclaim_valid(self, scenario: VictimScenario) -> bool:
        mine = scenario.job.queue
        return all(self._keeps(v, gone, self.reclaim_time(mine, v.queue)) for v, gone in scenario.by_job())

    def _preempt_valid(self, scenario: VictimScenario) -> bool:
        return all(self._keeps(v, gone, self.preempt_time(v.queue)) for v, gone in scenario.by_job())

    def _keeps(self, victim: JobView, gone: Sequence[TaskView], seconds: float) -> bool:
        """Report whether a protected job keeps its minimum in place. A pod that is moved would begin anew."""
        if not self._protected(victim, seconds):
            return True
        lost = Counter(t.podset.name for t in gone)
        sets = (p for p in victim.whole.pod_sets() if lost[p.name])
        return all(p.count(USED) - lost[p.name] >= p.minimum for p in sets)


def start_of(method: str, reclaimer: QueueView, victim: QueueView) -> QueueView:
    """The queue from which on the time is looked for, upwards."""
    return diverge(reclaimer, victim)[1] if method == LCA else victim


def _nearest(queue: QueueView, field: str, default: float) -> float:
    for each in queue.chain():
        spec = each.queue.object.spec
        text = getattr(spec, field) if isinstance(spec, KaiQueueSpec) else ""
        if text:
            try:
                return parse_duration(text, days=True) / 1e9
            except InvalidInput:
                continue
    return default
