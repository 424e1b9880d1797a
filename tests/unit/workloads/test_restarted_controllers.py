"""A controller may be stopped between any two of its writes: the job ends as if nobody had been."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from workload_jobs import spec_of

from effort import examples
from pumice.workloads.lifecycle import FINISHED, JobSeen, PodSeen, next_step
from pumice.workloads.vcjob import VcJobSpec, answers_of, minimum_of, pod_name, roles_of


@dataclass
class World:
    """A server with one job: its status, its pods, and what they do."""

    spec: VcJobSpec
    fails: dict[tuple[str, int], set[int]]
    """(role, index) -> versions of the job in which that pod fails."""
    phase: str = "Pending"
    version: int = 0
    retries: int = 0
    counted: dict[str, int] = field(default_factory=dict)
    pods: dict[str, PodSeen] = field(default_factory=dict)
    made: int = 0
    most: int = 0

    def controller(self, writes: int) -> int:
        """Run a controller that is stopped after so many writes; returns how many it made."""
        done = 0
        roles = roles_of(self.spec)
        seen = JobSeen(
            roles=roles,
            minimum=minimum_of(self.spec, roles),
            pods=list(self.pods.values()),
            answers=answers_of(self.spec.policies),
            max_retry=self.spec.max_retry,
            phase=self.phase,
            version=self.version,
            retries=self.retries,
            counted=self.counted,
            group_phase="Running",
        )
        plan = next_step(seen)
        counted = {role.name: plan.counts.at(role.name) for role in roles}
        if (plan.phase, plan.version, plan.retries, counted) != (self.phase, self.version, self.retries, self.counted):
            if done == writes:
                return done
            self.phase, self.version, self.retries, self.counted = plan.phase, plan.version, plan.retries, counted
            done += 1
        for pod in plan.remove:
            if done == writes:
                return done
            self.pods[pod.name] = replace(self.pods[pod.name], leaving=True)
            done += 1
        for role, index in plan.create:
            if done == writes:
                return done
            name = pod_name("j", role.name, index)
            assert name not in self.pods
            self.made += 1
            self.pods[name] = PodSeen(name, f"u{self.made}", role.name, index, plan.version, "Pending")
            done += 1
        self.most = max(self.most, len(self.pods))
        return done

    def kubelet(self) -> None:
        """Every pod takes one step."""
        for name, pod in list(self.pods.items()):
            if pod.leaving:
                del self.pods[name]
            elif pod.phase == "Pending":
                self.pods[name] = replace(pod, phase="Running")
            elif pod.phase == "Running":
                bad = pod.version in self.fails.get((pod.role, pod.index), ())
                self.pods[name] = replace(pod, phase="Failed" if bad else "Succeeded")


def run(world: World, limits: list[int]) -> World:
    for limit in [*limits, *([1000] * 200)]:
        world.controller(limit)
        world.kubelet()
        left = any(p.leaving for p in world.pods.values())
        if world.phase in FINISHED and not left and world.controller(1000) == 0:
            return world
    raise AssertionError(f"not finished: {world}")


TASKS: dict[str, Any] = {"a": 1, "b": 3}
FAILURES = st.dictionaries(
    st.sampled_from([("a", 0), ("b", 0), ("b", 1), ("b", 2)]), st.sets(st.integers(0, 3), max_size=3), max_size=3
)


@settings(max_examples=examples(150), deadline=None)
@given(
    fails=FAILURES,
    action=st.sampled_from(["RestartJob", "TerminateJob", "CompleteJob", ""]),
    limits=st.lists(st.integers(0, 6), max_size=40),
)
def test_a_controller_that_is_stopped_at_any_moment_brings_the_job_to_the_same_end(
    fails: dict[tuple[str, int], set[int]], action: str, limits: list[int]
) -> None:
    policies = [{"event": "PodFailed", "action": action}] if action else []
    spec = spec_of(TASKS, policies=policies, maxRetry=3)
    whole, broken = run(World(spec, fails), []), run(World(spec, fails), limits)
    assert (broken.phase, broken.retries, broken.version) == (whole.phase, whole.retries, whole.version)
    assert broken.most <= 4
    assert broken.retries <= 3


@settings(max_examples=examples(80), deadline=None)
@given(
    fails=FAILURES,
    action=st.sampled_from(["RestartTask", "RestartPod"]),
    limits=st.lists(st.integers(0, 6), max_size=40),
)
def test_a_part_that_begins_again_never_leaves_the_job_without_an_end(
    fails: dict[tuple[str, int], set[int]], action: str, limits: list[int]
) -> None:
    spec = spec_of(TASKS, policies=[{"event": "PodFailed", "action": action}], maxRetry=3)
    world = run(World(spec, fails), limits)
    assert world.phase in ("Completed", "Failed")
    assert world.retries <= 3
