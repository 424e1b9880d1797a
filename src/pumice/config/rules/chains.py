"""Traps of points: which plugins are asked, in which tier, and whether any is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.config.catalogue import Catalogue, HookInfo
from pumice.config.explain import asked, taking_part
from pumice.config.kai import PREFIX, written
from pumice.config.rules import Hit, Severity
from pumice.config.schema import Listed, SchedulerConf

VICTIM_HOOKS: Final = ("Preemptable", "Reclaimable", "UnifiedEvictable")
VOTE_HOOKS: Final = ("JobEnqueueable", "JobPipelined", "SubJobPipelined")
EVICTING: Final = frozenset(("preempt", "reclaim", "gangpreempt", "gangreclaim"))
GANG_ACTIONS: Final = {"gangpreempt": "Preemptable", "gangreclaim": "Reclaimable"}
"""The gang actions, and the hook that their counterpart of single tasks asks."""
TOPOLOGY_PLUGIN: Final = "network-topology-aware"
FILTER_FLAG: Final = "enablePredicate"
GRADIENT_FLAG: Final = "enabledHyperNodeGradient"
NEEDS: Final = {
    "preempt": ("JobStarving", "Preemptable"),
    "reclaim": ("JobStarving", "Reclaimable"),
    "gangpreempt": ("JobStarving", "UnifiedEvictable"),
    "gangreclaim": ("JobStarving", "UnifiedEvictable"),
    "shuffle": ("VictimTasks",),
}
"""Hooks at which silence means no: without an answer the action evicts nobody."""


INSTEAD: Final[dict[str, dict[str, str]]] = {
    "kai": {
        "queue_order": "queue_claim_order, which is given the claims of two queues (KAI's AddQueueOrderFn)",
        "victim_queue_order": "queue_claim_order",
        "sub_job_order": "sub_group_order",
        "node_map": "node_order",
        "node_reduce": "node_order",
        "hyper_node_order": "node_order",
        "hyper_node_gradient_for_job": "subset_nodes",
        "hyper_node_gradient_for_sub_job": "subset_nodes",
        "best_node": "node_order",
        "node_pre_order": "on_job_solution_start or pre_job_allocation",
        "job_valid": "job_within_capacity",
        "job_enqueueable": "job_within_capacity",
        "preemptable": "preempt_victim_filter (KAI's AddPreemptVictimFilterFn)",
        "reclaimable": "reclaim_victim_filter (KAI's AddReclaimVictimFilterFn)",
        "unified_evictable": "victim_filter",
        "preemptive": "can_reclaim_resources",
        "victim_tasks": "scenario_generator",
        "overused": "job_within_capacity",
        "allocatable": "job_within_capacity or task_within_capacity",
    },
    "volcano": {
        "queue_claim_order": "queue_order",
        "sub_group_order": "sub_job_order",
        "can_reclaim_resources": "preemptive",
        "job_within_capacity": "job_enqueueable or allocatable",
        "job_within_quota": "allocatable",
        "task_within_capacity": "allocatable",
        "victim_invariant_pre_predicate": "pre_predicate",
        "reclaim_victim_filter": "reclaimable",
        "preempt_victim_filter": "preemptable",
        "reclaim_scenario_validator": "scenario_validator",
        "preempt_scenario_validator": "scenario_validator",
        "scenario_generator": "victim_tasks",
    },
}
"""Dialect -> point that its actions never ask -> the point that they ask instead, where there is one."""


def flag_without_effect(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A flag is set against its default on a plugin that has nothing for it to govern."""
    if not catalogue.hooks:
        return
    for listed in conf.listed():
        info = catalogue.plugins.get(listed.plugin.name)
        if info is None:
            continue
        own = set(info.flags)
        for hook in catalogue.hooks:
            if listed.plugin.name in hook.plugins:
                own |= {flag for flag in (hook.flag, hook.when.get(listed.plugin.name)) if flag is not None}
        for flag, value in listed.plugin.flags.items():
            if flag not in own and value != catalogue.flags[flag]:
                yield Hit(
                    Severity.INFO,
                    f"{listed.path}.{flag}",
                    f"plugin {written(listed.plugin.name, conf.dialect)!r} has nothing that {flag} would switch",
                    "Remove it, or set it on the plugin that was meant; 'pumice conf explain' shows who answers what.",
                )


