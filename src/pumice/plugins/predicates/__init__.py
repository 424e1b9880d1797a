"""predicates: kube-scheduler's filters."""

from pumice.plugins.predicates.predicates import Predicates

__all__ = ["Predicates"]
