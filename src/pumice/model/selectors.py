"""Label selectors, node selectors and tolerations, and whether they match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pumice.model.api import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement, Taint, Toleration
from pumice.model.quantity import whole_number


def requirement_matches(req: Requirement, labels: Mapping[str, str]) -> bool:
    """One selector line against labels; an unknown operator or an unreadable number matches nothing."""
    have = labels.get(req.key)
    match req.operator:
        case "In":
            return have is not None and have in (req.values or ())
        case "NotIn":
            return have is None or have not in (req.values or ())
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt":
            left, right = (whole_number(text, -(2**63)) for text in (have or "", (req.values or ("",))[0]))
            if left is None or right is None:
                return False
            return left > right if req.operator == "Gt" else left < right
        case _:
            return False


def label_selector_matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """A label selector against labels. No selector matches nothing; an empty one matches everything."""
    if selector is None:
        return False
    return all(labels.get(k) == v for k, v in (selector.match_labels or {}).items()) and all(
        requirement_matches(r, labels) for r in selector.match_expressions or ()
    )


def selector_keys(selector: LabelSelector | None) -> set[str]:
    """The label keys that a selector looks at."""
    if selector is None:
        return set()
    return {*(selector.match_labels or {}), *(r.key for r in selector.match_expressions or ())}


def node_term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """One node selector term: all its expressions and fields; an empty term matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(requirement_matches(r, labels) for r in term.match_expressions or ()) and all(
        requirement_matches(r, {"metadata.name": name}) for r in term.match_fields or ()
    )


def node_selector_matches(selector: NodeSelector, labels: Mapping[str, str], name: str) -> bool:
    """A node selector: any of its terms."""
    return any(node_term_matches(t, labels, name) for t in selector.node_selector_terms or ())


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Report whether one toleration covers one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator or "Equal":
        case "Exists":
            return True
        case "Equal":
            return bool(toleration.key) and toleration.value == taint.value
        case "Gt" | "Lt":
            try:
                have, limit = int(taint.value), int(toleration.value)
            except ValueError:
                return False
            return have > limit if toleration.operator == "Gt" else have < limit
        case _:
            return False


def tolerated(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Report whether any toleration covers the taint."""
    return any(tolerates(t, taint) for t in tolerations)
