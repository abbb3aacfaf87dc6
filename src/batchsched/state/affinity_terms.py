"""Which terms of inter-pod affinity mean a task, found without trying every term."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from batchsched.model.cluster import TaskInfo
from batchsched.model.constraints import LabelSelector, Operator, PodAffinityTerm
from batchsched.state.domain_counts import DomainCount

__all__ = ["Meaning", "Need", "Term", "TermsByNeed", "meaning_of", "needs_met"]


@frozen
class Meaning:
    """The tasks that a term means: by namespace and label."""

    namespaces: frozenset[str]
    selector: LabelSelector | None

    def means(self, task: TaskInfo) -> bool:
        """Return whether a task is one of them."""
        return (
            self.selector is not None
            and task.namespace in self.namespaces
            and self.selector.matches(task.labels)
        )

    def needs(self) -> Iterator[list[Need]]:
        """Yield lists of which a task that is meant has one, and one only."""
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
"""A namespace, and a label, or its key, or nothing more."""


def needs_met(info: TaskInfo) -> Iterator[Need]:
    """Yield what a task has of what terms may ask for."""
    yield info.namespace, ()
    for label in info.labels.items():
        yield info.namespace, label
        yield info.namespace, label[:1]


def meaning_of(term: PodAffinityTerm, own_namespace: str) -> Meaning:
    """Return the tasks that a term means, which stands on a task in `own_namespace`."""
    return Meaning(frozenset(term.namespaces or (own_namespace,)), term.selector)


@frozen
class Term:
    """A term, or several of one task, and what is counted for it."""

    together: frozenset[Meaning]
    """Whom it means: the tasks that all of these mean."""
    carried: str
    """How it is carried, if those who carry it are counted; empty: those whom it means are."""
    count: DomainCount
    is_repelled: bool = False
    """Whether those whom it means count who are only promised a node, too."""


class TermsByNeed:
    """Terms by something that a task must have for them to mean it.

    Mostly each job has a label of its own and terms about that. To try every term on every
    task would then cost jobs x jobs, and nearly all in vain.
    """

    def __init__(self, met: Mapping[Need, int]) -> None:
        self._met = met
        self._terms: dict[Need, list[Term]] = {}

    def add(self, term: Term) -> None:
        """Keep a term by that need which the fewest tasks meet."""
        needs = min(
            (needs for meaning in term.together for needs in meaning.needs()),
            key=lambda needs: (sum(self._met.get(need, 0) for need in needs), needs),
        )
        for need in needs:
            self._terms.setdefault(need, []).append(term)

    def that_mean(self, info: TaskInfo) -> Iterator[Term]:
        """Yield the terms that mean a task."""
        for need in needs_met(info):
            for term in self._terms.get(need, ()):
                if all(meaning.means(info) for meaning in term.together):
                    yield term
