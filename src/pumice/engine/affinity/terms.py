"""Affinity terms and spread constraints, read once per class: which pods they select, by which node label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from pumice.model.api import LabelSelector, PodAffinityTerm, Requirement
from pumice.model.selectors import label_selector_matches
from pumice.model.task import TaskClass

NamespaceLabels = Callable[[str], Mapping[str, str]]

_encode = msgspec.msgpack.Encoder(order="sorted").encode


class Selector:
    """Which pods are meant: all of *parts* must match, each a namespace rule and a label selector."""

    __slots__ = ("key", "leaving_too", "needs", "parts")

    def __init__(self, parts: tuple[SelectorPart, ...], *, leaving_too: bool) -> None:
        self.parts = parts
        self.leaving_too = leaving_too
        """Whether terminating pods count."""
        self.key = _encode((leaving_too, [p.key for p in parts]))
        """Equal for selectors that mean the same. In one piece: it is looked up once for each of a pod's terms."""
        self.needs = next((p.needs for p in parts if p.needs is not None), None)
        """A label and value that every selected pod has, if one is known."""

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: NamespaceLabels) -> bool:
        """Report whether a pod with these labels matches."""
        return all(p.matches(namespace, labels, namespace_labels) for p in self.parts)


class SelectorPart:
    """One namespace rule with one label selector."""

    __slots__ = ("_by_labels", "_labels", "_namespaces", "key", "needs")

    def __init__(
        self, namespaces: frozenset[str], by_labels: LabelSelector | None, labels: LabelSelector | None
    ) -> None:
        self._namespaces, self._by_labels, self._labels = namespaces, by_labels, labels
        self.key = (namespaces, _encode(by_labels), _encode(labels))
        self.needs = next(iter((labels.match_labels or {}).items()), None) if labels is not None else None

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: NamespaceLabels) -> bool:
        """Report whether a pod with these labels matches."""
        inside = namespace in self._namespaces or (
            self._by_labels is not None and label_selector_matches(self._by_labels, namespace_labels(namespace))
        )
        return inside and label_selector_matches(self._labels, labels)


class TermKind(Enum):
    """The requirements of a term."""

    AFFINITY = "required affinity"
    ANTI_AFFINITY = "required anti-affinity"
    PREFERRED = "preferred affinity (negative weight: anti-affinity)"


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One affinity term of a class of pods."""

    kind: TermKind
    selector: Selector
    topology_key: str
    weight: int = 0

    @property
    def key(self) -> object:
        """Equal for terms that mean the same."""
        return self.kind, self.selector.key, self.topology_key, self.weight


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """All affinity terms of a class, by what they ask for."""

    all: tuple[Term, ...] = ()
    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[Term, ...] = ()
    together: Selector | None = None
    """Pods that every term of required affinity selects."""


NO_TERMS: Final = Terms()


def affinity_part(term: PodAffinityTerm, namespace: str) -> SelectorPart:
    """The selector of an affinity term of a pod in *namespace*."""
    names = frozenset(term.namespaces or ())
    if not names and term.namespace_selector is None:
        names = frozenset((namespace,))
    return SelectorPart(names, term.namespace_selector, term.label_selector)


def terms_of(klass: TaskClass) -> Terms:
    """The affinity and anti-affinity terms of a class; `NO_TERMS` when it has none."""
    affinity = klass.spec.affinity
    if affinity is None:
        return NO_TERMS
    out: list[Term] = []
    for wanted, kind, sign in (
        (affinity.pod_affinity, TermKind.AFFINITY, 1),
        (affinity.pod_anti_affinity, TermKind.ANTI_AFFINITY, -1),
    ):
        if wanted is None:
            continue
        for term in wanted.required or ():
            selector = Selector((affinity_part(term, klass.namespace),), leaving_too=True)
            out.append(Term(kind, selector, term.topology_key))
        for weighted in wanted.preferred or ():
            term = weighted.pod_affinity_term
            selector = Selector((affinity_part(term, klass.namespace),), leaving_too=True)
            out.append(Term(TermKind.PREFERRED, selector, term.topology_key, sign * weighted.weight))
    if not out:
        return NO_TERMS
    required = tuple(t for t in out if t.kind is TermKind.AFFINITY)
    return Terms(
        tuple(out),
        required,
        tuple(t for t in out if t.kind is TermKind.ANTI_AFFINITY),
        tuple(t for t in out if t.kind is TermKind.PREFERRED),
        Selector(tuple(p for t in required for p in t.selector.parts), leaving_too=True) if required else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """One topology spread constraint as it applies to pods of certain labels."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: Selector
    affinity_matters: bool
    taints_matter: bool


def spreads_of(klass: TaskClass, labels: Mapping[str, str], when: str) -> tuple[Spread, ...]:
    """The constraints of a class with one *whenUnsatisfiable*, for a pod with these labels."""
    out = []
    for c in klass.spec.topology_spread_constraints or ():
        if c.when_unsatisfiable != when:
            continue
        selector = c.label_selector
        own = [Requirement(key=k, operator="In", values=(labels[k],)) for k in c.match_label_keys or () if k in labels]
        if own and selector is not None:
            selector = LabelSelector(
                match_labels=selector.match_labels, match_expressions=(*(selector.match_expressions or ()), *own)
            )
        part = SelectorPart(frozenset((klass.namespace,)), None, selector)
        out.append(
            Spread(
                c.topology_key,
                c.max_skew,
                1 if c.min_domains is None else c.min_domains,
                Selector((part,), leaving_too=False),
                c.node_affinity_policy != "Ignore",
                c.node_taints_policy == "Honor",
            )
        )
    return tuple(out)
