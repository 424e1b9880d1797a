"""What somebody may see of a survey: taken out before anything is added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from pumice.answers.fairness import Loan, fairness_of, leaves_of, loans_of
from pumice.answers.standing import Standing
from pumice.answers.survey import NodeRow, PluginRow, Survey
from pumice.answers.visibility import A_NODE, OTHERS, Sight, VisibleNames, seen
from pumice.answers.waiting import Amounts, JobRow


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A survey for one reader."""

    now: float
    source: str
    jobs: list[JobRow]
    """Those that he may see."""
    own: dict[str, Amounts]
    """Queue -> what these jobs hold."""
    queues: list[Standing] | None
    """None: he may not see how queues stand."""
    nodes: list[NodeRow] | None
    conf: str
    conf_text: str
    """Nothing for who may not see everything: a conf names queues, nodes and addresses."""
    actions: list[str]
    plugins: list[PluginRow]
    unseen: list[str]

    @property
    def waiting(self) -> list[JobRow]:
        """Those who wait, the longest first."""
        return sorted((row for row in self.jobs if row.waits), key=lambda row: (row.since, row.job))

    def reasons(self) -> list[tuple[str, int]]:
        """Why they wait, the most frequent first."""
        return Counter(row.reason for row in self.jobs if row.waits and row.reason).most_common()

    def loans(self) -> list[Loan]:
        """Who borrows from whom, by resource; the largest part of a resource first."""
        return loans_of(leaves_of(self.queues or ()))

    def fair_in_words(self) -> str:
        """Is the cluster shared as the conf says? Nothing for who may not see how queues stand, or where no queue is
        short and none borrows."""
        if self.queues is None:
            return ""
        found = fairness_of(self.queues, {}, self.actions, self.now, "scheduler")
        return found.text if found.short or found.loans else ""


def seen_by(survey: Survey, sight: Sight) -> View:
    """What somebody may see. Rows that he may not see are not there, so nothing of them is in any sum."""
    jobs = [row for row in survey.jobs if sight.namespaces is None or row.namespace in sight.namespaces]
    own: dict[str, Amounts] = {}
    for row in jobs:
        into = own.setdefault(row.queue, {})
        for resource, amount in row.holds.items():
            into[resource] = into.get(resource, 0) + amount
    unseen = []
    if sight.namespaces is not None:
        unseen.append("jobs of other namespaces: needs the right to list podgroups in the cluster")
    if not sight.queues:
        unseen.append("how queues stand: needs the right to get queues")
    if not sight.nodes:
        unseen.append("nodes: needs the right to list nodes")
    return View(
        now=survey.now,
        source=survey.source,
        jobs=jobs,
        own=own,
        queues=survey.queues if sight.queues else None,
        nodes=survey.nodes if sight.nodes else None,
        conf=survey.conf,
        conf_text=survey.conf_text if sight.namespaces is None and sight.queues and sight.nodes else "",
        actions=survey.actions,
        plugins=[_without_words(row) for row in survey.plugins] if sight.namespaces is not None else survey.plugins,
        unseen=unseen,
    )


def shown_rows(rows: Iterable[JobRow], survey: Survey, sight: Sight) -> list[JobRow]:
    """Rows as they are shown: names in their texts that are not to be seen are taken out."""
    listed = list(rows)
    if sight.namespaces is None and sight.nodes:
        return listed
    names = VisibleNames(frozenset(row.namespace for row in survey.jobs), frozenset(node.name for node in survey.nodes))
    texts = seen([row.text for row in listed], sight, names)
    return [msgspec.structs.replace(row, text=text) for row, text in zip(listed, texts, strict=True)]


def _without_words(row: PluginRow) -> PluginRow:
    """A failure names jobs and nodes: only who may see all of them reads it."""
    return msgspec.structs.replace(row, last="")


__all__ = ["A_NODE", "OTHERS", "View", "seen_by", "shown_rows"]
