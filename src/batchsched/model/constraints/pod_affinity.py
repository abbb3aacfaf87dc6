"""Inter-pod affinity and anti-affinity: tasks to be placed near or apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from batchsched.model.constraints.selectors import LabelSelector
from batchsched.model.immutable import kept_texts, kept_tuple

__all__ = ["PodAffinity", "PodAffinityTerm", "WeightedPodTerm"]


@frozen(kw_only=True)
class PodAffinityTerm:
    """A selection of tasks, and the topology domain in which they count as near."""

    selector: LabelSelector | None = None
    """Selects tasks by label. None matches no task; an empty selector matches all."""
    topology_key: str
    """The node label whose value names a domain; a node without it is in no domain."""
    namespaces: tuple[str, ...] = field(default=(), converter=kept_texts)
    """The namespaces of selected tasks; empty: the namespace of the task with the term."""

    def selects(self, *, own_namespace: str, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether the term, on a task in `own_namespace`, selects the described task.

        >>> near_db = PodAffinityTerm(
        ...     selector=LabelSelector(match_labels={"app": "db"}), topology_key="zone")
        >>> near_db.selects(own_namespace="a", namespace="a", labels={"app": "db"})
        True
        >>> near_db.selects(own_namespace="a", namespace="b", labels={"app": "db"})
        False
        """
        if self.selector is None:
            return False
        if self.namespaces:
            if namespace not in self.namespaces:
                return False
        elif namespace != own_namespace:
            return False
        return self.selector.matches(labels)


@frozen(kw_only=True)
class WeightedPodTerm:
    """A preferred term: `weight` is added or subtracted for each selected task nearby."""

    weight: int
    """1 to 100."""
    term: PodAffinityTerm


def _required(terms: Iterable[PodAffinityTerm], /) -> tuple[PodAffinityTerm, ...]:
    return kept_tuple(terms)


def _preferred(terms: Iterable[WeightedPodTerm], /) -> tuple[WeightedPodTerm, ...]:
    return kept_tuple(terms)


@frozen(kw_only=True)
class PodAffinity:
    """Required and preferred terms, used as `pod_affinity` or as `pod_anti_affinity`."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), converter=_required)
    preferred: tuple[WeightedPodTerm, ...] = field(default=(), converter=_preferred)
