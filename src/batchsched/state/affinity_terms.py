"""Finds the terms of inter-pod affinity that select a task without trying every term."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attrs import evolve, frozen

from batchsched.model.cluster import TaskInfo
from batchsched.model.constraints import LabelSelector, Operator, PodAffinityTerm
from batchsched.state.domain_counts import DomainCount

__all__ = ["Meaning", "Need", "Selection", "Term", "TermsByNeed", "meaning_of", "needs_met"]

_EXCEPTIONS = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)


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

    def without_exceptions(self) -> Meaning:
        """Return the selection without its requirements about labels that a task must not have."""
        selector = self.selector
        if selector is None:
            return self
        expressions = selector.match_expressions
        kept = [each for each in expressions if each.operator not in _EXCEPTIONS]
        if len(kept) == len(expressions):
            return self
        return evolve(self, selector=evolve(selector, match_expressions=kept))

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

    def needs_of_exceptions(self) -> Iterator[Need]:
        """Yield needs; each task that is not selected, but would be without them, meets some."""
        if self.selector is None:
            return
        for requirement in self.selector.match_expressions:
            labels: Iterable[tuple[str, ...]] = ()
            if requirement.operator is Operator.NOT_IN:
                labels = [(requirement.key, value) for value in requirement.values]
            elif requirement.operator is Operator.DOES_NOT_EXIST:
                labels = [(requirement.key,)]
            for label in labels:
                for namespace in sorted(self.namespaces):
                    yield namespace, label


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
class Selection:
    """The tasks that one term selects, or several terms together; or the exceptions from those."""

    together: frozenset[Meaning]
    """The selected tasks are those that all of these select."""
    exceptions_from: frozenset[Meaning] | None = None
    """If given, `together` is this without exceptions, and these exceptions are selected."""

    @classmethod
    def parts(cls, together: frozenset[Meaning]) -> list[Selection]:
        """Return a selection that includes all that terms select, and one of the others in it.

        The second is left out if the terms have no exceptions. Many terms differ in those alone:
        "all but my own tasks".
        """
        general = frozenset(meaning.without_exceptions() for meaning in together)
        whole = cls(general)
        return [whole] if general == together else [whole, cls(general, together)]

    @property
    def is_whole(self) -> bool:
        """Whether these are not exceptions."""
        return self.exceptions_from is None

    @property
    def whole(self) -> Selection:
        """The selection that includes these exceptions, too."""
        return Selection(self.together)

    @property
    def sign(self) -> int:
        """1 if what is counted of the selected tasks is added, and -1 if it is subtracted."""
        return 1 if self.is_whole else -1

    def means(self, info: TaskInfo) -> bool:
        """Return whether a task is selected."""
        if not all(meaning.means(info) for meaning in self.together):
            return False
        full = self.exceptions_from
        return full is None or not all(meaning.means(info) for meaning in full)

    def needs(self) -> Iterator[list[Need]]:
        """Yield lists of needs; each selected task meets at least one need of each list."""
        for meaning in self.together:
            yield from meaning.needs()
        if self.exceptions_from is not None:
            needs = [need for each in self.exceptions_from for need in each.needs_of_exceptions()]
            yield sorted(set(needs))


@frozen(eq=False)
class Term:
    """A term, or several terms of one task, with its count."""

    selection: Selection
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
            term.selection.needs(),
            key=lambda needs: (sum(self._met.get(need, 0) for need in needs), needs),
        )
        for need in needs:
            self._terms.setdefault(need, []).append(term)

    def that_mean(self, info: TaskInfo) -> Iterator[Term]:
        """Yield the terms that select a task, each once."""
        possible = dict.fromkeys(
            term for need in needs_met(info) for term in self._terms.get(need, ())
        )
        return (term for term in possible if term.selection.means(info))
