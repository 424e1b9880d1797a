"""The words that programs read: why a job waits, and the reasons of conditions and events. They do not change.

`docs/reasons.md` lists them all.
"""

from __future__ import annotations

from enum import StrEnum


class ReasonCode(StrEnum):
    """A reason, in one word. What a plugin of a user says of its own accord is its own word."""

    # -- why a job waits, by stage ----------------------------------------------------------------------------------
    NO_POD_GROUP = "NoPodGroup"
    """A pod or job has no PodGroup, so nobody looks at it."""
    UNKNOWN_QUEUE = "UnknownQueue"
    """The job's queue does not exist, or cannot be used."""
    NOT_LET_IN = "NotLetIn"
    """The job was not let into its queue."""
    NOT_VALID = "NotValid"
    """The job was not worth trying: somebody holds it incomplete."""
    QUEUE_REFUSED = "QueueRefused"
    """The job's queue may not take it now: a quota, a share, an order of jobs."""
    NO_NODE_FITS = "NoNodeFits"
    """No node is good enough for one of the job's tasks, as things are now."""
    CAN_NEVER_FIT = "CanNeverFit"
    """A task that the job needs is larger than every node."""
    TOPOLOGY_NOT_MET = "TopologyNotMet"
    """The network topology that the job asks for cannot be had."""
    GANG_NOT_READY = "GangNotReady"
    """Too few of the job's tasks have a place, or they wait for room that is being released."""
    PLACEMENT_REFUSED = "PlacementRefused"
    """A plugin or extender that follows placements objected to one."""
    BIND_NOT_PREPARED = "BindNotPrepared"
    """What a bind needs first (volumes, devices) could not be prepared."""
    PLAN_REFUSED = "PlanRefused"
    """A plan to make room by evictions was refused by a plugin."""
    NOT_TRIED = "NotTried"
    """No action of the conf tried the job in this cycle."""
    SERVED = "Served"
    """The job has what it needs to run."""

    # -- of gangs, Volcano's words ----------------------------------------------------------------------------------
    NOT_ENOUGH_TASKS = "NotEnoughTasks"
    """The job has fewer pods than it needs together."""
    NOT_ENOUGH_PODS_OF_TASK = "NotEnoughPodsOfTask"
    """A role or sub-group has fewer pods than its minimum."""
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    """Condition Unschedulable of a PodGroup: its gang has no place."""
    GANG_READY = "tasks in gang are ready to be scheduled"
    """Condition Scheduled of a PodGroup; the one reason that is no single word, because it is Volcano's."""

    # -- of queues, KAI's words -------------------------------------------------------------------------------------
    OVER_LIMIT = "OverLimit"
    """The job would take its queue, or one above it, beyond a limit."""
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
    """A job that cannot be evicted would take its queue, or one above it, beyond its quota."""

    # -- of conditions and events -----------------------------------------------------------------------------------
    SCHEDULED = "Scheduled"
    """Condition PodGroupScheduled of a PodGroup of Kubernetes' own: so many of its pods as must be are on their way."""
    LET_IN = "LetIn"
    """Condition Admitted of a PodGroup that was refused before: it is in its queue now."""
    UNSCHEDULABLE = "Unschedulable"
    """Condition PodScheduled of a pod, and event on a PodGroup that is not let in, as autoscalers know it."""
    INVALID = "Invalid"
    """An object breaks a rule and is not used, or not all of it."""
    INVALID_QUEUE = "InvalidQueue"
    """The bounds of a queue contradict each other."""
    EVICTION_REFUSED = "EvictionRefused"
    """The cluster refused an eviction of a plan."""
    EVICT = "Evict"
    """The pod is evicted, and for whom."""
    EVICTED_IN_TURN = "EvictedInTurn"
    """Jobs are evicted for each other in turn, directly or round several."""
    FAILED_BINDING = "FailedBinding"
    """A bind did not succeed."""
    HALF_GANG_RELEASED = "HalfGangReleased"
    """Part of a gang was bound and the rest cannot be: its room is given back."""
    CONF_NOT_USED = "ConfNotUsed"
    """A changed conf has mistakes, and the one before it stays in use."""
    QUARANTINED = "Quarantined"
    """A plugin failed so often that it is not asked for a while."""

    # -- of extenders -----------------------------------------------------------------------------------------------
    EXTENDER_UNAVAILABLE = "ExtenderUnavailable"
    """The job is managed by an extender that does not answer."""
    BUDGET_SPENT = "BudgetSpent"
    """An extender used up the time that it has in a cycle."""
    CIRCUIT_OPEN = "CircuitOpen"
    """An extender failed so often that it is not asked for a while."""

    # -- of the controllers, mostly Volcano's words -----------------------------------------------------------------
    INVALID_SPEC = "InvalidSpec"
    """A vcjob breaks a rule; nothing is made of it until it was changed."""
    UNSUPPORTED = "Unsupported"
    """Something that was asked for is not done here."""
    POD_GROUP_ERROR = "PodGroupError"
    """A PodGroup could not be made, or one of that name belongs to somebody else."""
    PLUGIN_ERROR = "PluginError"
    """What a plugin of a vcjob (svc, ssh, env) needs could not be made."""
    FAILED_CREATE = "FailedCreate"
    """Pods of a vcjob could not be made."""
    EXECUTE_ACTION = "ExecuteAction"
    """A policy of a vcjob was carried out."""
    PHASE_CHANGED = "PhaseChanged"
    """A vcjob is in another phase."""
    STATE_CHANGED = "StateChanged"
    """A queue is in another state."""
    OPEN_QUEUE = "OpenQueue"
    """A queue was commanded to open and could not be."""
    CLOSE_QUEUE = "CloseQueue"
    """A queue was commanded to close and could not be."""
