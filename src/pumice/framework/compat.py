"""If Pumice mends a defect of Volcano, a named switch restores the original decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Compat:
    """True means: as Volcano does. Each switch is read in one place; `docs/differences.md` has a row for each."""

    typed_arguments: bool = False
    """An argument that is not of the type that Volcano's code takes is passed over: a number as text, say."""
    victims_fold: bool = False
    """An empty answer or intersection passes the decision to the next tier (defects 1 and 2)."""
    enqueue_without_min_resources: bool = False
    """PodGroups without minResources skip every vote (16)."""
    role_failure: bool = False
    """One failed task of a role suppresses the rest of the role (19)."""
    unscored_single_candidate: bool = False
    """A single candidate is taken without scoring (20)."""
    role_minimums: bool = False
    """Victims are taken without regard to the minimum of their role (25)."""
    closed_queues: bool = False
    """Only the plugins that share between queues look whether a queue is open, and backfill asks none of them."""
    blind_capability: bool = False
    """Only proportion and capacity keep queues within their capability."""
    guarantee_first: bool = False
    """A queue deserves its guarantee under proportion also where its capability is less."""
    leaving_pods: bool = False
    """Pods that are being evicted do not count for their queue, which so holds more than its capability for a while."""
    begun_jobs: bool = False
    """A job that is Pending although tasks of it have a place is voted on like one that has nothing."""
    half_sub_groups: bool = False
    """Sub-groups count that have too few pods, and promised places of sub-groups that are not whole."""
    lost_members: bool = False
    """A gang that lost a member after its start waits like one that never started."""
    gang_of_one: bool = False
    """gang protects the only task of a job that needs one task, as if it were a gang."""
    best_effort_gangs: bool = False
    """A waiting task that asks for nothing counts as placed for its gang, also when no node takes it."""
    first_shortage: bool = False
    """The reasons for which a task fits nowhere count the first resource that a node lacks only, in no order."""
    overcommit_double_count: bool = False
    """overcommit counts all of minResources for pods that already have a place (26)."""
    extender_answers: bool = False
    """Extender errors and odd answers are read as Volcano reads them (36, 37)."""
    spare_victims: bool = False
    """Victims that a plan turned out not to need are evicted all the same."""
    reclaim_in_turns: bool = False
    """reclaim evicts also where the victim could at once reclaim the place back."""
    evictions_in_turn: bool = False
    """Jobs may be evicted for each other in turn without end."""
    hold_freed_room: bool = False
    """Freed room is not held for the one it was freed for."""
    disruption_budgets: bool = False
    """Only the pdb plugin looks at disruption budgets: at each question by itself, without unlabelled pods (29)."""
    node_groups: bool = False
    """nodegroup takes preferences, also those against a group, for allowances, and allows nothing else (32)."""
    unmeasured_nodes: bool = False
    """usage gives a node without fresh measurements the lowest score (33)."""
    moves_in_vain: bool = False
    """rescheduling adds the room of idle nodes up: a pod leaves also where each of them would be busy with it."""
    unscored_vgpu_spread: bool = False
    """deviceshare with the policy spread scores no node: a card counts as used before it is looked at (35)."""
    unknown_geometries: bool = False
    """deviceshare shares a MIG card that nobody says how to cut as any other card."""
    time_windows: bool = False
    """tdm's windows end at midnight, and a job below its minimum loses one more task (31)."""
    undone_evictions: bool = False
    """A task whose eviction is taken back counts as running, even if it was bound (8). Beside predicates, filters and
    scores do not see it on its node for the rest of the cycle."""
    unasked_never: bool = False
    """The gang actions evict for pods that say that nobody is to be evicted for them (22)."""
    dry_run: bool = False
    """Topology-aware preemption evicts although the queue may not take the preemptor, and does not check whether the
    queue is open. A plugin with enablePreemptable and enabledAllocatable off does not see simulated removals."""
    raising_handlers: bool = False
    """An event handler that raises objects to the placement, as one that sets ``event.err`` does."""
    remember_failures: bool = False
    """Failures that can heal within the cycle (spread, anti-affinity), or that a smaller task of the role would not
    have (lack of room), are remembered; in the gang actions too."""

    one_bad_queue: bool = False
    """A queue tree with one bad queue, or one job in a queue that is no leaf, takes nothing at all (28)."""
    stale_ancestor_shares: bool = False
    """The share of a queue that has others below it stays what it was when the session opened (28)."""
    blind_scores: bool = False
    """nodeorder without predicates does not see what was placed in the same cycle (6.12)."""
    lasting_admission: bool = False
    """An admitted job that fits nowhere keeps others out until it starts."""
    blind_admission: bool = False
    """A job is not let in for what it could preempt."""
    unserved_topology: bool = False
    """A hard topology that no plugin serves, or that names no known tier, is no constraint (23)."""
    topology_of_allocate: bool = False
    """Only allocate and the gang actions heed a hard topology; reclaim and backfill place across domains."""
    whole_domains: bool = False
    """A domain must have room for all that waits of a (sub-)job, not only for what it needs to start."""
    dropped_sub_groups: bool = False
    """A sub-group that finds no room while its job is placed is not tried again in the cycle. The choice of sub-groups
    that a job needs is not made anew when it has some. The gang actions make room for all sub-groups in turn or
    none."""
    stale_neighbours: bool = False
    """Inter-pod affinity and spread do not see evictions made for the task, and anti-affinity of pods placed in this
    cycle only on nodes that had such pods before."""

    # -- of KAI-Scheduler -------------------------------------------------------------------------------------------
    kai_sharing_score: bool = False
    """Tasks without GPUs prefer nodes with a partly used GPU (D3)."""
    kai_narrow_topology: bool = False
    """A required level is not met where all nodes in question lie in one domain below it."""
    kai_forgotten_promises: bool = False
    """An evicted job may take the room again that it was evicted from (D13)."""
    kai_over_share: bool = False
    """A queue is above its share only if it is so in every resource."""
    kai_any_excess: bool = False
    """A job that holds too much of one resource can be reclaimed from for any request."""
    kai_unset_limits: bool = False
    """A limit that a queue does not give is 0: nothing runs."""
    kai_free_spread: bool = False
    """Topology spread constraints are not looked at."""
    kai_raw_affinity: bool = False
    """podaffinity's score has no bounds: one term of weight 100 outranks the nominated node (D4)."""
    kai_claimed_gpus: bool = False
    """Whole GPUs are given out on a node whose GPUs are had by claims only, without a device."""
    kai_movable_only: bool = False
    """Work is moved together only for jobs that may themselves be evicted."""
    kai_flat_gangs: bool = False
    """Every sub-group counts where it is asked whether a gang runs; a plan for one that needs fewer is not done."""
    kai_waiting_gpus: bool = False
    """A shared GPU is chosen by its score alone, so that a task waits for one where another has room at once."""
    kai_placed_demand: bool = False
    """The running part of a job counts among the GPUs that victims must leave in a domain for it."""


PUMICE: Final = Compat()
_KAI: Final = tuple(name for name in Compat.__dataclass_fields__ if name.startswith("kai_"))
KAI: Final = Compat(**dict.fromkeys(_KAI, True))
VOLCANO: Final = Compat(**{name: name not in _KAI for name in Compat.__dataclass_fields__})


def compat_of(name: str | None) -> Compat:
    """The switches of a compat profile; None is Pumice's own behaviour."""
    return {"volcano": VOLCANO, "kai": KAI}.get(name or "", PUMICE)
