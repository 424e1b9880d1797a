"""A catalogue of flags, plugins, actions and hooks of Volcano, and some of KAI, as the parts above config give it."""

from __future__ import annotations

import pytest

from pumice.config.catalogue import ArgumentsInfo, Catalogue, HookInfo, Stop


def words(text: str) -> list[str]:
    return text.split()


ON = words("""
enableJobOrder enableJobReady enableJobPipelined enableTaskOrder enablePreemptable enableReclaimable enablePreemptive
enableQueueOrder enablePredicate enableBestNode enableNodeOrder enableTargetJob enableReservedNodes enableJobEnqueued
enabledVictim enableJobStarving enabledOverused enabledAllocatable enabledHyperNodeOrder enabledSubJobReady
enabledSubJobPipelined enabledSubJobOrder enabledHyperNodeGradient
""")
OFF = ["enableHierarchy", "enabledClusterOrder"]

VERBS = words("""
onSessionOpen onSessionClose predicate prioritize preemptable reclaimable queueOverused jobEnqueueable jobEnqueued
jobReady allocateFunc deallocateFunc
""")
PREDICATES = words("""
NodeAffinity NodePorts TaintToleration PodAffinity NodeVolumeLimits VolumeZone PodTopologySpread Cache
""")
SCORES = words("""
leastrequested mostrequested nodeaffinity podaffinity balancedresource tainttoleration imagelocality podtopologyspread
""")


def reads(*names: str, prefixes: tuple[str, ...] = (), flags: tuple[str, ...] = ()) -> ArgumentsInfo:
    return ArgumentsInfo(frozenset(names), prefixes, frozenset(flags))


PLUGINS: dict[str, ArgumentsInfo | None] = {
    "priority": reads(),
    "gang": reads(),
    "conformance": reads(),
    "drf": reads(flags=("enableHierarchy",)),
    "proportion": reads(),
    "capacity": reads(
        "ancestorReclaimLevel",
        "capacity.DynamicResourceAllocationEnable",
        "capacity.DRAConsumableCapacityEnable",
        flags=("enableHierarchy",),
    ),
    "overcommit": reads("overcommit-factor"),
    "resourcequota": reads(),
    "sla": reads("sla-waiting-time"),
    "tdm": reads("tdm.evict.period", prefixes=("tdm.revocable-zone.",)),
    "predicates": reads(
        *(f"predicate.{name}Enable" for name in PREDICATES),
        "predicate.VolumeBindingEnable",
        "predicate.DynamicResourceAllocationEnable",
        "dynamicresources.filterTimeoutSeconds",
        prefixes=("volumebinding.",),
    ),
    "nodeorder": reads(*(f"{name}.weight" for name in SCORES)),
    "binpack": reads(
        "binpack.weight", "binpack.cpu", "binpack.memory", "binpack.resources", prefixes=("binpack.resources.",)
    ),
    "resource-strategy-fit": reads("resourceStrategyFitWeight", "resources", "sra", "proportional"),
    "nodegroup": reads("strict", "enablePreferredOrder", flags=("enableHierarchy",)),
    "usage": reads("usage.weight", "cpu.weight", "memory.weight", "thresholds", "estimator"),
    "rescheduling": reads("interval", "metricsPeriod", "strategies"),
    "pdb": reads(),
    "cdp": reads(),
    "deviceshare": reads(prefixes=("deviceshare.",)),
    "task-topology": reads("task-topology.weight"),
    "numa-aware": reads("weight"),
    "network-topology-aware": reads("weight", prefixes=("hypernode.",)),
    "extender": reads(
        "extender.name",
        "extender.urlPrefix",
        "extender.httpTimeout",
        "extender.ignorable",
        "extender.managedResources",
        *(f"extender.{verb}Verb" for verb in VERBS),
    ),
    "site-policy": None,
    **{f"kai/{name}": reads() for name in ("predicates", "priority", "gpupack", "gpuspread", "sg-nodelocalgreedy")},
    "kai/proportion": reads("kValue"),
    "kai/nodeplacement": reads("cpu", "gpu"),
}
CACHE = "predicateErrorCacheEnable"
ACTIONS: dict[str, ArgumentsInfo | None] = {
    "enqueue": reads(),
    "allocate": reads(CACHE),
    "backfill": reads(CACHE),
    "preempt": reads(
        CACHE,
        "enableTopologyAwarePreemption",
        "topologyAwarePreemptWorkerNum",
        "minCandidateNodesPercentage",
        "minCandidateNodesAbsolute",
        "maxCandidateNodesAbsolute",
    ),
    "reclaim": reads(CACHE),
    "gangpreempt": reads("maxDomains", "allowWholeBundle"),
    "gangreclaim": reads("maxDomains", "allowWholeBundle"),
    "shuffle": reads(),
    **{f"kai/{name}": reads() for name in ("allocate", "consolidation", "reclaim", "preempt")},
}


