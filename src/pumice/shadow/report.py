"""The observations of a shadow: compares the decisions of a candidate with those of the running scheduler, and keeps
the sums."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

Verdict = Literal["same", "elsewhere", "sooner", "later"]
"""The candidate's decision about pods that the running scheduler placed: the same; at the same time on another node;
sooner; or not yet."""
VERDICTS: tuple[Verdict, ...] = ("same", "elsewhere", "sooner", "later")


class ComparedPlacement(msgspec.Struct, kw_only=True):
    """Pods of a job that the running scheduler placed in one go, and what the candidate would have done."""

    at: float
    job: str
    queue: str
    pods: int
    verdict: Verdict
    seconds: float = 0.0
    """How much sooner; 0 for the other verdicts."""
    elsewhere: int = 0
    """Pods that the candidate would have put on another node."""
    nodes: dict[str, int] = {}
    """Node -> pods, as they were placed."""
    wished: dict[str, int] = {}
    """Node -> pods, as the candidate would have placed them."""
    running_says: str = ""
    """Why the job had waited, as its objects say it."""
    candidate_says: str = ""
    """Why the candidate would have let it wait."""


class StillWaiting(msgspec.Struct, kw_only=True):
    """A job that still waits, and that the candidate would have started."""

    job: str
    queue: str
    since: float
    seconds: float
    pods: int
    wished: dict[str, int] = {}
    running_says: str = ""


class Eviction(msgspec.Struct, kw_only=True):
    """Pods that one of the two would evict, and the other not."""

    at: float
    by: Literal["running", "candidate", "both"]
    pods: list[str]
    job: str = ""
    """The schedulers whose pods are compared."""
    beneficiary: str = ""
    action: str = ""


Difference = ComparedPlacement | StillWaiting | Eviction


class ShadowTally(msgspec.Struct, kw_only=True):
    """Sums over a time."""

    jobs: dict[Verdict, int]
    """How many placements of jobs had each verdict."""
    pods: dict[Verdict, int]
    sooner_seconds: float = 0.0
    """All that jobs would have waited less, those that still wait not counted."""
    evicted: int = 0
    """Pods that the running scheduler evicted."""
    evicted_by_both: int = 0
    """... that the candidate would have evicted too."""
    would_evict: int = 0
    """Pods that the candidate would have evicted, and the running scheduler did not. A beneficiary counts once."""


def empty() -> ShadowTally:
    """Nothing yet."""
    return ShadowTally(jobs=dict.fromkeys(VERDICTS, 0), pods=dict.fromkeys(VERDICTS, 0))


class Day(msgspec.Struct, kw_only=True):
    """One day, or what there was of it."""

    began: float
    ended: float
    tally: ShadowTally
    sooner: list[ComparedPlacement]
    """Who gains most."""
    later: list[ComparedPlacement]
    """The jobs that would have waited, the largest first."""
    evictions: list[Eviction]


class Report(msgspec.Struct, kw_only=True):
    """Everything that a shadow has to say."""

    candidate: str
    """The digest of the candidate conf."""
    beside: str
    """Beside whom: the schedulers' names, or the simulated configuration."""
    began: float
    ended: float
    cycles: int
    cpu_seconds: float
    """What deciding cost."""
    total: ShadowTally
    waiting: list[StillWaiting]
    """The jobs that still wait, the longest first."""
    days: list[Day]
    recent: list[ComparedPlacement]
    """The last differences, the newest first."""

    @property
    def share_of_core(self) -> float:
        """The part of a core that deciding took."""
        return self.cpu_seconds / (self.ended - self.began) if self.ended > self.began else 0.0

    @property
    def agreement(self) -> float | None:
        """The part of the placements that are the same, None if there was none."""
        jobs = sum(self.total.jobs.values())
        return self.total.jobs["same"] / jobs if jobs else None


