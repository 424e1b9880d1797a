"""The predicates plugin: which filters it registers."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.affinity.neighbours import Neighbours
from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope, skip_unless
from pumice.engine.views import same_class
from pumice.framework.arguments import Argument, Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import EventHandler
from pumice.framework.session.session import Session
from pumice.model.reason import reason_id
from pumice.model.task import Task
from pumice.plugins.predicates import fixed_filters as fixed
from pumice.plugins.predicates.devices import Devices
from pumice.plugins.predicates.one_domain import OneDomain, job_confined
from pumice.plugins.predicates.shared_filters import shared_filters, volumes_of
from pumice.state.classes import Feature

Reasons = npt.NDArray[np.int32]

TOO_MANY_PODS: Final = reason_id("predicates", "node(s) pod number exceeded")
_OF_DEVICES: Final = frozenset({Feature.DEVICE_CLAIMS, Feature.DEVICE_CLASSES})


_SWITCHES: Final = {
    "NodeAffinity": "Node selector and required node affinity.",
    "NodePorts": "Host ports.",
    "TaintToleration": "Taints `NoSchedule` and `NoExecute`.",
    "PodAffinity": "Required inter-pod affinity and anti-affinity.",
    "PodTopologySpread": "Spread constraints with `DoNotSchedule`.",
    "NodeVolumeLimits": "How many volumes a CSI driver can attach.",
    "VolumeZone": "Zone and region of bound volumes.",
    "VolumeBinding": "Claims: bound volumes in reach, volumes to bind or to make.",
}
_IGNORED: Final = "Has no effect: answers are always kept, by what they depend on."


class Predicates(Plugin):
    """Keeps tasks off nodes as kube-scheduler does (resources are the actions' business)."""

    name = "predicates"
    persistent = True
    switches = tuple(Argument(True, doc, name=f"predicate.{name}Enable") for name, doc in _SWITCHES.items())
    counts_devices = Argument(
        True,
        "Device claims, and extended resources that a device class stands for.",
        name="predicate.DynamicResourceAllocationEnable",
    )
    bind_within = Argument(
        600.0,
        "Time until a claim that does not get its volume is given up, and with it the bind.",
        name="volumebinding.bindTimeoutSeconds",
        unit="seconds",
    )
    ignored = tuple(
        Argument[object](None, _IGNORED, name=name, read=Arguments.get)
        for name in (
            *("predicate.CacheEnable", "volumebinding.weight", "volumebinding.shape"),
            "dynamicresources.filterTimeoutSeconds",
        )
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._on = {name: one.of(self.arguments) for name, one in zip(_SWITCHES, self.switches, strict=True)}

    def on_session_open(self, ssn: Session) -> None:
        used = ssn.state.classes.features
        add = ssn.add_batch_predicate_fn
        name, static = self.name, Scope.STATIC
        add(name, room_for_a_pod, scope=Scope.NODE, key=same_class)
        add(name, fixed.not_cordoned, scope=static, key=same_class)
        if self._on["NodeAffinity"] and Feature.NODE_SELECTION in used:
            add(name, fixed.selected, scope=static, key=same_class)
        if self._on["TaintToleration"]:
            add(name, fixed.tolerating, scope=static, key=same_class)
        if Feature.NEIGHBOURS in used:
            self._see_neighbours(ssn)
        if Feature.VOLUME_CLAIMS in used:
            volumes_of(ssn).within = self.bind_within
        for shared in shared_filters(ssn, lambda row: self._on.get(row.name, True)):
            add(name, shared.fn, scope=shared.scope, key=shared.key)
        if Feature.GROUP_DOMAIN in used:
            domain = OneDomain(ssn)
            add(name, domain.filter, key=job_confined)
            ssn.add_subset_nodes_fn(name, domain.sets)
        if self.counts_devices and not used.isdisjoint(_OF_DEVICES):
            self._add_devices(ssn)

    def _add_devices(self, ssn: Session) -> None:
        """Device claims, for clusters where pods use them."""
        devices = Devices.kept(ssn.runtime.kept, ssn.state)
        devices.promised = ssn.memory.setdefault("devices", {})
        devices.forget_settled()
        devices.offer()
        ssn.prepare_binds(devices.choices)
        ssn.add_batch_predicate_fn(self.name, devices.filter, key=skip_unless(devices.wanted))
        ssn.add_event_handler(EventHandler(devices.placed, devices.taken_back, devices.placed_many))

    def _see_neighbours(self, ssn: Session) -> None:
        """Have the index of pods by domain follow the session, as Volcano does or at once."""
        index = Neighbours.kept(ssn.runtime.kept, ssn.state)
        if ssn.compat.stale_neighbours:
            simulates = ssn.action_arguments("preempt").bool("enableTopologyAwarePreemption", False)
            index.as_at_opening(counts_evicted=not simulates)
            ssn.add_pre_predicate_fn(self.name, lambda task: index.settle())
        else:
            index.live()


def room_for_a_pod(_: Task | None, rows: NodeRows) -> Reasons | None:
    """The node holds fewer pods than it may."""
    full = rows.max_pods <= rows.pod_count
    return np.multiply(full, TOO_MANY_PODS, dtype=np.int32) if np.count_nonzero(full) else None
