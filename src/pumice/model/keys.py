"""Every annotation and label that is read or written anywhere: who reads another adds it here first.

Anybody who may create a pod may write these, whatever they like: a test tries each with everything that nobody
expects.
"""

from __future__ import annotations

from typing import Final

# -- pods and the groups they belong to
GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
ROLE_KEY: Final = "volcano.sh/task-spec"
TASK_PRIORITY_ANNOTATION: Final = "volcano.sh/task-priority"
PREEMPTABLE_KEY: Final = "volcano.sh/preemptable"
GPU_FRACTION: Final = "gpu-fraction"
GPU_MEMORY: Final = "gpu-memory"
GPU_DEVICES: Final = "gpu-fraction-num-devices"
GPU_ANNOTATIONS: Final = (GPU_FRACTION, GPU_MEMORY, GPU_DEVICES)
PREEMPTIBILITY_LABEL: Final = "kai.scheduler/preemptibility"
KAI_QUEUE_LABEL: Final = "kai.scheduler/queue"
POD_GROUP_ANNOTATION: Final = "pod-group-name"
LAST_START: Final = "kai.scheduler/last-start-timestamp"
LAST_EVICTION: Final = "kai.scheduler/last-eviction-timestamp"
STALE_SINCE: Final = "kai.scheduler/stale-podgroup-timestamp"
SUBGROUP_LABEL: Final = "kai.scheduler/subgroup-name"
TASK_PRIORITY_LABEL: Final = "kai.scheduler/task-priority"
RECEIVED_TYPE: Final = "received-resource-type"
RAY_NODE_TYPE: Final = "ray.io/node-type"
KUBEFLOW_ROLE: Final = "training.kubeflow.org/job-role"
MIG_ANNOTATIONS: Final = "nvidia.com/mig-"
"""What annotations that ask for MIG instances begin with."""
MIG_STRATEGY: Final = "nvidia.com/mig.strategy"
RUN_TIME_ANNOTATION: Final = "pumice.dev/run-time"
SIM_RUN_ANNOTATION: Final = "sim.pumice.dev/run-time"
SIM_FAILS_ANNOTATION: Final = "sim.pumice.dev/fails-after"
SIM_USES_ANNOTATION: Final = "sim.pumice.dev/uses"
SIM_CHECKPOINT_ANNOTATION: Final = "sim.pumice.dev/checkpoint"
USER_ANNOTATION: Final = "volcano.sh/user"
SLA_WAITING: Final = "volcano.sh/sla-waiting-time"
SLA_WAITING_OLD: Final = "sla-waiting-time"
SCORING_TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
SCORING_WEIGHT: Final = "volcano.sh/resource-strategy-weight"
TOPOLOGY_AFFINITY: Final = "volcano.sh/task-topology-affinity"
TOPOLOGY_ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
TOPOLOGY_TASK_ORDER: Final = "volcano.sh/task-topology-task-order"
NODE_GROUP: Final = "volcano.sh/nodegroup-name"
NODE_GROUP_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"

# -- jobs and what controllers make of them
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
MIN_MEMBER_ANNOTATION: Final = "scheduling.volcano.sh/group-min-member"
TOPOLOGY_MODE: Final = "volcano.sh/network-topology-mode"
TOPOLOGY_TIER: Final = "volcano.sh/network-topology-highest-tier"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
GPU_INDEX: Final = "volcano.sh/gpu-index"
GPU_PREDICATE_TIME: Final = "volcano.sh/predicate-time"
GPU_UNHEALTHY: Final = "volcano.sh/gpu-unhealthy-ids"
VGPU_REGISTER: Final = "volcano.sh/node-vgpu-register"
VGPU_HANDSHAKE: Final = "volcano.sh/node-vgpu-handshake"
VGPU_MODE: Final = "volcano.sh/vgpu-mode"
VGPU_IDS: Final = "volcano.sh/vgpu-ids-new"
VGPU_TO_ALLOCATE: Final = "volcano.sh/devices-to-allocate"
VGPU_NODE: Final = "volcano.sh/vgpu-node"
VGPU_TIME: Final = "volcano.sh/vgpu-time"
VGPU_BIND_PHASE: Final = "volcano.sh/bind-phase"
VGPU_BIND_TIME: Final = "volcano.sh/bind-time"
USE_GPU_TYPE: Final = "nvidia.com/use-gputype"
NO_USE_GPU_TYPE: Final = "nvidia.com/nouse-gputype"
NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_TYPE: Final = "volcano.sh/job-type"
TASK_INDEX: Final = "volcano.sh/task-index"
QUEUE_NAME: Final = "volcano.sh/queue-name"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"
BATCH_JOB_NAME: Final = "batch.kubernetes.io/job-name"
BATCH_JOB_NAME_OLD: Final = "job-name"

# -- nodes and volumes
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
ZONE_OLD: Final = "failure-domain.beta.kubernetes.io/zone"
REGION_OLD: Final = "failure-domain.beta.kubernetes.io/region"
GPU_MODEL: Final = "nvidia.com/gpu.product"
GPU_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
GPU_COUNT_LABEL: Final = "nvidia.com/gpu.count"
NODE_POOL_LABEL: Final = "kai.scheduler/node-pool"
OVERSUBSCRIPTION_CPU: Final = "volcano.sh/oversubscription-cpu"
OVERSUBSCRIPTION_MEMORY: Final = "volcano.sh/oversubscription-memory"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"

KEYS: Final = frozenset(
    key
    for value in tuple(vars().values())
    for key in (value if isinstance(value, tuple) else (value,))
    if isinstance(key, str) and ("/" in key or "-" in key) and " " not in key
)
"""All of them."""
