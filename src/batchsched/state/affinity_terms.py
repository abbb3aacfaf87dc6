"""Finds the terms of inter-pod affinity that select a task without trying every term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from batchsched.model.cluster import TaskInfo
from batchsched.model.constraints import LabelSelector, Operator, PodAffinityTerm
from batchsched.state.domain_counts import DomainCount

__all__ = ["Meaning", "Need", "Term", "TermsByNeed", "meaning_of", "needs_met"]


@frozen
class Meaning:
    """The tasks that a term selects, by namespace and label."""

    namespaces: frozenset[str]
    selector: LabelSelector | None

    def means(self, task: TaskInfo) -> bool:
        """Return whether a task is selected."""
        return (
            self.selector is not None
            and task.namespace in self.namespaces
            and self.selector.matches(task.labels)
        )

    def needs(self) -> Iterator[list[Need]]:
        """Yield lists of needs; each selected task meets exactly one need of each list."""
        selector = self.selector
        if selector is None:
            yield []
            return
        namespaces = sorted(self.namespaces)
        yield [(namespace, ()) for namespace in namespaces]
        for label in selector.match_labels.items():
            yield [(namespace, label) for namespace in namespaces]
        for requirement in selector.match_expressions:
            if requirement.operator is Operator.IN:
                labels = [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
                yield [(namespace, label) for namespace in namespaces for label in labels]
            elif requirement.operator is Operator.EXISTS:
                yield [(namespace, (requirement.key,)) for namespace in namespaces]


Need = tuple[str, tuple[str, ...]]
"""A namespace, with a label, the key of a label, or nothing."""


def needs_met(info: TaskInfo) -> Iterator[Need]:
    """Yield the needs that a task meets."""
    yield info.namespace, ()
    for label in info.labels.items():
        yield info.namespace, label
        yield info.namespace, label[:1]


def meaning_of(term: PodAffinityTerm, own_namespace: str) -> Meaning:
    """Return the selection of a term on a task in `own_namespace`."""
    return Meaning(frozenset(term.namespaces or (own_namespace,)), term.selector)


@frozen
class Term:
    """A term, or several terms of one task, with its count."""

    together: frozenset[Meaning]
    """The selected tasks are those that all of these select."""
    carried: str
    """The kind of term, if the tasks that carry it are counted; empty: selected tasks are."""
    count: DomainCount
    is_repelled: bool = False
    """Whether selected tasks that are only promised a node count too."""


class TermsByNeed:
    """Terms by a need that every selected task meets.

    Usually each job has its own label and terms about that label. Trying every term on every task
    would then cost jobs x jobs, nearly all without a match.
    """

    def __init__(self, met: Mapping[Need, int]) -> None:
        self._met = met
        self._terms: dict[Need, list[Term]] = {}

    def add(self, term: Term) -> None:
        """Add a term under the needs that the fewest tasks meet."""
        needs = min(
            (needs for meaning in term.together for needs in meaning.needs()),
            key=lambda needs: (sum(self._met.get(need, 0) for need in needs), needs),
        )
        for need in needs:
            self._terms.setdefault(need, []).append(term)

    def that_mean(self, info: TaskInfo) -> Iterator[Term]:
        """Yield the terms that select a task."""
        for need in needs_met(info):
            for term in self._terms.get(need, ()):
                if all(meaning.means(info) for meaning in term.together):
                    yield term
