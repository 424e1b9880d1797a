"""How much storage a driver says it can still give near a node (CSIStorageCapacity)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pumice.model import quantity
from pumice.model.api import CSIDriver, CSIStorageCapacity, StorageClass
from pumice.model.node import Node
from pumice.model.selectors import label_selector_matches
from pumice.state.cluster import ClusterState


class StorageRoom:
    """Whether there is storage for a new volume, where drivers tell."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def is_told(self, storage: StorageClass | None) -> bool:
        """Report whether the driver of a storage class tells how much it can give. If not, it is asked without
        knowing."""
        driver = self._state.kind("CSIDriver").get(storage.provisioner) if storage is not None else None
        return isinstance(driver, CSIDriver) and bool(driver.spec.get("storageCapacity"))

    def suffices(self, storage: StorageClass, size: int, node: Node, others: Sequence[tuple[str, int]]) -> bool:
        """Report whether a volume of *size* can be made for the node, beside *others* (node, size) that are still to be
        made."""
        for told in self._state.kind("CSIStorageCapacity").values():
            if not isinstance(told, CSIStorageCapacity) or told.storage_class_name != storage.metadata.name:
                continue
            if not self._reaches(told, node.name) or told.capacity is None:
                continue
            spent = sum(amount for where, amount in others if self._reaches(told, where))
            most = quantity.value(told.maximum_volume_size if told.maximum_volume_size is not None else told.capacity)
            if size <= most and (not spent or spent + size <= quantity.value(told.capacity)):
                return True
        return False

    def _reaches(self, told: CSIStorageCapacity, node_name: str) -> bool:
        node = self._state.nodes.get(node_name)
        labels: Mapping[str, str] = node.labels if node is not None else {}
        return label_selector_matches(told.node_topology, labels)