def hook(
    name: str,
    flag: str | None,
    stop: Stop,
    plugins: str,
    asked_by: str = "",
    when: dict[str, str] | None = None,
    fold: str = "",
) -> HookInfo:
    return HookInfo(
        name,
        flag,
        fold,
        stop=stop,
        plugins=frozenset(plugins.split()),
        when=when or {},
        asked_by=frozenset(asked_by.split()) or None,
    )


EVICTING = "preempt reclaim gangpreempt gangreclaim"
HOOKS = (
    hook("job_order", "enableJobOrder", Stop.ANSWER, "priority gang drf sla tdm", fold="first that is not 0"),
    hook("task_order", "enableTaskOrder", Stop.ANSWER, "priority task-topology"),
    hook("queue_order", "enableQueueOrder", Stop.ANSWER, "drf proportion capacity", when={"drf": "enableHierarchy"}),
    hook("job_valid", None, Stop.ANSWER, "gang"),
    hook("job_ready", "enableJobReady", Stop.ANSWER, "gang extender"),
    hook("job_pipelined", "enableJobPipelined", Stop.TIER, "gang sla tdm", f"allocate {EVICTING}"),
    hook(
        "job_enqueueable", "enableJobEnqueued", Stop.TIER, "overcommit proportion capacity resourcequota sla", "enqueue"
    ),
    hook("job_starving", "enableJobStarving", Stop.FIRST_TIER, "priority gang tdm", EVICTING),
    hook(
        "preemptable", "enablePreemptable", Stop.TIER, "priority gang conformance drf tdm pdb cdp extender", "preempt"
    ),
    hook(
        "reclaimable",
        "enableReclaimable",
        Stop.TIER,
        "gang conformance drf proportion capacity pdb cdp extender",
        "reclaim",
        {"drf": "enableHierarchy"},
    ),
    hook("unified_evictable", None, Stop.TIER, "priority gang conformance capacity", "gangpreempt gangreclaim"),
    hook("overused", "enabledOverused", Stop.ANSWER, "proportion extender", "allocate reclaim gangreclaim"),
    hook("predicate", "enablePredicate", Stop.ANSWER, "predicates tdm nodegroup usage deviceshare extender"),
    hook("node_order", "enableNodeOrder", Stop.NEVER, "nodeorder binpack usage tdm deviceshare", fold="sum"),
    hook("victim_tasks", "enabledVictim", Stop.TIER, "rescheduling tdm pdb", "shuffle"),
    hook("hyper_node_gradient", "enabledHyperNodeGradient", Stop.FIRST_PLUGIN, "network-topology-aware site-policy"),
    hook("target_job", "enableTargetJob", Stop.FIRST_PLUGIN, ""),
    hook("scenario_generator", None, Stop.NEVER, "kai/sg-nodelocalgreedy", "kai/consolidation kai/reclaim kai/preempt"),
    hook("can_reclaim_resources", None, Stop.ANSWER, "kai/proportion", "kai/reclaim"),
    hook("gpu_order", None, Stop.NEVER, "kai/gpupack kai/gpuspread kai/nodeplacement kai/predicates kai/priority"),
)


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue(
        flags={**dict.fromkeys(ON, True), **dict.fromkeys(OFF, False)},
        plugins=PLUGINS,
        actions=ACTIONS,
        repeatable={"extender": "extender.name"},
        hooks=HOOKS,
    )
