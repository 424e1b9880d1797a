"""resourcequota: a job is let in only while the ResourceQuotas of its namespace have room for its minimum."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from pumice.errors import InvalidInput
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model import quantity
from pumice.model.api import ResourceList
from pumice.model.job import Job
from pumice.model.limit import Bound, Limit
from pumice.model.reason import Verdict, reject


class ResourceQuotas(Plugin):
    """Rejects a job whose minResources, with used and admitted amounts, exceed a quota of its namespace.

    Names are compared as they are written (``cpu`` is not ``requests.cpu``); scopes are not looked at.
    """

    name = "resourcequota"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn
        self._admitted: dict[str, dict[str, int]] = {}
        ssn.add_job_enqueueable_fn(self.name, self._enqueueable, key=_same_question)
        ssn.add_job_enqueued_fn(self.name, self._enqueued)

    def _enqueueable(self, job: Job) -> Verdict | bool:
        minimum = _minimum(job)
        quotas = self._ssn.state.namespace(job.namespace).quotas
        if not minimum or not quotas:
            return True
        admitted = self._admitted.get(job.namespace, {})
        for _, quota in sorted(quotas.items()):
            hard = _milli(quota.status.hard)
            used = _milli(quota.status.used)
            limits = tuple(
                Limit(
                    *(f"ResourceQuota {quota.key}", name, used.get(name, 0) / 1000, hard[name] / 1000, Bound.QUOTA),
                    *(minimum[name] / 1000, admitted.get(name, 0) / 1000),
                )
                for name in sorted(minimum.keys() & hard.keys())
                if used.get(name, 0) + admitted.get(name, 0) + minimum[name] > hard[name]
            )
            if limits:
                asked = _written(minimum, minimum.keys() & hard.keys())
                held, most = _written(used, hard.keys()), _written(hard, hard.keys())
                text = f"resource quota insufficient, requested: {asked}, used: {held}, limited: {most}"
                return reject(f"{text} (quota {quota.metadata.name})", advice=limits[0].advice, limits=limits)
        return True

    def _enqueued(self, job: Job) -> None:
        admitted = self._admitted.setdefault(job.namespace, {})
        for name, amount in _minimum(job).items():
            admitted[name] = admitted.get(name, 0) + amount


def _same_question(job: Job) -> Hashable:
    return job.namespace, tuple(sorted(_minimum(job).items()))


def _minimum(job: Job) -> dict[str, int]:
    """The job's minimum as it is written, in thousandths."""
    return _milli(job.group.spec.min_resources if job.group is not None else None)


def _milli(written: ResourceList | None) -> dict[str, int]:
    """Written amounts in thousandths; what is no quantity is left out (the state has named it as a problem)."""
    out = {}
    for name, amount in (written or {}).items():
        try:
            out[name] = quantity.milli(amount)
        except InvalidInput:
            continue
    return out


def _written(amounts: Mapping[str, int], names: Iterable[str]) -> str:
    return ",".join(f"{n}={amounts.get(n, 0) / 1000:g}" for n in sorted(names))
