"""A drawn cluster, cycle after cycle, with every law checked after each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from fingerprint import fingerprint
from law_confs import Policy, assembly_of, first_tier
from law_worlds import OUTSIDE, Drawn, Happening, JobDraw, WorldDraw, domain_of, made, node_object, parent_name

from pumice.engine.hypernodes import places_of
from pumice.framework.registry import default_registry
from pumice.framework.session.rounds import copied
from pumice.framework.session.runtime import Runtime
from pumice.model.api import Pod
from pumice.model.events import ClusterEvent, Seen
from pumice.model.intents import Bind, Evict, Nominate
from pumice.model.resources import dim_name
from pumice.model.status import IS_READY, TaskStatus
from pumice.saved.cycle import devices_of, hold_devices
from pumice.saved.files import dump, parse
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.recording import decisions_of, record, replay
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing.world import World

S = TaskStatus
DECISIONS = (Bind, Evict, Nominate)


def traces(state: ClusterState) -> dict[str, Any]:
    """All of the state but the devices that pods are on: what left before them decides that."""
    return {what: told for what, told in fingerprint(state).items() if what != "devices"}


def job_of(pod: str) -> str:
    """The job of a pod, by its name."""
    return pod.rpartition("-")[0]


class Story:
    """One drawn cluster under one policy; what is decided is carried out, and evicted pods may come back."""

    def __init__(
        self, draw: WorldDraw, policy: Policy, *, compat: str | None = None, recreate: bool = False, grace: int = 0
    ) -> None:
        """*grace*: so many cycles see an evicted pod terminating before it is gone."""
        self.draw, self.policy, self.compat = draw, policy, compat
        self.drawn: Drawn = made(draw, tree=policy.tree)
        self.assembly = assembly_of(policy, compat)
        self.world, self.state, self.runtime = World(recreate=recreate, grace=grace), ClusterState(), Runtime()
        for obj in self.drawn.objects:
            self.tell(self.world.put(obj))
        self.owed: dict[str, str] = {}
        """Pods for which somebody was evicted in the last cycle -> the node that was freed."""
        self.grace = grace
        self.leaving: dict[str, str] = {}
        """Evicted pods that are still there -> the job for which they were evicted."""
        self.cycles = 0

    def tell(self, events: list[ClusterEvent]) -> None:
        self.state.apply_all(events)

    def happens(self, event: Happening) -> None:
        """Something happens in the cluster; what was promised before it may not be had any more."""
        self.owed, self.leaving = {}, {}
        running = sorted(o.key for o in self.world.objects if isinstance(o, Pod) and o.status.phase == "Running")
        if event.what == "resize":
            n = event.which % len(self.draw.nodes)
            self.tell(self.world.put(node_object(n, replace(self.draw.nodes[n], cpu=event.which))))
        elif running:
            pod = running[event.which % len(running)]
            if event.what == "delete":
                self.tell(self.world.pod_deleted(pod))
            else:
                self.tell(self.world.pod_changed(pod, phase=event.what))

    def cycle(self) -> CycleReport:
        """Run one cycle, check the laws, carry out what it decided."""
        self.tell(self.world.settle())
        before = self.state.table.idle.copy()
        held = {name: dict(q.held.amounts) for name, q in self.state.queues.items()}
        again = self.decided_afresh()
        saved = dump(record(self.state, self.assembly.conf, self.runtime)) if self.replays() else None
        report = run_cycle(self.state, self.assembly, self.runtime)
        decided = [i for i in report.intents if isinstance(i, DECISIONS)]
        assert report.errors == []
        assert violations(self.state) == []
        assert decided == again, "a scheduler that starts now decides otherwise"
        if saved is not None:
            replayed = replay(parse(saved), default_registry())
            assert replayed.decisions == decisions_of(report.intents), "its replay from a file decides otherwise"
        self.cycles += 1
        self.nothing_over_committed(before)
        self.no_half_gang(report)
        self.no_queue_above_its_capability(report, held)
        self.closed_queues_get_nothing(report)
        self.victims_were_permitted(report)
        if self.compat is None:
            self.no_job_has_a_second_plan(report)
            self.evictions_help(report)
            self.victims_were_lower(report, held)
            self.hard_topologies_are_kept(report)
        self.tell(self.world.carry_out(report.intents))
        return report

    def decided_afresh(self) -> list[Any]:
        """What a scheduler decides that knows nothing but the objects, the rooms and the devices that are held."""
        state, runtime = ClusterState(), Runtime()
        for obj in self.world.objects:
            state.apply(Seen(obj))
        assert traces(self.state) == traces(state), "what a session did and undid has left a trace"
        hold_devices(state, devices_of(self.state))
        runtime.nominations = {k: replace(n) for k, n in self.runtime.nominations.items()}
        runtime.turns = copied(self.runtime.turns)
        report = run_cycle(state, self.assembly, runtime)
        return [i for i in report.intents if isinstance(i, DECISIONS)]

    def replays(self) -> bool:
        """Is this cycle saved and played again? Some are: the first, when most is decided, and each third one."""
        return self.compat is None and self.cycles % 3 == 0

    # -- laws of one cycle ----------------------------------------------------------------------------------------
    def nothing_over_committed(self, before: Any) -> None:
        table = self.state.table
        now = table.idle[:, : table.size]
        width, height = before.shape[1], before.shape[0]
        for d, row in np.argwhere(now < 0).tolist():
            was = int(before[d, row]) if d < height and row < width else 0
            assert now[d, row] >= was, f"{table.nodes[row]}: {dim_name(d)} over-committed by {-int(now[d, row])}"

    def no_half_gang(self, report: CycleReport) -> None:
        bound: dict[str, int] = {}
        for intent in report.intents:
            if isinstance(intent, Bind):
                bound[intent.job] = bound.get(intent.job, 0) + 1
        for uid, more in bound.items():
            draw = self.drawn.jobs[uid]
            if self.compat and not draw.cpu:
                continue  # Volcano counts waiting tasks that ask for nothing as placed
            if draw.shape == "beside":
                continue  # tasks that ask for nothing are found a place by backfill, perhaps in another cycle
            placed = self.placed_before(uid) + more
            assert placed >= min(draw.needs, draw.tasks), f"{uid}: {placed} tasks placed, needs {draw.needs}"
            for role, least in draw.role_minimums().items():
                job = self.state.jobs[uid]
                there = sum(IS_READY[t.status] for t in job.tasks.values() if t.role == role)
                assert there >= least, f"{uid}: {there} tasks of role {role} placed, needs {least}"

    def placed_before(self, uid: str) -> int:
        """Tasks of a job that had a place, or had ended well, when the cycle began."""
        return sum(
            pod.status.phase == "Succeeded" or (pod.status.phase == "Running" and not pod.metadata.deletion_timestamp)
            for pod in self.pods(uid)
        )

    def pods(self, uid: str) -> list[Pod]:
        name = uid.removeprefix("default/")
        return [o for o in self.world.objects if isinstance(o, Pod) and o.metadata.name.rpartition("-")[0] == name]

    def no_queue_above_its_capability(self, report: CycleReport, held: dict[str, dict[int, Any]]) -> None:
        """What a queue and all below it hold grows only within its capability."""
        if self.compat and not self.policy.shares:
            return
        for n, draw in enumerate(self.draw.queues):
            if draw.capability <= 0:
                continue
            names = self.at_or_below(n)
            grows = any(
                isinstance(i, Bind)
                and self.drawn.queue_of[i.job] in names
                and self.state.jobs[i.job].tasks[i.uid].requests.milli_cpu
                for i in report.intents
            )
            total = sum(int(self.state.queues[q].allocated.amounts.get(0, 0)) for q in names)
            if self.compat is None:  # what leaves counts until it is gone
                leaving = [t for t in self.state.tasks.values() if t.status is S.RELEASING and t.job is not None]
                total += sum(int(t.requests.milli_cpu) for t in leaving if t.job.queue in names and not t.evicted)
            most = draw.capability
            if self.compat and self.policy.shares == "proportion":  # as Volcano a queue has its guarantee first
                most = max(most, draw.guarantee)
            assert not grows or total <= most * 1000, f"q{n} holds {total}m of {most}"

    def closed_queues_get_nothing(self, report: CycleReport) -> None:
        if self.compat:
            return
        for intent in report.intents:
            if isinstance(intent, Bind):
                queue = self.drawn.queue_of[intent.job]
                assert not self.draw.queues[int(queue[1:])].closed, f"{intent.pod} was bound for closed {queue}"

    def at_or_below(self, n: int) -> set[str]:
        names = {f"q{n}"}
        if self.policy.tree:
            for m in range(len(self.draw.queues)):
                if parent_name(self.draw.queues, m, True) in names:
                    names.add(f"q{m}")
        return names

    def victims_were_permitted(self, report: CycleReport) -> None:
        for intent in report.intents:
            if isinstance(intent, Evict):
                assert self.drawn.jobs[intent.job].preemptible, f"{intent.pod} may not be evicted"
                if self.compat is None:
                    assert not self.drawn.jobs[intent.beneficiary].never, f"{intent.beneficiary_pod} must not preempt"

    def no_job_has_a_second_plan(self, report: CycleReport) -> None:
        """No pod is evicted for a job while the victims of its plan leave, if no job before it took their room."""
        nominated = [intent for intent in report.intents if isinstance(intent, Nominate)]
        ended = {job_of(intent.pod) for intent in nominated if not intent.node}
        there = {pod.key for pod in self.world.objects if isinstance(pod, Pod) and pod.metadata.deletion_timestamp}
        self.leaving = {pod: job for pod, job in self.leaving.items() if pod in there and job not in ended}
        waited_for = set(self.leaving.values())
        for intent in report.intents:
            if isinstance(intent, Evict) and intent.beneficiary:
                assert intent.beneficiary not in waited_for, f"{intent.pod} is a second victim for {intent.beneficiary}"
                self.leaving[intent.pod] = intent.beneficiary

    def evictions_help(self, report: CycleReport) -> None:
        """Whoever somebody was evicted for has a promise on that node, and gets the place in the next cycle."""
        binds = report.binds
        taken = {i.pod for i in report.intents if isinstance(i, Nominate) and not i.node}
        short = {job_of(pod) for pod in taken if self.waits_whole(job_of(pod), report)}
        for pod, node in self.owed.items() if not self.grace else ():
            got = pod in binds or pod in taken  # somebody before it in order took it, or it found a place elsewhere
            got = (
                got or job_of(pod) in short
            )  # ... or took the room of another one of its gang, without which none starts
            assert got, f"{pod} did not get the room that was freed for it on {node}"
        promised = {pod: node for tasks in report.pipelined.values() for pod, node in tasks.items()}
        self.owed = {}
        for intent in report.intents:
            if isinstance(intent, Evict):
                gang = intent.action.startswith("gang")
                assert intent.beneficiary in report.pipelined, f"{intent.pod} was evicted for nobody"
                if not gang:
                    at = promised.get(intent.beneficiary_pod)
                    assert at == intent.node, f"{intent.pod} left {intent.node} for {intent.beneficiary_pod} on {at}"
                self.owed |= report.pipelined[intent.beneficiary]

    def waits_whole(self, uid: str, report: CycleReport) -> bool:
        """Is it a gang that is not there yet, and of which nobody was bound?"""
        draw = self.drawn.jobs[uid]
        bound = any(isinstance(i, Bind) and i.job == uid for i in report.intents)
        return not bound and self.placed_before(uid) + 1 < min(draw.needs, draw.tasks)

    def victims_were_lower(self, report: CycleReport, held: dict[str, dict[int, Any]]) -> None:
        for intent in report.intents:
            if not isinstance(intent, Evict):
                continue
            victim, helped = self.drawn.jobs[intent.job], self.drawn.jobs[intent.beneficiary]
            theirs, own = self.drawn.queue_of[intent.job], self.drawn.queue_of[intent.beneficiary]
            if intent.action in ("preempt", "gangpreempt"):
                assert theirs == own, f"{intent.pod} of {theirs} was preempted for {own}"
                if intent.action == "gangpreempt" or any("priority" in tier for tier in self.policy.tiers):
                    assert victim.priority < helped.priority, f"{intent.pod} was preempted for no more priority"
            else:
                assert theirs != own, f"{intent.pod} was reclaimed for its own queue"
                assert self.draw.queues[int(theirs[1:])].reclaimable, f"{theirs} may not be reclaimed from"
                self.victim_queue_had_enough(intent, victim, held)
            if intent.action in ("preempt", "reclaim") and "gang" in self.policy.tiers[0]:
                left = self.state.jobs[intent.job].ready_count
                needs = min(victim.needs, victim.tasks)
                assert needs < 2 or left >= needs, f"{intent.job}: {left} tasks are left of a gang of {needs}"
                self.enough_sub_groups_are_left(intent.job, report)

    def enough_sub_groups_are_left(self, uid: str, report: CycleReport) -> None:
        """A job whose sub-groups were whole has as many as it needs, also after evictions."""
        job = self.state.jobs[uid]
        for policy in job.policies:
            parts = [sj for sj in job.sub_jobs.values() if sj.group == f"{uid}/{policy.name}"]
            lost = {sj.uid: sum(t.key in report.evictions for t in sj.tasks.values()) for sj in parts}
            had = sum(sj.ready_count + lost[sj.uid] >= sj.min_available for sj in parts)
            has, least = sum(sj.ready_count >= sj.min_available for sj in parts), policy.min_sub_groups or 0
            assert has >= min(had, least), f"{uid}: {has} sub-groups are left of {had}, needs {least}"

    def hard_topologies_are_kept(self, report: CycleReport) -> None:
        """The tasks of a job that asks for it are within one domain, those of its sub-groups within one zone."""
        for uid, draw in self.drawn.jobs.items():
            groups: dict[str, set[int]] = {}
            for pod in self.pods(uid):
                runs = pod.status.phase == "Running" and not pod.metadata.deletion_timestamp
                node = report.binds.get(pod.key) or (pod.spec.node_name if runs else "")
                if node and pod.key not in report.evictions:
                    zone = self.draw.nodes[int(node[1:])].zone
                    assert zone != OUTSIDE or (draw.near <= 0 and not draw.parts), f"{uid}: is in no domain"
                    if draw.near > 0:
                        groups.setdefault("job", set()).add(domain_of(zone, draw.near))
                    if draw.parts:
                        groups.setdefault((pod.metadata.labels or {})["part"], set()).add(zone)
            for name, domains in groups.items():
                assert len(domains) == 1, f"{uid}: {name} is in {sorted(domains)}"

    def victim_queue_had_enough(self, intent: Evict, victim: JobDraw, held: dict[str, dict[int, Any]]) -> None:
        """What is reclaimed was more than its queue deserves, where capacity is among those who decide first."""
        queue = self.drawn.queue_of[intent.job]
        draw = self.draw.queues[int(queue[1:])]
        plain = not victim.memory and not victim.gpu
        if intent.action == "reclaim" and "capacity" in first_tier(self.policy) and draw.deserved > 0 and plain:
            had = int(held[queue].get(0, 0))
            assert had > draw.deserved * 1000, f"{queue} held {had}m and deserves {draw.deserved}"

    # -- laws of a settled cluster --------------------------------------------------------------------------------
    def settle(self, most: int) -> None:
        """Run cycles until one decides nothing and lets nobody in."""
        phases: Mapping[str, str] = {}
        for _ in range(most):
            report = self.cycle()
            now = {uid: job.phase for uid, job in self.state.session_jobs.items()}
            if now == phases and not any(isinstance(i, DECISIONS) for i in report.intents):
                return
            phases = now
        raise AssertionError(f"after {most} cycles without events the scheduler still decides")

    def stays_settled(self, cycles: int) -> CycleReport:
        """So many more cycles decide nothing; the last one's report."""
        for n in range(cycles):
            report = self.cycle()
            decided = [i for i in report.intents if isinstance(i, DECISIONS)]
            assert not decided, f"cycle {n + 1} of {cycles} that should change nothing decided {decided}"
        return report

    def nobody_waits_in_vain(self, report: CycleReport) -> None:
        """No waiting job would fit the free room, unless its queue is the reason."""
        if self.runtime.nominations:
            return
        for uid, draw in self.drawn.jobs.items():
            job = self.state.jobs[uid]
            waiting = len(job.with_status(S.PENDING))
            if not waiting or job.is_pending or not draw.cpu or "." in draw.gpu or draw.rule in ("apart", "spread"):
                continue
            if draw.parts or draw.shape or self.draw.queues[int(self.drawn.queue_of[uid][1:])].closed:
                continue
            more = max(job.min_available - job.ready_count, 1)
            if job.valid_count < job.min_available or self.queue_stops(uid, more, report):
                continue
            slots = max(sum(self.slots(draw, n) for n in nodes) for nodes in self.domains(uid, draw))
            assert min(slots, waiting) < more, f"{uid} waits, needs {more} more places, and there are {slots}"

    def domains(self, uid: str, draw: JobDraw) -> list[list[int]]:
        """The sets of nodes within which the job may be placed, given where it is."""
        every = list(range(len(self.draw.nodes)))
        if draw.near <= 0:
            return [every]
        inside = {n: node.zone for n, node in enumerate(self.draw.nodes) if node.zone != OUTSIDE}
        held = (int(name[1:]) for name in places_of(self.state.jobs[uid].tasks.values()))
        there = {domain_of(inside[n], draw.near) for n in held}
        domains = there or {domain_of(zone, draw.near) for zone in range(OUTSIDE)}
        return [[n for n, zone in inside.items() if domain_of(zone, draw.near) == d] for d in sorted(domains)]

    def queue_stops(self, uid: str, more: int, report: CycleReport) -> bool:
        """Is it the queue that keeps the job back: its share, its capability, or who stands before it?"""
        refusal = report.refusals.get(uid)
        if refusal is None or refusal.stage != "queue":
            return False
        if "strict FIFO" in refusal.text:
            head = refusal.text.split()[2]
            first = self.state.jobs[head]
            started = first.is_ready and first.sub_jobs_ready()
            return self.drawn.queue_of[head] == self.drawn.queue_of[uid] and not started
        if self.policy.shares != "capacity" or any(q.guarantee > 0 for q in self.draw.queues):
            return True
        return self.above_limit(uid, more)

    def above_limit(self, uid: str, more: int) -> bool:
        """Would so many more tasks take the job's queue, or one above it, beyond what it may hold?"""
        draw, own = self.drawn.jobs[uid], self.drawn.queue_of[uid]
        wanted = {"cpu": draw.cpu / 1000, "memory": draw.memory * 2**30, "nvidia.com/gpu": int(draw.gpu or 0)}
        for n, queue in enumerate(self.draw.queues):
            names = self.at_or_below(n)
            if own not in names:
                continue
            for resource, each in wanted.items():
                held = sum(self.state.queues[name].held[resource] for name in names)
                limit = math.inf if self.policy.tree else self.state.total_resources()[resource]
                if resource == "cpu" and queue.capability > 0:
                    limit = min(limit, queue.capability)
                if each and held + more * each > limit:
                    return True
        return False

    def slots(self, draw: JobDraw, n: int) -> int:
        """How many tasks of a job fit on a node as it is."""
        at, node = self.draw.nodes[n], self.state.nodes[f"n{n}"]
        if (at.tainted and draw.rule != "tolerates") or (draw.rule == "zone" and at.zone):
            return 0
        room = [(int(node.idle.milli_cpu), draw.cpu), (int(node.idle.memory), draw.memory * 2**30)]
        room += [(int(node.idle["nvidia.com/gpu"]), int(draw.gpu or 0)), (at.pods - len(node.tasks), 1)]
        if draw.gpu:
            free = self.state.devices.free(np.array([node.row]))[0]
            room.append((int((free == 1000).sum()), int(draw.gpu)))
        return max(min(have // want for have, want in room if want), 0)