def plugin_never_asked(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A plugin answers only questions that no action of this conf asks.

    A plugin about victims is left alone if no action evicts: it has nothing to protect, as in the default conf.
    """
    victims = [catalogue.hook(name) for name in VICTIM_HOOKS]
    for listed in conf.listed():
        own = [hook for hook in catalogue.hooks if listed.plugin.name in hook.plugins]
        if listed.plugin.name == "extender" or any(asked(conf, hook) for hook in own):
            continue
        if all(hook in victims for hook in own):
            continue
        askers = sorted(frozenset().union(*(hook.asked_by or () for hook in own)))
        yield Hit(
            Severity.WARNING,
            listed.path,
            f"{listed.plugin.name!r} is never asked: it answers {', '.join(hook.name for hook in own)}, and no action "
            "of this conf asks that",
            f"Add an action that does ({', '.join(askers) or 'none is known'}), or remove the plugin.",
        )


def registration_never_asked(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A plugin registers at a point that no action of the conf's dialect asks, beside points that are asked."""
    for listed in conf.listed():
        own = [hook for hook in catalogue.hooks if listed.plugin.name in hook.plugins]
        if listed.plugin.name == "extender" or not any(asked(conf, hook) for hook in own):
            continue  # a verb, or a plugin that is never asked at all, has a rule of its own
        for hook in own:
            if hook.asked_by is None or asked(conf, hook):
                continue
            if any(action.startswith(PREFIX) == (conf.dialect == "kai") for action in hook.asked_by):
                continue  # another action of the dialect asks it
            actions = "KAI's actions" if conf.dialect == "kai" else "Volcano's actions"
            point = INSTEAD[conf.dialect].get(hook.name)
            yield Hit(
                Severity.WARNING,
                listed.path,
                f"{written(listed.plugin.name, conf.dialect)!r} registers at {hook.name}, which {actions} never ask",
                f"{actions} ask {point} instead." if point else f"{actions} ask nothing in its place.",
            )


def hierarchy_with_proportion(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """Hierarchical drf and proportion stand in different tiers, where Volcano does not see the conflict."""
    if not any(listed.plugin.name == "proportion" for listed in conf.listed()):
        return
    for listed in conf.listed():
        if listed.plugin.name == "drf" and listed.plugin.flags.get("enableHierarchy"):
            yield Hit(
                Severity.ERROR,
                f"{listed.path}.enableHierarchy",
                "drf with enableHierarchy and proportion both order queues and choose what to reclaim, by different "
                "shares; Volcano rejects this only inside one tier",
                "Remove proportion, or the flag.",
            )


def veto_overridden(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """Victims are chosen in several tiers, so in Volcano a tier that spares everybody is not the last word."""
    for hook, first, later in _spread_over_tiers(conf, catalogue, VICTIM_HOOKS):
        volcano = conf.compat == "volcano"
        yield Hit(
            Severity.WARNING if volcano else Severity.INFO,
            later.path,
            f"{hook.name}: when tier {first.tier + 1} allows no victim, Volcano asks {later.plugin.name!r} in tier "
            f"{later.tier + 1}, which may still choose tasks that tier {first.tier + 1} protects"
            + (
                " (compat: volcano does the same)"
                if volcano
                else "; without compat: volcano the first tier's word stands"
            ),
            f"Put every plugin that must protect tasks in one tier, or set {hook.flag}: false here."
            if hook.flag
            else "Put every plugin that must protect tasks in one tier.",
        )


def permit_hides_votes(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A vote is spread over tiers, so a Permit in an earlier one keeps a later one from being asked."""
    for hook, first, later in _spread_over_tiers(conf, catalogue, VOTE_HOOKS):
        yield Hit(
            Severity.WARNING,
            later.path,
            f"{hook.name}: once {first.plugin.name!r} in tier {first.tier + 1} permits, {later.plugin.name!r} in tier "
            f"{later.tier + 1} is not asked, so it cannot reject",
            "If its rejection must count, move it to the earlier tier.",
        )


def _spread_over_tiers(
    conf: SchedulerConf, catalogue: Catalogue, names: tuple[str, ...]
) -> Iterator[tuple[HookInfo, Listed, Listed]]:
    """Each of these hooks with the first entry that takes part and every one in a later tier."""
    for name in names:
        hook = catalogue.hook(name)
        if hook is None or not asked(conf, hook):
            continue
        entries = taking_part(conf, hook)
        for later in entries:
            if later.tier > entries[0].tier:
                yield hook, entries[0], later


def action_evicts_nobody(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """An action depends on answers that no plugin of the conf gives."""
    for index, action in enumerate(conf.actions):
        for name in NEEDS.get(action, ()):
            hook = catalogue.hook(name)
            if hook is None or taking_part(conf, hook):
                continue
            who = ", ".join(sorted(hook.plugins)) or "none"
            yield Hit(
                Severity.WARNING,
                f"actions[{index}]",
                f"{action} evicts nobody: no plugin of this conf answers {hook.name}, and silence there means no",
                f"Enable a plugin that does (known: {who}), or remove the action.",
            )


def left_out_of_gang_eviction(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """A plugin protects tasks from single evictions, but is not asked when a gang action evicts."""
    unified = catalogue.hook("UnifiedEvictable")
    if unified is None:
        return
    for action, name in GANG_ACTIONS.items():
        hook = catalogue.hook(name)
        if hook is None or action not in conf.actions:
            continue
        for listed in taking_part(conf, hook):
            if listed.plugin.name not in unified.plugins:
                yield Hit(
                    Severity.WARNING,
                    listed.path,
                    f"{action} does not ask {listed.plugin.name!r} which tasks may go: it answers {hook.name}, "
                    f"but not {unified.name}",
                    f"Do not rely on {listed.plugin.name!r} to protect tasks from {action}.",
                )


def cooldown_not_kept(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """cdp stands where it is not asked about victims: in a later tier than others that answer, or beside shuffle."""
    for name in VICTIM_HOOKS:
        hook = catalogue.hook(name)
        entries = taking_part(conf, hook) if hook is not None and asked(conf, hook) else []
        for listed in entries:
            if listed.plugin.name == "cdp" and listed.tier > entries[0].tier:
                yield Hit(
                    Severity.WARNING,
                    listed.path,
                    f"{name}: {entries[0].plugin.name!r} in tier {entries[0].tier + 1} answers before, and the first "
                    "tier that does decides who may go: pods are evicted in their cooldown",
                    f"Move cdp to tier {entries[0].tier + 1}.",
                )
    for listed in conf.listed():
        if listed.plugin.name == "cdp" and "shuffle" in conf.actions:
            yield Hit(
                Severity.INFO,
                listed.path,
                "shuffle does not ask cdp: who should leave, leaves in his cooldown too, here as in Volcano",
                "Give pods that must not be moved the annotation volcano.sh/preemptable: 'false'.",
            )


def gangs_not_kept(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """No plugin checks whether a gang is whole, or in one domain of a label, as Kubernetes' own PodGroups can
    request."""
    ready = catalogue.hook("JobReady")
    if ready is None:
        return
    if asked(conf, ready) and not taking_part(conf, ready):
        yield Hit(
            Severity.WARNING,
            "tiers",
            "no plugin of this conf says when a gang is whole: jobs start in part, whatever minMember or minCount says",
            "Add gang.",
        )
    if not any(listed.plugin.name == "predicates" and listed.plugin.enabled(FILTER_FLAG) for listed in conf.listed()):
        yield Hit(
            Severity.INFO,
            "tiers",
            "predicates keeps PodGroups of scheduling.k8s.io in one domain: those that ask for one wait without it",
            "Add predicates, if there are such PodGroups.",
        )


def gang_ignores_never(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """The gang actions of Volcano do not read the pods' preemption policy."""
    for index, action in enumerate(conf.actions):
        if action in GANG_ACTIONS:
            yield Hit(
                Severity.INFO,
                f"actions[{index}]",
                f"in Volcano {action} also evicts for pods with preemptionPolicy: Never",
                "Keep such pods out of jobs that may starve, if Volcano runs this conf.",
            )


def no_strict_fifo(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """No plugin orders jobs, so their age does; but age is only an order, not a reservation."""
    hook = catalogue.hook("JobOrder")
    if hook is None or not conf.actions or taking_part(conf, hook):
        return
    yield Hit(
        Severity.INFO,
        "tiers",
        "no plugin answers JobOrder, so the oldest job is tried first; a job that does not fit is passed over, and "
        "small jobs behind a large gang can keep it waiting (Volcano accepts a queue's spec.dequeueStrategy, but does "
        "not read it)",
        "Do not rely on strict first-in-first-out; the sla plugin bounds the waiting time of a job.",
    )


def capacity_has_no_overused(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """capacity is there and nobody says when a queue is overused."""
    hook = catalogue.hook("Overused")
    if hook is None or not asked(conf, hook) or taking_part(conf, hook):
        return
    for listed in conf.listed():
        if listed.plugin.name == "capacity":
            yield Hit(
                Severity.INFO,
                listed.path,
                "capacity does not answer Overused, and no other plugin does: no queue is left out for being above its "
                "share, only single tasks are refused",
                "Expect queues to be tried up to their capability, not only up to what they deserve.",
            )


def topology_never_preempts(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """preempt passes over jobs that ask for a network topology, and nobody else makes room for them in their queue."""
    if "preempt" not in conf.actions or "gangpreempt" in conf.actions:
        return
    for listed in conf.listed():
        if listed.plugin.name == TOPOLOGY_PLUGIN:
            yield Hit(
                Severity.WARNING,
                listed.path,
                "preempt passes over jobs that ask for a network topology, whatever their priority",
                "Add the action gangpreempt, which makes room for a whole job in one domain.",
            )


def topology_not_served(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """The plugin that serves network topologies is there, and is not asked for domains."""
    for listed in conf.listed():
        if listed.plugin.name == TOPOLOGY_PLUGIN and listed.plugin.flags.get(GRADIENT_FLAG) is False:
            yield Hit(
                Severity.WARNING,
                f"{listed.path}.{GRADIENT_FLAG}",
                "nobody says in which domains a job may be: jobs with a hard network topology wait for ever, and in "
                "Volcano they are placed anywhere",
                f"Leave {GRADIENT_FLAG} on, or let another plugin answer HyperNodeGradientForJob.",
            )
