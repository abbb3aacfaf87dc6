"""The index of inter-pod affinity: counts of attracting and repelling tasks by domain.

Matching each task with all tasks on all nodes would cost tasks x tasks. Instead the
index counts, for each term and topology domain, the occupying tasks that the term
selects or that carry the term. Evaluating a node then costs one look-up for each
term that concerns the task.

With terms like "all but my own tasks", almost every term concerns almost every task. Such terms
are counted together as if they had no exceptions, and the exceptions are subtracted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from attrs import define, evolve, field

from batchsched.causes import UnfitReason
from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.constraints import LabelSelector, Operator, PodAffinityTerm
from batchsched.state.memory import Watch
from batchsched.state.records import NodeState, TaskState


class ChangeNumber:
    """Numbers the changes of several counts in order.

    So one number says for all of them how much a reader has seen.
    """

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest = 1
        """Who begins to read at 0 has seen nothing yet."""


class DomainChanges:
    """When each domain changed last; a `Watch`."""

    __slots__ = ("_all_changed", "_last", "_nodes_in", "_number")

    def __init__(self, nodes_in: Mapping[str, Sequence[int]], number: ChangeNumber) -> None:
        self._nodes_in = nodes_in
        self._number = number
        self._last: dict[str, int] = {}
        """The number of the last change of each domain, in order."""
        self._all_changed = 1
        """The number of the last change of all domains together."""

    def note(self, domain: str) -> None:
        """Record that a domain changed."""
        self._number.latest = now = self._number.latest + 1
        # Domains that changed last come last.
        self._last.pop(domain, None)
        self._last[domain] = now

    def note_all(self) -> None:
        """Record that all domains changed."""
        self._number.latest = self._all_changed = self._number.latest + 1

    def domains_since(self, position: int, /) -> list[str]:
        """Return the domains that were noted since a position, one by one. O(domains returned)."""
        found: list[str] = []
        for domain, last in reversed(self._last.items()):
            if last <= position:
                break
            found.append(domain)
        return found

    def changed_since(self, position: int, /) -> tuple[int, Collection[int] | None]:
        """Return the present position, and the nodes of the domains noted since; None: all."""
        if self._all_changed > position:
            return self._number.latest, None
        nodes: list[int] = []
        for domain in self.domains_since(position):
            nodes.extend(self._nodes_in[domain])
        return self._number.latest, nodes


class DomainCount:
    """A count for each domain of one topology key, with logs of changes."""

    __slots__ = (
        *("any_appearance", "appeared", "changes", "counts", "key", "nodes_in", "number", "total"),
    )

    def __init__(
        self, key: str, nodes_in: Mapping[str, Sequence[int]], number: ChangeNumber
    ) -> None:
        self.key = key
        """The node label whose value names the domain."""
        self.nodes_in = nodes_in
        """The slots of the nodes of each domain."""
        self.number = number
        """Numbers the changes of this count and of others."""
        self.counts: dict[str, int] = {}
        """The count of each domain, without domains of count 0."""
        self.total = 0
        """The sum of all counts."""
        self.changes = DomainChanges(nodes_in, number)
        """The domains whose count changed."""
        self.appeared = DomainChanges(nodes_in, number)
        """The domains whose count became 0 or ceased to be 0."""
        self.any_appearance = DomainChanges(nodes_in, number)
        """All domains, whenever all counts became 0 or one ceased to be 0."""

    def add(self, labels: Mapping[str, str], amount: int) -> None:
        """Add an amount to the domain of a node with these labels, if it has one."""
        domain = labels.get(self.key)
        if domain is None:
            return
        counts = self.counts
        before = counts.get(domain, 0)
        after = before + amount
        self.total += amount
        if after:
            counts[domain] = after
        else:
            del counts[domain]
        if not before or not after:
            self.appeared.note(domain)
            if len(counts) <= (not before):
                self.any_appearance.note_all()
        self.changes.note(domain)

    def of(self, labels: Mapping[str, str]) -> int:
        """Return the count of the domain of a node with these labels; 0 without a domain."""
        domain = labels.get(self.key)
        return 0 if domain is None else self.counts.get(domain, 0)

    def is_at(self, labels: Mapping[str, str], /) -> bool:
        """Return whether the count of the domain of a node with these labels is not 0."""
        return labels.get(self.key) in self.counts

    @property
    def is_anywhere(self) -> bool:
        """Whether any count is not 0."""
        return bool(self.counts)

    @property
    def appearances(self) -> Sequence[Watch]:
        """Report the domains whose count became 0 or ceased to be 0."""
        return (self.appeared,)


class NetCount:
    """A count from which others, of some of the same tasks, are subtracted.

    The first count may be part of many net counts, so none of these is updated before it is asked.
    """

    __slots__ = (
        *("_any_appearance", "_appeared", "_as_of", "_exceptions", "_known", "_was_anywhere"),
        "_whole",
    )

    def __init__(self, whole: DomainCount, exceptions: Sequence[DomainCount]) -> None:
        """Begin with counts that are all 0.

        Args:
            whole: the count of which the others are a part.
            exceptions: the counts to subtract, at least one, of the same topology key.

        """
        assert not whole.counts
        self._whole = whole
        self._exceptions = exceptions
        self._as_of = 0
        self._known: dict[str, bool] = {}
        """For each domain where there were exceptions: whether anything remained at `_as_of`."""
        self._was_anywhere = False
        self._appeared = DomainChanges(whole.nodes_in, whole.number)
        self._any_appearance = DomainChanges(whole.nodes_in, whole.number)

    def is_at(self, labels: Mapping[str, str], /) -> bool:
        """Return whether anything remains in the domain of a node with these labels."""
        domain = labels.get(self._whole.key)
        return domain is not None and self._remains_in(domain)

    @property
    def is_anywhere(self) -> bool:
        """Whether anything remains in any domain."""
        return self._whole.total > sum(count.total for count in self._exceptions)

    @property
    def appearances(self) -> Sequence[Watch]:
        """Report the domains where everything became or ceased to be an exception."""
        # Where there are no exceptions, the whole count alone decides.
        return self._whole.appeared, _Refreshed(self, self._appeared)

    @property
    def any_appearance(self) -> Watch:
        """Reports all domains, whenever `is_anywhere` changed."""
        return _Refreshed(self, self._any_appearance)

    def refresh(self) -> None:
        """Read what changed since the last time. O(domains that changed x counts)."""
        as_of, known = self._as_of, self._known
        if as_of == self._whole.number.latest:
            return
        changed = [d for each in self._exceptions for d in each.changes.domains_since(as_of)]
        if known:
            changed += [d for d in self._whole.changes.domains_since(as_of) if d in known]
        for domain in changed:
            remains = self._remains_in(domain)
            if known.get(domain) is not remains:
                known[domain] = remains
                self._appeared.note(domain)
        if self.is_anywhere is not self._was_anywhere:
            self._was_anywhere = not self._was_anywhere
            self._any_appearance.note_all()
        self._as_of = self._whole.number.latest

    def _remains_in(self, domain: str) -> bool:
        remaining = self._whole.counts.get(domain, 0)
        if remaining:
            for count in self._exceptions:
                remaining -= count.counts.get(domain, 0)
        assert remaining >= 0, "more exceptions than there are in all"
        return remaining > 0


class _Refreshed:
    """A log of a net count, which is brought up to date before it is read; a `Watch`."""

    __slots__ = ("_changes", "_count")

    def __init__(self, count: NetCount, changes: DomainChanges) -> None:
        self._count = count
        self._changes = changes

    def changed_since(self, position: int, /) -> tuple[int, Collection[int] | None]:
        """Return the present position, and the nodes of the domains noted since; None: all."""
        self._count.refresh()
        return self._changes.changed_since(position)


_EXCEPTIONS = (Operator.NOT_IN, Operator.DOES_NOT_EXIST)


class Meaning(NamedTuple):
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
        return self._replace(selector=evolve(selector, match_expressions=kept))

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


def first_it_must_be_near(task: TaskState, others: Iterable[TaskState]) -> TaskState | None:
    """Return the first of some tasks that a task must be near; None: there is none, or it is one.

    O(tasks x terms).
    """
    info = task.info
    terms = () if info.pod_affinity is None else info.pod_affinity.required
    meanings = [meaning_of(term, info.namespace) for term in terms]
    if not meanings or all(meaning.means(info) for meaning in meanings):
        return None
    near = (other for other in others if all(each.means(other.info) for each in meanings))
    return next(near, None)


class Selection(NamedTuple):
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


@define(eq=False)
class Term:
    """A term, or several terms of one task, with its count."""

    selection: Selection
    carried: str
    """The kind of term, if the tasks that carry it are counted; empty: selected tasks are."""
    count: DomainCount
    is_repelled: bool = field(default=False, kw_only=True)
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


@define(eq=False)
class AffinityProfile:
    """The counts that concern tasks with the same namespace, labels and terms."""

    required: list[DomainCount | NetCount] = field(factory=list[DomainCount | NetCount])
    """For each required affinity term: the tasks that all of these terms select together."""
    meets_itself: bool = True
    """Whether the task meets its own required affinity terms."""
    repelled: list[DomainCount | NetCount] = field(factory=list[DomainCount | NetCount])
    """For each required anti-affinity term: the tasks that it selects."""
    repelling: list[DomainCount | NetCount] = field(factory=list[DomainCount | NetCount])
    """The tasks with required anti-affinity terms that select these."""
    attracting: list[tuple[DomainCount, int]] = field(factory=list[tuple[DomainCount, int]])
    """The counts that contribute to the score of a domain, with their weights."""
    counted: list[tuple[DomainCount, int]] = field(factory=list[tuple[DomainCount, int]])
    """The counts that change when such a task is placed on a node, with the amounts."""
    promised: list[DomainCount] = field(factory=list[DomainCount])
    """The counts of required anti-affinity that a promise to such a task increases by one."""

    def repelling_there(self, labels: Mapping[str, str]) -> UnfitReason | None:
        """Return why: tasks in a domain of the node exclude it."""
        for there in self.repelling:
            if there.is_at(labels):
                return UnfitReason.EXISTING_ANTI_AFFINITY
        return None

    def too_far(self, labels: Mapping[str, str]) -> UnfitReason | None:
        """Return why: the tasks that it must be near are not in the domains of the node."""
        if self.required and not all(there.is_at(labels) for there in self.required):
            nobody = not any(there.is_anywhere for there in self.required)
            if not (nobody and self.meets_itself):
                return UnfitReason.POD_AFFINITY
        return None

    def repelled_there(self, labels: Mapping[str, str]) -> UnfitReason | None:
        """Return why: it excludes tasks in a domain of the node."""
        for there in self.repelled:
            if there.is_at(labels):
                return UnfitReason.POD_ANTI_AFFINITY
        return None

    def raw_score(self, labels: Mapping[str, str]) -> int:
        """Return the weighted sum of attracting and repelling counts on a node. O(terms)."""
        return sum(weight * count.of(labels) for count, weight in self.attracting)


class PodAffinityIndex:
    """Counts, per topology domain, the occupying tasks that attract or repel others.

    O(tasks and their terms) to create, plus for each distinct task the terms that may select it:
    those that require one of its labels, or none. Placing or removing a task costs O(terms that
    concern it).
    """

    def __init__(
        self,
        tasks: Iterable[TaskState],
        nodes: Sequence[NodeState],
        *,
        promises_repel: bool = False,
    ) -> None:
        """Create the index.

        Args:
            tasks: all tasks of the cluster.
            nodes: all nodes of the cluster.
            promises_repel: whether required anti-affinity, in both directions, also counts tasks
                that are promised to a node.

        """
        self.promises_repel = promises_repel
        """Whether a promise repels like a running task."""
        self._nodes = nodes
        self._domains: dict[str, dict[str, list[int]]] = {}
        self._profiles: dict[Hashable, AffinityProfile] = {}
        self._number = ChangeNumber()
        self._net_counts: dict[tuple[DomainCount, ...], NetCount] = {}
        self._meant: dict[tuple[Selection, str], DomainCount] = {}
        self._carried: dict[tuple[str, Selection, str], DomainCount] = {}
        # Attraction requires running tasks; for repulsion a promise may be enough.
        self._repelled = {} if promises_repel else self._meant
        """The counts of tasks that anti-affinity terms select."""
        all_tasks = list(tasks)
        self.is_active = any(
            task.info.pod_affinity is not None or task.info.pod_anti_affinity is not None
            for task in all_tasks
        )
        """Whether any task has terms. If not, nothing is counted."""
        if not self.is_active:
            return
        examples: dict[Hashable, TaskInfo] = {}
        for task in all_tasks:
            examples.setdefault(self.signature(task), task.info)
        for key, info in examples.items():
            self._profiles[key] = self._own_terms(info)
        self._introduce(examples)
        for task in all_tasks:
            if task.node is not None:
                if task.status.occupies:
                    self.occupy(task, task.node, 1)
                elif task.status is TaskStatus.PIPELINED and promises_repel:
                    self.promise(task, task.node, 1)

    @staticmethod
    def signature(task: TaskState) -> Hashable:
        """Return everything that inter-pod affinity reads of a task."""
        return _read_of(task.info)

    def knows(self, info: TaskInfo) -> bool:
        """Return whether the index can represent a new task without being created again.

        This is so if it has the profile of the task, or if nothing is counted.
        """
        if not self.is_active:
            return info.pod_affinity is None and info.pod_anti_affinity is None
        return _read_of(info) in self._profiles

    def profile(self, task: TaskState) -> AffinityProfile:
        """Return the profile of a task."""
        return self._profiles[self.signature(task)]

    def watch_refusals(
        self, task: TaskState, counts: Sequence[DomainCount | NetCount]
    ) -> Sequence[Watch]:
        """Return watches that report changes of the nodes that reject such tasks.

        `counts`: those of its profile that matter.
        """
        watched, own = dict.fromkeys(counts), self.profile(task).required
        required = [there for there in watched if there in own]
        return [
            *(there.any_appearance for there in required),
            *(watch for there in watched for watch in there.appearances),
        ]

    def watch_attractions(self, task: TaskState) -> Sequence[Watch]:
        """Return watches that report changes of how nodes attract such tasks."""
        attracting = dict.fromkeys(count for count, _ in self.profile(task).attracting)
        return [count.changes for count in attracting]

    def _count_by(self, topology_key: str) -> DomainCount:
        domains = self._domains.get(topology_key)
        if domains is None:
            domains = self._domains[topology_key] = {}
            for node in self._nodes:
                domain = node.info.labels.get(topology_key)
                if domain is not None:
                    domains.setdefault(domain, []).append(node.slot)
        return DomainCount(topology_key, domains, self._number)

    def occupy(self, task: TaskState, node: NodeState, sign: int) -> None:
        """Record that `task` begins (1) or ceases (-1) to occupy `node`."""
        labels = node.info.labels
        for count, amount in self.profile(task).counted:
            count.add(labels, sign * amount)

    def promise(self, task: TaskState, node: NodeState, sign: int) -> None:
        """Record that `node` is promised (1) or no longer promised (-1) to `task`."""
        labels = node.info.labels
        for count in self.profile(task).promised:
            count.add(labels, sign)

    def _own_terms(self, info: TaskInfo) -> AffinityProfile:
        profile = AffinityProfile()
        own = info.namespace
        attract, repel = info.pod_affinity, info.pod_anti_affinity
        if attract is not None:
            together = frozenset(meaning_of(term, own) for term in attract.required)
            met = all(meaning.means(info) for meaning in together)
            profile.meets_itself = met
            for term in attract.required:
                key = term.topology_key
                profile.required.append(self._remaining(*self._selected_by(together, key)))
                self._carry(profile, "requires", meaning_of(term, own), key, 1)
            for preferred in attract.preferred:
                self._prefer(profile, own, preferred.term, preferred.weight)
        if repel is not None:
            for term in repel.required:
                key = term.topology_key
                meaning = meaning_of(term, own)
                selected = self._selected_by(frozenset([meaning]), key, repels=True)
                profile.repelled.append(self._remaining(*selected))
                self._carry(profile, "repels", meaning, key, 1)
            for preferred in repel.preferred:
                self._prefer(profile, own, preferred.term, -preferred.weight)
        return profile

    def _prefer(
        self, profile: AffinityProfile, own: str, term: PodAffinityTerm, weight: int
    ) -> None:
        meaning = meaning_of(term, own)
        whole, *exceptions = self._selected_by(frozenset([meaning]), term.topology_key)
        profile.attracting.append((whole, weight))
        profile.attracting += [(count, -weight) for count in exceptions]
        self._carry(profile, "prefers", meaning, term.topology_key, weight)

    def _selected_by(
        self, together: frozenset[Meaning], topology_key: str, *, repels: bool = False
    ) -> list[DomainCount]:
        """Return the count of the tasks that terms select, and if needed one to be subtracted."""
        known = self._repelled if repels else self._meant
        keys = [(part, topology_key) for part in Selection.parts(together)]
        for key in keys:
            if key not in known:
                known[key] = self._count_by(topology_key)
        return [known[key] for key in keys]

    def _carry(
        self, profile: AffinityProfile, how: str, meaning: Meaning, key: str, amount: int
    ) -> None:
        for part in Selection.parts(frozenset([meaning])):
            carried = (how, part, key)
            if carried not in self._carried:
                self._carried[carried] = self._count_by(key)
            profile.counted.append((self._carried[carried], amount))
            if how == "repels":
                profile.promised.append(self._carried[carried])

    def _introduce(self, examples: Mapping[Hashable, TaskInfo]) -> None:
        """Add to each profile the counts of all terms that select its tasks."""
        met = Counter(need for info in examples.values() for need in needs_met(info))
        terms = TermsByNeed(met)
        for (selection, _), count in self._meant.items():
            terms.add(Term(selection, "", count))
        if self.promises_repel:
            for (selection, _), count in self._repelled.items():
                terms.add(Term(selection, "", count, is_repelled=True))
        for (how, selection, _), count in self._carried.items():
            terms.add(Term(selection, how, count))
        for key, info in examples.items():
            profile = self._profiles[key]
            repelling: dict[DomainCount, list[DomainCount]] = {}
            for term in terms.that_mean(info):
                if not term.carried:
                    profile.counted.append((term.count, 1))
                    if term.is_repelled:
                        profile.promised.append(term.count)
                elif term.carried != "repels":
                    profile.attracting.append((term.count, term.selection.sign))
                elif term.selection.is_whole:
                    repelling.setdefault(term.count, [])
                else:
                    whole = self._carried["repels", term.selection.whole, term.count.key]
                    repelling.setdefault(whole, []).append(term.count)
            profile.repelling += [
                self._remaining(whole, *exceptions) for whole, exceptions in repelling.items()
            ]

    def _remaining(self, whole: DomainCount, *exceptions: DomainCount) -> DomainCount | NetCount:
        """Return where the exceptions from a count are not all of it; equal ones are shared."""
        if not exceptions:
            return whole
        counts = (whole, *exceptions)
        if counts not in self._net_counts:
            self._net_counts[counts] = NetCount(whole, exceptions)
        return self._net_counts[counts]


def _read_of(info: TaskInfo) -> Hashable:
    return info.namespace, info.labels, info.pod_affinity, info.pod_anti_affinity
