"""nodeorder: kube-scheduler's scores, weighted and added up."""

from pumice.plugins.nodeorder.nodeorder import NodeOrder

__all__ = ["NodeOrder"]