AT_ONCE: Final = 3.0
"""Seconds within which two schedulers that each run a cycle a second decide at the same time."""
TOGETHER: Final = 10.0
"""Pods of a job that are placed within so many seconds of each other are one placement."""
DAY: Final = 86_400.0
MOST_DAYS: Final = 400
MOST_AFFECTED: Final = 5
RECENT: Final = 1000


@dataclass(frozen=True, slots=True)
class Wish:
    """A pod that the candidate would place."""

    pod: str
    uid: str
    job: str
    queue: str
    node: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Pods that the candidate would evict for a job."""

    beneficiary: str
    action: str
    pods: tuple[str, ...]
    """Their UIDs."""
    names: tuple[str, ...]


@dataclass(slots=True)
class Decision:
    """The decisions of the candidate at one instant."""

    at: float
    wishes: dict[str, Wish] = field(default_factory=dict)
    """By the pods' UIDs."""
    plans: list[Plan] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Done:
    """The placements of one job's pods by the running scheduler."""

    job: str
    queue: str
    nodes: Mapping[str, str]
    """UID -> node."""
    running_says: str = ""
    candidate_says: str = ""


@dataclass(slots=True)
class _Sum:
    """The sums of a day."""

    began: float
    tally: ShadowTally = field(default_factory=empty)
    sooner: list[ComparedPlacement] = field(default_factory=list)
    later: list[ComparedPlacement] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)

    def closed(self, ended: float) -> Day:
        return Day(
            began=self.began,
            ended=ended,
            tally=self.tally,
            sooner=heapq.nlargest(MOST_AFFECTED, self.sooner, key=lambda p: (p.seconds, p.pods)),
            later=heapq.nlargest(MOST_AFFECTED, self.later, key=lambda p: p.pods),
            evictions=self.evictions[:RECENT],
        )


