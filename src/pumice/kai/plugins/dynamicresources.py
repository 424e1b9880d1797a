"""dynamicresources: a task goes where the devices of its claims are, or can be had."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.framework.arguments import Argument, Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.search.placing import WorldRows
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.reason import PASS, Verdict, reason_id, reject
from pumice.plugins.predicates.devices import MOST_USERS

Reasons = npt.NDArray[np.int32]
NONE_THERE: Final = reason_id("dynamicresources", "cannot allocate all claims")


class DynamicResources(Plugin):
    """Chooses devices for claims while a node is looked at, so that a task without them is not placed."""

    name = "dynamicresources"
    persistent = True
    kept = Argument(10, "Has no effect: every selector is kept.", name="maxCelCacheEntries", read=Arguments.get)

    def on_session_open(self, ssn: Session) -> None:
        """Look at claims, where there are any."""
        self._world: KaiWorld = world_of(ssn)
        self._world.serves_claims = True
        ssn.add_pre_predicate_fn(self.name, self._possible)
        claims = self._world.claims
        if claims is not None:
            self._world.steady[self._fits] = lambda task: not task.task.klass.spec.resource_claims
            ssn.add_batch_predicate_fn(self.name, self._fits)
            ssn.prepare_binds(claims.choices)

    def _possible(self, task: TaskView) -> Verdict:
        task = self._world.task_of(task)
        entries = task.task.klass.spec.resource_claims
        if not entries:
            return PASS
        claims = self._world.claims
        if claims is None:
            return reject("its resource claims do not exist")
        full = next((held for held in claims.of(task.task) if held.is_full_for(task.uid)), None)
        if full is not None:
            return reject(f"resource claim {full.claim.key} has reached its maximum number of consumers ({MOST_USERS})")
        why_not = claims.refusal(task.task)
        if why_not:
            return reject(why_not)
        shared = {e.resource_claim_name for e in entries if e.resource_claim_name is not None}
        queue = task.job.queue.name
        for held in claims.of(task.task):
            meta = held.claim.metadata
            said = (meta.labels or {}).get(self._world.settings.queue_label, "")
            if held.gpus and meta.name in shared and said != queue:
                return reject(
                    f"pod {task.task.key} cannot be scheduled: DRA claim {meta.name} is a shared GPU claim "
                    f"with wrong queue label (expected queue: {queue}, claim queue label: {said})"
                )
        return PASS

    def _fits(self, task: TaskView, rows: WorldRows) -> Reasons:
        task, claims = self._world.task_of(task), self._world.claims
        if claims is None or not task.task.klass.spec.resource_claims:
            return np.zeros(len(rows), dtype=np.int32)
        return np.array([0 if claims.fit(task.task, node) else NONE_THERE for node in rows.nodes], dtype=np.int32)
