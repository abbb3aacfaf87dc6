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
from collections.abc import Hashable, Iterable, Mapping, Sequence

from attrs import define, field

from batchsched.model.cluster import TaskInfo, TaskStatus
from batchsched.model.constraints import PodAffinityTerm
from batchsched.model.reasons import UnfitReason
from batchsched.state.affinity_terms import (
    Meaning,
    Selection,
    Term,
    TermsByNeed,
    meaning_of,
    needs_met,
)
from batchsched.state.domain_counts import (
    ChangeNumber,
    CountsTogether,
    DomainCount,
    NetCount,
    Presence,
)
from batchsched.state.records import NodeState, TaskState
from batchsched.state.watch import Watch

__all__ = ["AffinityProfile", "PodAffinityIndex"]


@define(eq=False)
class AffinityProfile:
    """The counts that concern tasks with the same namespace, labels and terms."""

    required: list[DomainCount | NetCount] = field(factory=list[DomainCount | NetCount])
    """For each required affinity term: the tasks that all of these terms select together."""
    meets_itself: bool = True
    """Whether the task meets its own required affinity terms."""
    repelled: list[DomainCount | NetCount] = field(factory=list[DomainCount | NetCount])
    """For each required anti-affinity term: the tasks that it selects."""
    repelling: list[Presence] = field(factory=list[Presence])
    """The tasks with required anti-affinity terms that select these."""
    attracting: list[tuple[DomainCount, int]] = field(factory=list[tuple[DomainCount, int]])
    """The counts that contribute to the score of a domain, with their weights."""
    counted: list[tuple[DomainCount, int]] = field(factory=list[tuple[DomainCount, int]])
    """The counts that change when such a task is placed on a node, with the amounts."""
    promised: list[DomainCount] = field(factory=list[DomainCount])
    """The counts of required anti-affinity that a promise to such a task increases by one."""

    @property
    def can_refuse(self) -> bool:
        """Whether affinity can make a node reject such a task."""
        return bool(self.required or self.repelled or self.repelling)

    def refusal(self, labels: Mapping[str, str]) -> UnfitReason | None:
        """Return why a node with these labels cannot accept such a task now, or None.

        O(own terms + topology keys).
        """
        for there in self.repelling:
            if there.is_at(labels):
                return UnfitReason.EXISTING_ANTI_AFFINITY
        if self.required and not all(there.is_at(labels) for there in self.required):
            nobody = not any(there.is_anywhere for there in self.required)
            if not (nobody and self.meets_itself):
                return UnfitReason.POD_AFFINITY
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

    __slots__ = (
        *("_carried", "_domains", "_meant", "_net_counts", "_nodes", "_number", "_profiles"),
        *("_promises_repel", "_repelled"),
        "is_active",
    )

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
        self._promises_repel = promises_repel
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

    def watch_refusals(self, task: TaskState) -> Sequence[Watch]:
        """Return watches that report changes of the nodes that reject such tasks."""
        profile = self.profile(task)
        watched = dict.fromkeys([*profile.required, *profile.repelled, *profile.repelling])
        return [
            *(there.any_appearance for there in dict.fromkeys(profile.required)),
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
        if self.is_active:
            labels = node.info.labels
            for count, amount in self.profile(task).counted:
                count.add(labels, sign * amount)

    def promise(self, task: TaskState, node: NodeState, sign: int) -> None:
        """Record that `node` is promised (1) or no longer promised (-1) to `task`."""
        if self.is_active:
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
        if self._promises_repel:
            for (selection, _), count in self._repelled.items():
                terms.add(Term(selection, "", count, is_repelled=True))
        for (how, selection, _), count in self._carried.items():
            terms.add(Term(selection, how, count))
        repelled_by: dict[DomainCount, list[AffinityProfile]] = {}
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
            for whole, exceptions in repelling.items():
                if exceptions:
                    profile.repelling.append(self._remaining(whole, *exceptions))
                else:
                    repelled_by.setdefault(whole, []).append(profile)
        self._put_together(repelled_by)

    def _put_together(self, repelled_by: Mapping[DomainCount, Sequence[AffinityProfile]]) -> None:
        """Share one sum among all counts of tasks that repel the same profiles, without exceptions.

        A task may be repelled by very many terms, but mostly all tasks like it are.
        """
        alike: dict[tuple[str, tuple[AffinityProfile, ...]], list[DomainCount]] = {}
        for count, profiles in repelled_by.items():
            alike.setdefault((count.key, tuple(profiles)), []).append(count)
        for (_, profiles), counts in alike.items():
            there = counts[0] if len(counts) == 1 else CountsTogether(counts)
            for profile in profiles:
                profile.repelling.append(there)

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
