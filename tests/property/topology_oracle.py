"""Volcano's placement by network topology, slowly and as it is written down: to compare the scheduler with.

Allocate alone, with priority, gang and network-topology-aware; one queue, jobs of different priorities, tasks of a
sub-job alike. What is equally good goes to the smallest name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

TOP = "<top>"


@dataclass
class OracleNode:
    """A node: what it has and what is idle, by resource."""

    name: str
    offers: dict[str, int]
    idle: dict[str, int]
    releasing: dict[str, int] = field(default_factory=dict)
    promised: dict[str, int] = field(default_factory=dict)

    def future(self) -> dict[str, int]:
        return {r: v + self.releasing.get(r, 0) - self.promised.get(r, 0) for r, v in self.idle.items()}


@dataclass
class OracleDomain:
    """A hyper-node."""

    name: str
    tier: int
    parent: str
    nodes: list[str]


@dataclass
class OracleTask:
    """A task: what it asks for, and where it is."""

    name: str
    part: str
    asks: dict[str, int]
    node: str = ""
    held: str = ""
    """``running``, ``placed`` or ``promised``; nothing while it waits."""


@dataclass
class OracleJob:
    """A job, with at most one sub-group policy."""

    name: str
    priority: int
    least: int
    limit: int | None
    tasks: list[OracleTask]
    min_resources: dict[str, int] = field(default_factory=dict)
    parted: bool = False
    part_size: int = 1
    least_parts: int = 0
    part_limit: int | None = None

    def parts(self) -> list[str]:
        return sorted({t.part for t in self.tasks}, key=lambda p: (int(p) if p.isdigit() else 0, p))

    def of(self, part: str) -> list[OracleTask]:
        return [t for t in self.tasks if t.part == part] if self.parted else self.tasks

    def part_ready(self, part: str, also: tuple[str, ...] = ()) -> bool:
        held = ("running", "placed", *also)
        if not self.parted:
            return self.ready(also)
        return sum(t.held in held for t in self.of(part)) >= (self.part_size if part else 1)

    def ready(self, also: tuple[str, ...] = ()) -> bool:
        held = ("running", "placed", *also)
        enough = sum(t.held in held for t in self.tasks) >= self.least
        if not self.parted:
            return enough
        ready = sum(self.part_ready(p, also) for p in self.parts() if p)
        return enough and ready >= self.least_parts


class Oracle:
    """One cycle."""

    def __init__(
        self, nodes: list[OracleNode], domains: list[OracleDomain], weights: dict[str, int], fading: Fraction
    ) -> None:
        self.nodes = {n.name: n for n in nodes}
        top = max((d.tier for d in domains), default=0) + 1
        self.domains = {d.name: d for d in domains}
        self.domains[TOP] = OracleDomain(TOP, top, "", list(self.nodes))
        self.weights, self.fading = weights, fading
        self.idle = {d: self._sum(d, lambda n: n.idle) for d in self.domains}
        self.future = {d: self._sum(d, OracleNode.future) for d in self.domains}
        self.used = {
            d: {r: sum(n.offers[r] - n.idle[r] for n in self._in(d)) for r in ("cpu", "memory")} for d in self.domains
        }

    def _in(self, domain: str) -> Iterator[OracleNode]:
        return (self.nodes[n] for n in self.domains[domain].nodes)

    def _sum(self, domain: str, what: Callable[[OracleNode], dict[str, int]]) -> dict[str, int]:
        return {r: sum(what(n)[r] for n in self._in(domain)) for r in ("cpu", "memory")}

    # -- the tree -----------------------------------------------------------------------------------------------------
    def above(self, domain: str) -> list[str]:
        out = [domain]
        while domain != TOP:
            domain = self.domains[domain].parent or TOP
            out.append(domain)
        return out

    def lca(self, left: str, right: str) -> str:
        if not left or not right:
            return left or right
        return next(d for d in self.above(right) if d in self.above(left))

    def lowest(self, node: str) -> str:
        holding = [d for d in self.domains.values() if node in d.nodes]
        return min(holding, key=lambda d: (d.tier, d.name)).name

    def below(self, domain: str) -> list[str]:
        return [d for d in self.domains if domain in self.above(d)]

    def where(self, tasks: list[OracleTask]) -> str:
        found = ""
        for node in sorted({t.node for t in tasks if t.held}):
            found = self.lca(found, self.lowest(node))
        return found

    # -- network-topology-aware ---------------------------------------------------------------------------------------
    def gradient(self, inside: str, limit: int | None, allocated: str, least: dict[str, int]) -> list[list[str]]:
        if limit is None:
            return [[inside]]
        root = inside
        if allocated:
            allowed = [d for d in self.above(allocated) if self.domains[d].tier <= limit]
            if not allowed:
                return []
            highest = allowed[-1]
            if highest in self.above(inside):
                root = inside
            elif inside in self.above(highest):
                root = highest
            else:
                return []
        tiers: dict[int, list[str]] = {}
        for domain in sorted(self.below(root)):
            tier = self.domains[domain].tier
            fits = any(all(sums[domain][r] >= v for r, v in least.items()) for sums in (self.idle, self.future))
            if tier <= limit and (allocated or fits):
                tiers.setdefault(tier, []).append(domain)
        return [tiers[t] for t in sorted(tiers)]

    def packed(self, domain: str, asks: dict[str, int]) -> Fraction:
        total, counted = Fraction(0), 0
        for r, v in asks.items():
            if not v:
                continue
            offer = sum(n.offers[r] for n in self._in(domain))
            if self.used[domain][r] + v > offer:
                return Fraction(0)
            total += self.weights[r] * Fraction(self.used[domain][r] + v, offer)
            counted += self.weights[r]
        return total / counted if counted else Fraction(0)

    def order(self, tasks: list[OracleTask], domains: list[str]) -> dict[str, Fraction]:
        asks = {r: sum(t.asks.get(r, 0) for t in tasks) for r in ("cpu", "memory")}
        out = {d: self.packed(d, asks) for d in domains}
        best = max(out.values(), default=Fraction(0))
        ties = [d for d, s in out.items() if s == best]
        if len(ties) > 1:
            for d in ties:
                there = sum(t.node in self.domains[d].nodes for t in tasks if t.node)
                out[d] += Fraction(there, len(tasks))
        return {d: s * 100 for d, s in out.items()}

    def scores(
        self, job: OracleJob, task: OracleTask, nodes: list[str], allocated: str, near: bool
    ) -> dict[str, Fraction]:
        if not near:
            out = {}
            tiers = range(min(d.tier for d in self.domains.values()), self.domains[TOP].tier + 1)
            for node in nodes:
                total = weights = Fraction(0)
                for tier in tiers:
                    at = [d.name for d in self.domains.values() if d.tier == tier and node in d.nodes]
                    share = self.fading ** (tier - 1)
                    total += share * (self.packed(at[0], task.asks) if at else 1)
                    weights += share
                out[node] = total / weights
            return out
        if not allocated:
            return dict.fromkeys(nodes, Fraction(0))
        low, high = min(d.tier for d in self.domains.values()), self.domains[TOP].tier
        out = {}
        for node in nodes:
            own = self.lowest(node)
            tier = self.domains[self.lca(own, allocated)].tier
            out[node] = (
                Fraction(1) if own == allocated else Fraction(high - tier, high - low) if high > low else Fraction(0)
            )
        best = max(out.values())
        ties = [n for n, s in out.items() if s == best]
        tasks = job.of(task.part)
        if len(ties) > 1:
            for node in ties:
                there = sum(t.node in self.domains[self.lowest(node)].nodes for t in tasks if t.node)
                out[node] += Fraction(there, len(tasks))
        return out

    # -- allocate -----------------------------------------------------------------------------------------------------
    def run(self, jobs: list[OracleJob]) -> None:
        waiting = sorted(jobs, key=lambda j: -j.priority)
        valid = [j for j in waiting if len(j.tasks) >= j.least and sum(bool(p) for p in j.parts()) >= j.least_parts]
        self.required = {j.name: self.needs(j) for j in valid}
        by_sub_job = {
            j.name: {p: [t for t in j.of(p) if not t.held] for p in (j.parts() if j.parted else [""])} for j in valid
        }
        while valid:
            job = valid.pop(0)
            tasks_left = by_sub_job[job.name]
            if not any(tasks_left.values()):
                continue
            if job.limit is not None or job.parted:
                left = self.job(job, tasks_left)
            else:
                left = dict(tasks_left)
                left[""] = list(tasks_left[""])
                left = left if self.tasks(job, "", left[""], TOP) else None
            if left is not None and job.ready():
                by_sub_job[job.name] = left
                valid.insert(0, job)  # the highest priority goes on

    def job(self, job: OracleJob, tasks_left: dict[str, list[OracleTask]]) -> dict[str, list[OracleTask]] | None:
        for group in self.gradient(
            TOP, job.limit, self.where(job.tasks) if job.limit is not None else "", job.min_resources
        ):
            found: list[tuple[Fraction, str, list[tuple[OracleTask, str, str]], dict[str, list[OracleTask]]]] = []
            for domain in group:
                left = {p: list(tasks) for p, tasks in tasks_left.items()}
                before, score = self.held(job), Fraction(0)
                queue = self.queue(job, left)
                while queue:
                    part = queue.pop(0)
                    done = self.part(job, part, left, domain)
                    if done is None:
                        del left[part]  # it was taken from the heap, and is not put back
                        continue
                    score += done
                    if left[part]:
                        queue = self.queue(job, left, [*queue, part])
                    if job.ready():
                        break
                changed = self.since(job, before)
                if changed and (job.ready() or job.ready(("promised",))):
                    found.append((score, domain, changed, left))
                self.undo(changed)
            if found:
                best = min(found, key=lambda f: (-f[0], -self.there(job, f[1]), f[1]))  # equals: as the scheduler does
                self.redo(best[2])
                return best[3]
        return None

    def needs(self, job: OracleJob) -> list[str]:
        """The sub-jobs that the job needs to become ready, decided when the action begins."""
        if not job.parted:
            return []
        lacking = [p for p in job.parts() if p and not job.part_ready(p)]
        return lacking[: max(job.least_parts - sum(job.part_ready(p) for p in job.parts() if p), 0)]

    def queue(self, job: OracleJob, left: dict[str, list[OracleTask]], among: list[str] | None = None) -> list[str]:
        chosen = [p for p in (job.parts() if job.parted else [""]) if left.get(p) and (among is None or p in among)]
        return sorted(
            chosen, key=lambda p: (p not in self.required[job.name], job.part_ready(p), int(p) if p.isdigit() else 0, p)
        )

    def part(self, job: OracleJob, part: str, left: dict[str, list[OracleTask]], inside: str) -> Fraction | None:
        own = job.part_limit if job.parted and part else job.limit
        limit = own
        allocated = self.where(job.of(part)) if limit is not None else ""
        least = {r: sum(t.asks.get(r, 0) for t in job.of(part) if not t.held) for r in ("cpu", "memory")}
        for group in self.gradient(inside, limit, allocated, least):
            found = []
            for domain in group:
                tasks = list(left[part])
                before = self.held(job)
                if self.tasks(job, part, tasks, domain) and self.since(job, before):
                    found.append((domain, self.since(job, before), tasks))
                self.undo(self.since(job, before))
            if found:
                scores = self.order(job.of(part), [f[0] for f in found])
                domain, changed, tasks = min(found, key=lambda f: (-scores[f[0]], f[0]))
                self.redo(changed)
                left[part] = tasks
                return scores[domain]
        return None

    def tasks(self, job: OracleJob, part: str, tasks: list[OracleTask], domain: str) -> bool:
        own = job.part_limit if job.parted and part else job.limit
        before = self.held(job)
        allocated = self.where(job.of(part)) if own is not None else ""
        while tasks:
            task = tasks.pop(0)
            fit = [n for n in self._in(domain) if all(n.future()[r] >= v for r, v in task.asks.items())]
            if not fit:
                if job.least == len(job.tasks) or (job.part_size if job.parted and part else job.least) >= len(
                    job.of(part)
                ):
                    break
                continue
            now = [n for n in fit if all(n.idle[r] >= v for r, v in task.asks.items())]
            names = sorted(n.name for n in now or fit)
            scores = (
                self.scores(job, task, names, allocated, own is not None) if len(names) > 1 else {names[0]: Fraction(0)}
            )
            node = min(names, key=lambda n: (-scores[n], n))
            self.place(task, node, "placed" if now else "promised")
            if own is not None:
                allocated = self.lca(self.lowest(node), allocated)
            if job.part_ready(part):
                break
        if job.part_ready(part) or job.part_ready(part, ("promised",)):
            return True
        self.undo(self.since(job, before))
        return False

    # -- doing and undoing --------------------------------------------------------------------------------------------
    def place(self, task: OracleTask, node: str, held: str, sign: int = 1) -> None:
        there = self.nodes[node]
        ledger = there.idle if held == "placed" else there.promised
        for r, v in task.asks.items():
            ledger[r] = ledger.get(r, 0) + (-v if held == "placed" else v) * sign
            for name, domain in self.domains.items():
                if node in domain.nodes:
                    self.used[name][r] += v * sign
        task.node, task.held = (node, held) if sign > 0 else ("", "")

    def there(self, job: OracleJob, domain: str) -> int:
        """How many tasks of a job without sub-groups were in a hyper-node before."""
        return 0 if job.parted else sum(t.node in self.domains[domain].nodes for t in job.tasks if t.held)

    def held(self, job: OracleJob) -> set[str]:
        return {t.name for t in job.tasks if t.held}

    def since(self, job: OracleJob, before: set[str]) -> list[tuple[OracleTask, str, str]]:
        return [(t, t.node, t.held) for t in job.tasks if t.held and t.name not in before]

    def undo(self, changed: list[tuple[OracleTask, str, str]]) -> None:
        for task, node, held in changed:
            self.place(task, node, held, -1)

    def redo(self, changed: list[tuple[OracleTask, str, str]]) -> None:
        for task, node, held in changed:
            self.place(task, node, held)
