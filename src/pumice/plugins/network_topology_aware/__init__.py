"""network-topology-aware: gangs in one domain of the network, and domains filled up one after the other."""

from pumice.plugins.network_topology_aware.network_topology_aware import NetworkTopologyAware

__all__ = ["NetworkTopologyAware"]