class Ledger:
    """The decisions of both, compared one by one. One thread owns it."""

    def __init__(self, candidate: str, beside: str, began: float) -> None:
        self._candidate, self._beside, self._began = candidate, beside, began
        self.cycles = 0
        self.cpu_seconds = 0.0
        self._first: dict[str, tuple[float, Wish]] = {}
        """UID -> when the candidate would have placed the pod, and where; until it is placed or gone."""
        self._last = Decision(began)
        self._planned: dict[str, str] = {}
        """Beneficiary -> one plan counts for each, until it is placed."""
        self._fresh: list[tuple[float, Plan]] = []
        """Plans that the running scheduler may be carrying out at this moment."""
        self._done: set[str] = set()
        """Pods that were evicted since the first of these."""
        self._victims: set[str] = set()
        """Pods that only the candidate would have evicted."""
        self._recent: deque[ComparedPlacement] = deque(maxlen=RECENT)
        self._open: dict[str, ComparedPlacement] = {}
        self._total = empty()
        self._day = _Sum(began)
        self._days: deque[Day] = deque(maxlen=MOST_DAYS)

    # -- what happens -----------------------------------------------------------------------------------------------
    def is_news(self, placed: Iterable[str], evicted: Iterable[str]) -> bool:
        """Whether the candidate has to be asked before it is known what it says to what was done (UIDs of pods)."""
        wanted = self._wanted(self._last)
        return any(uid not in self._first for uid in placed) or any(uid not in wanted for uid in evicted)

    def ahead(self, uids: Iterable[str], now: float) -> float:
        """How long ago the candidate would have placed the first of these pods, in seconds; 0 if it would not."""
        known = [self._first[uid][0] for uid in uids if uid in self._first]
        return now - min(known) if known else 0.0

    def judge(
        self, before: Decision, done: Sequence[Done], evicted: Sequence[tuple[str, str, str]]
    ) -> list[Difference]:
        """Compare what was done since the last decision, and (UID, pod, job) that were evicted.

        *before*: what the candidate says to the cluster of now, had nothing of that been done; it counts where there is
        no earlier word. Returns the differences.
        """
        now = before.at
        while now >= self._day.began + DAY:
            end = self._day.began + DAY
            self._days.append(self._day.closed(end))
            self._day = _Sum(end)
        found: list[Difference] = [placed for one in done if (placed := self._placed(before, one)) is not None]
        found += self._evicted(before, evicted)
        for job in [job for job, placed in self._open.items() if now - placed.at > TOGETHER]:
            del self._open[job]
        return found

    def take(self, decision: Decision) -> list[Difference]:
        """Take what the candidate would do now; returns the evictions that nobody else carried out."""
        self.cycles += 1
        for uid, wish in decision.wishes.items():
            self._first.setdefault(uid, (decision.at, wish))
        self._last = decision
        found: list[Difference] = list(self._plans(decision))
        return found

    def forget(self, uids: Iterable[str]) -> None:
        """Pods that are gone, or placed."""
        for uid in uids:
            self._first.pop(uid, None)
            self._victims.discard(uid)

    def _placed(self, before: Decision, done: Done) -> ComparedPlacement | None:
        """The candidate's verdict on a placement, once: pods that follow soon are added to it."""
        now, uids = before.at, done.nodes
        wished = {uid: self._wish(before, uid) for uid in uids}
        ahead = self.ahead(uids, now)
        nodes = Counter(uids.values())
        places = Counter(wish.node for wish in wished.values() if wish is not None)
        elsewhere = places.total() - (nodes & places).total()  # pods of a job are alike: which of them is where is one
        verdict: Verdict
        if ahead > AT_ONCE:
            verdict = "sooner"
        elif not any(wished.values()):
            verdict = "later"
        else:
            verdict = "elsewhere" if elsewhere else "same"
        self._planned.pop(done.job, None)
        earlier = self._open.get(done.job)
        if earlier is not None and now - earlier.at <= TOGETHER:
            self._add(earlier, len(uids), elsewhere, verdict)
            for counts, more in ((earlier.nodes, nodes), (earlier.wished, places)):
                for node, count in more.items():
                    counts[node] = counts.get(node, 0) + count
            return None
        placed = ComparedPlacement(
            at=now,
            job=done.job,
            queue=done.queue,
            pods=len(uids),
            verdict=verdict,
            seconds=round(ahead, 3) if verdict == "sooner" else 0.0,
            elsewhere=elsewhere,
            nodes=dict(nodes),
            wished=dict(places),
            running_says=done.running_says if verdict == "sooner" else "",
            candidate_says=done.candidate_says if verdict == "later" else "",
        )
        self._open[done.job] = placed
        for tally in (self._total, self._day.tally):
            tally.jobs[verdict] += 1
            tally.pods[verdict] += placed.pods
            tally.sooner_seconds += placed.seconds
        if verdict == "same":
            return None
        self._recent.append(placed)
        if verdict in ("sooner", "later"):
            listed = self._day.sooner if verdict == "sooner" else self._day.later
            listed.append(placed)
            if len(listed) > RECENT:
                listed.remove(min(listed, key=lambda p: (p.seconds, p.pods)))
        return placed

    def _wish(self, before: Decision, uid: str) -> Wish | None:
        """The candidate's node for the pod: as it last said, else as it says for a new pod."""
        found = self._last.wishes.get(uid)
        if found is None and uid in self._first:
            found = self._first[uid][1]
        return found if found is not None else before.wishes.get(uid)

    def _add(self, placed: ComparedPlacement, pods: int, elsewhere: int, verdict: Verdict) -> None:
        """More pods of a placement that is counted already; that they are elsewhere can turn agreement around."""
        before = placed.verdict
        placed.pods += pods
        placed.elsewhere += elsewhere
        if before == "same" and verdict == "elsewhere":
            placed.verdict = "elsewhere"
            self._recent.append(placed)
        for tally in (self._total, self._day.tally):
            if placed.verdict != before:
                tally.jobs[before] -= 1
                tally.jobs[placed.verdict] += 1
                tally.pods[before] -= placed.pods - pods
                tally.pods[placed.verdict] += placed.pods - pods
            tally.pods[placed.verdict] += pods

    def _wanted(self, *decisions: Decision) -> set[str]:
        """UIDs of the pods that the candidate would evict, or would have evicted."""
        plans = (*(plan for decision in decisions for plan in decision.plans), *(plan for _, plan in self._fresh))
        return self._victims | {uid for plan in plans for uid in plan.pods}

    def _evicted(self, before: Decision, evicted: Sequence[tuple[str, str, str]]) -> list[Eviction]:
        """The candidate's verdict on evictions: alone, or as it would have done."""
        found, by_job = [], dict[str, list[tuple[str, str]]]()
        for uid, pod, job in evicted:
            by_job.setdefault(job, []).append((uid, pod))
        wanted = self._wanted(self._last, before)
        for job, victims in by_job.items():
            alone = [pod for uid, pod in victims if uid not in wanted]
            for tally in (self._total, self._day.tally):
                tally.evicted += len(victims)
                tally.evicted_by_both += len(victims) - len(alone)
                tally.would_evict -= sum(1 for uid, _ in victims if uid in self._victims)
            if alone:
                found.append(Eviction(at=before.at, by="running", pods=alone, job=job))
        gone = {uid for uid, _, _ in evicted}
        self._victims -= gone
        self._done |= gone
        self._note(found)
        return found

    def _plans(self, decision: Decision) -> list[Eviction]:
        """Plans of the candidate's that the running scheduler had time enough for, and did not carry out."""
        now = decision.at
        for plan in decision.plans:
            if plan.beneficiary not in self._planned:
                self._planned[plan.beneficiary] = plan.action
                self._fresh.append((now, plan))
        found = [e for at, plan in self._fresh if now - at > AT_ONCE for e in self._alone(now, plan)]
        self._fresh = [made for made in self._fresh if now - made[0] <= AT_ONCE]
        if not self._fresh:
            self._done.clear()
        self._note(found)
        return found

    def _note(self, found: Sequence[Eviction]) -> None:
        self._day.evictions += found
        del self._day.evictions[RECENT:]

    def _alone(self, now: float, plan: Plan) -> list[Eviction]:
        known = self._victims | self._done
        left = [(uid, name) for uid, name in zip(plan.pods, plan.names, strict=True) if uid not in known]
        if not left:
            return []
        self._victims.update(uid for uid, _ in left)
        for tally in (self._total, self._day.tally):
            tally.would_evict += len(left)
        names = [name for _, name in left]
        return [Eviction(at=now, by="candidate", pods=names, beneficiary=plan.beneficiary, action=plan.action)]

    # -- the account ------------------------------------------------------------------------------------------------
    def report(self, now: float, says: Mapping[str, str] | None = None) -> Report:
        """Everything up to now; *says*: why jobs wait, as their objects say it."""
        waiting: dict[str, list[tuple[float, Wish]]] = {}
        for since, wish in self._first.values():
            waiting.setdefault(wish.job, []).append((since, wish))
        still = [
            StillWaiting(
                job=job,
                queue=wishes[0][1].queue,
                since=min(since for since, _ in wishes),
                seconds=round(now - min(since for since, _ in wishes), 3),
                pods=len(wishes),
                wished=dict(Counter(wish.node for _, wish in wishes)),
                running_says=(says or {}).get(job, ""),
            )
            for job, wishes in waiting.items()
        ]
        return Report(
            candidate=self._candidate,
            beside=self._beside,
            began=self._began,
            ended=now,
            cycles=self.cycles,
            cpu_seconds=round(self.cpu_seconds, 4),
            total=self._total,
            waiting=sorted((w for w in still if w.seconds > AT_ONCE), key=lambda w: (-w.seconds, w.job)),
            days=[*self._days, self._day.closed(now)],
            recent=list(reversed(self._recent)),
        )
