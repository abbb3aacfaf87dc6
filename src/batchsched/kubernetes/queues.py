"""Reads the queues of kube-batch, Volcano, KAI Scheduler and Kueue as one tree."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, lcm

from attrs import define, evolve, field

from batchsched.errors import QuantityError
from batchsched.kubernetes.annotations import duration_at
from batchsched.kubernetes.objects import KubernetesObject, Reader, annotation, whole_number
from batchsched.kubernetes.pods import amount_unit, quota_unit, resource_of
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Queue, QueueStatus
from batchsched.model.immutable import EMPTY
from batchsched.model.notice import NoticeCode
from batchsched.model.resources import Resource, ResourceLimit, exact, parse_quantity
from batchsched.model.texts import shown_amount
from batchsched.model.validation.values import shown

QUEUE_KINDS = ("Queue", "ClusterQueue", "Cohort")
"""The kinds of objects that are queues: of Volcano and KAI Scheduler, and two of Kueue."""
_ADMITTED_MORE = (
    "pods that Kueue admitted request more than the quota: what they request is the limit here"
)
_NOT_KEPT = (
    "what it does not lend is not kept: pods that Kueue admitted and guarantees are more than the "
    "nodes in service have"
)


def read_queues(given: Sequence[KubernetesObject], of_kai: Mapping[str, str], /) -> list[Queue]:
    """Return the queues of objects, with inner queues that are only named by others. O(size).

    Args:
        given: the objects.
        of_kai: the names here of queues of KAI Scheduler whose names were taken.

    """
    names = {queue.name for queue in given if queue.kind == "Queue"}
    of_queues = [queue for queue in given if queue.kind == "Queue"]
    drafts = [
        *_read_kueue([queue for queue in given if queue.kind != "Queue"], names),
        *[_read_kai_queue(queue, names, of_kai) for queue in of_queues if is_kai_queue(queue)],
        *_read_volcano([queue for queue in of_queues if not is_kai_queue(queue)], names),
    ]
    _cut_to_limits(drafts)
    # Weights must be whole numbers, and only their proportions matter.
    factor = lcm(*(draft.weight.denominator for draft in drafts))
    return [draft.weighing(int(draft.weight * factor)) for draft in drafts]


def _from_the_top(parents: Mapping[str, str | None]) -> tuple[list[str], Mapping[str, list[str]]]:
    """Return queues, each after its parent, and those below each; cycles are in neither place.

    A parent that is not there counts as none.
    """
    below: dict[str, list[str]] = {}
    in_order: list[str] = []
    for name, parent in parents.items():
        if parent is None or parent not in parents:
            in_order.append(name)
        else:
            below.setdefault(parent, []).append(name)
    for name in in_order:
        in_order += below.get(name, ())
    return in_order, below


def _parent_of(
    given: KubernetesObject, key: str, names: Collection[str], renamed: Mapping[str, str] = EMPTY
) -> str | None:
    """Return the parent that the spec of a queue names; None: none, or one that was not given."""
    parent = given.spec.text(key)
    parent = renamed.get(parent, parent)
    if parent and parent not in names:
        message = f"queue {parent!r} was not given: the queue has no parent"
        given.note(NoticeCode.QUEUE_MISSING, f"spec.{key}", message)
        return None
    return parent or None


def _cut_to_limits(given: Sequence[_QueueDraft]) -> None:
    """Cut guarantees to what limits allow, and note what is cut. O(size).

    Where the queues below one are guaranteed more together than its limit, each keeps its
    proportion of the limit; otherwise one such queue would make the whole cluster unreadable.
    Queues whose parents form a cycle are left as they are: the snapshot reports them.
    """
    drafts = {draft.queue.name: draft for draft in given}
    in_order, below = _from_the_top({name: draft.queue.parent for name, draft in drafts.items()})
    for dimension in sorted({name for draft in given for name in draft.guarantee}):
        # What a queue and those below it need together, and then what each may have of that.
        needed: dict[str, int] = {}
        for name in reversed(in_order):
            limit = drafts[name].limit.get(dimension)
            together = sum(needed[child] for child in below.get(name, ()))
            needed[name] = max(drafts[name].guarantee.get(dimension, 0), together)
            if limit is not None:
                needed[name] = min(needed[name], limit)
        allowed = dict(needed)
        bounds: dict[str, _QueueDraft] = {}
        """The queue whose limit is the bound, of queues that are bounded."""
        for name in in_order:
            draft, children = drafts[name], below.get(name, ())
            if allowed[name] == draft.limit.get(dimension):
                bounds[name] = draft
            own = draft.guarantee.get(dimension, 0)
            if own > allowed[name]:
                _note_cut(draft, dimension, own, allowed[name], bounds[name])
                draft.guarantee[dimension] = allowed[name]
            together = sum(needed[child] for child in children)
            if together > allowed[name]:
                for child in children:
                    allowed[child] = needed[child] * allowed[name] // together
                    bounds[child] = bounds[name]


def _note_cut(draft: _QueueDraft, dimension: str, own: int, left: int, bound: _QueueDraft) -> None:
    assert draft.object is not None  # queues that are only named by others guarantee nothing
    message = (
        f"the guarantee of {dimension} is cut from {shown_amount(dimension, own)} to "
        f"{shown_amount(dimension, left)}"
    )
    if bound is draft:
        message += ", the limit of the queue"
    else:
        message += (
            f": the queues below {bound.queue.name!r} are guaranteed more together than its "
            f"limit of {shown_amount(dimension, bound.limit[dimension])}"
        )
    field = "spec.resourceGroups"
    if draft.object.kind == "Queue":
        field = "spec.resources" if is_kai_queue(draft.object) else "spec.guarantee.resource"
    draft.object.note(NoticeCode.GUARANTEE_CUT, field, message)


def with_quotas_for(
    queues: Sequence[Queue],
    used: Mapping[str, Resource],
    free: Mapping[str, int],
    given: Mapping[str, KubernetesObject],
    /,
) -> list[Queue]:
    """Return the queues, with quotas of Kueue that refuse nothing of what is used. O(queues).

    Kueue has decided that it may run. It may be more than the quota: quotas are lowered, and pods
    may request more than their Workload. Then the limit is what is used. Where nodes in service
    have too little for all guarantees, nothing is kept for queues that do not use theirs.

    Args:
        queues: the queues; their parents form no cycle.
        used: what pods of each queue request that run, or for which Kueue has reserved quota.
        free: what nodes in service have for queues, by dimension.
        given: the objects of queues, by name.

    """
    found = {queue.name: queue for queue in queues}
    from_the_top, below = _from_the_top({name: queue.parent for name, queue in found.items()})
    of_kueue: dict[str, None] = {}
    """ClusterQueues, and the cohorts above them."""
    for name in reversed(from_the_top):
        is_cluster_queue = name in given and given[name].kind == "ClusterQueue"
        if is_cluster_queue or any(child in of_kueue for child in below.get(name, ())):
            of_kueue[name] = None

    def kept(dimension: str) -> dict[str, int]:
        """Return what each queue, with those below it, uses or is guaranteed."""
        amounts: dict[str, int] = {}
        for name in reversed(from_the_top):
            own = exact(used[name].get(dimension)) if name in used else 0
            own += sum(amounts[child] for child in below.get(name, ()))
            amounts[name] = max(own, exact(found[name].guarantee.get(dimension)))
        return amounts

    for dimension in sorted({name for each in used.values() for name, _ in each.dimensions()}):
        amounts = kept(dimension)
        of_tops = sum(amounts[name] for name, queue in found.items() if queue.parent is None)
        if of_tops > free.get(dimension, 0):
            for name in of_kueue:
                found[name] = _without_guarantee(found[name], dimension, given.get(name))
            amounts = kept(dimension)
        for name in of_kueue:
            found[name] = _at_least(found[name], dimension, amounts[name], given.get(name))
    return [found[queue.name] for queue in queues]


def _without_guarantee(queue: Queue, dimension: str, given: KubernetesObject | None) -> Queue:
    amounts = _amounts_of(queue.guarantee)
    if not amounts.get(dimension):
        return queue
    if given is not None:
        given.note(NoticeCode.GUARANTEE_CUT, "spec.resourceGroups", _NOT_KEPT)
    return evolve(queue, guarantee=resource_of({**amounts, dimension: 0}))


def _amounts_of(given: Resource | ResourceLimit) -> dict[str, int]:
    return {name: exact(amount) for name, amount in given.dimensions()}


def _at_least(queue: Queue, dimension: str, most: int, given: KubernetesObject | None) -> Queue:
    """Return a queue that may hold some amount of a dimension."""
    limits = {} if queue.limit is None else _amounts_of(queue.limit)
    if limits.get(dimension, most) >= most:
        return queue
    if given is not None:
        given.note(NoticeCode.READ_AS, "spec.resourceGroups", _ADMITTED_MORE)
    return evolve(queue, limit=_limit_of({**limits, dimension: most}))


@define
class _QueueDraft:
    """A queue whose weight may be a fraction, with its amounts by dimension."""

    object: KubernetesObject | None
    """The object that it was read from; None: other queues only name it."""
    queue: Queue
    """Everything except the weight and the amounts."""
    weight: Fraction
    guarantee: dict[str, int] = field(factory=dict[str, int])
    deserved: dict[str, int] = field(factory=dict[str, int])
    """A dimension that is not named is 0."""
    limit: dict[str, int] = field(factory=dict[str, int])
    """A dimension that is not named is unlimited."""
    unlimited: Collection[str] = ()
    """The dimensions in which it deserves everything that its parent has."""

    def weighing(self, weight: int) -> Queue:
        """Return the queue, with a weight in whole numbers."""
        deserved: Resource | ResourceLimit = resource_of(self.deserved)
        if self.unlimited:
            # A dimension that a `ResourceLimit` does not name is unlimited.
            named = {"cpu": 0, "memory": 0} | self.deserved
            deserved = _limit_of({n: most for n, most in named.items() if n not in self.unlimited})
        return evolve(
            self.queue,
            weight=weight,
            guarantee=resource_of(self.guarantee),
            deserved=deserved,
            limit=_limit_of(self.limit) if self.limit else None,
        )


def _limit_of(amounts: Mapping[str, int]) -> ResourceLimit:
    return ResourceLimit(
        milli_cpu=amounts.get("cpu"),
        memory=amounts.get("memory"),
        scalars={name: amounts[name] for name in amounts if name not in ("cpu", "memory")},
    )


# Volcano and kube-batch

_HIERARCHY = "volcano.sh/hierarchy"
_WEIGHTS = "volcano.sh/hierarchy-weights"
ROOT = "root"
"""Volcano's queue above all others."""


def _read_volcano(
    given: Sequence[KubernetesObject], known: Collection[str]
) -> Iterator[_QueueDraft]:
    parents = {queue.name: queue.spec.text("parent") for queue in given}
    paths = {queue.name: _annotated_path(queue, parents[queue.name]) for queue in given}
    names = {path: name for name, path in paths.items() if path}
    implied: dict[tuple[str, ...], _QueueDraft] = {}
    known = {*known, ROOT}
    has_root = any(paths.values()) or ROOT in parents.values()
    for queue in given:
        if queue.name == ROOT and has_root:
            continue  # the root is the cluster itself
        draft, path = _volcano_draft(queue, known), paths[queue.name]
        weights = _annotated_weights(queue, len(path)) if path else None
        above: str | None = None
        for depth in range(1, len(path)):  # inner queues may exist only in annotations
            part = path[:depth]
            name = names.get(part)
            if name is None:
                name = "/".join((ROOT, *part))  # unique: names of objects have no slash
                weight = 1 if weights is None else weights[depth - 1]
                if part not in implied:
                    implied[part] = _QueueDraft(
                        None, Queue(name=name, parent=above), Fraction(weight)
                    )
                elif implied[part].weight != weight and weights is not None:
                    why = f"for {name!r}: another queue gives it the weight {implied[part].weight}"
                    queue.note(NoticeCode.FIELD_IGNORED, annotation(_WEIGHTS), f"ignored {why}")
            above = name
        if path:
            draft.queue = evolve(draft.queue, parent=above)
        if weights is not None:
            draft.weight = Fraction(weights[-1])
        yield draft
    yield from implied.values()


def _volcano_draft(given: KubernetesObject, known: Collection[str]) -> _QueueDraft:
    note_unsupported(given)
    spec = given.spec
    capability = spec.child("capability").amounts(quota_unit)
    for name in ("cpu", "memory"):
        if capability.get(name) == 0:  # Volcano reads a 0 of these two as no limit
            del capability[name]
    guarantee = spec.child("guarantee").child("resource").amounts(amount_unit)
    parent = _parent_of(given, "parent", known)
    state = given.status.text("state")  # Open, Closed, Closing or Unknown; a new queue has none
    queue = Queue(
        name=given.name,
        creation_time=given.creation_time(),
        parent=None if parent == ROOT else parent,
        priority=spec.integer("priority", default=0),
        state=QueueStatus.OPEN if state in ("", "Open") else QueueStatus.CLOSED,
        reclaimable=spec.get("reclaimable") is None or spec.truth("reclaimable"),
    )
    weight = Fraction(spec.integer("weight", default=1))
    deserved = spec.child("deserved").amounts(amount_unit)
    return _QueueDraft(given, queue, weight, guarantee, deserved, capability)


def _annotated_path(given: KubernetesObject, parent: str) -> tuple[str, ...]:
    """Return the path in an annotation such as ``root/science/vision``; (): there is none."""
    text = given.annotations.get(_HIERARCHY, "")
    if not text:
        return ()
    field = annotation(_HIERARCHY)
    if parent:
        given.ignore(field, "spec.parent takes precedence")
        return ()
    root, *path = text.split("/")
    if root != ROOT or not path or not all(path):
        given.ignore(field, "expected a path such as root/science/vision")
        return ()
    return tuple(path)


def _annotated_weights(given: KubernetesObject, count: int) -> Sequence[int] | None:
    text = given.annotations.get(_WEIGHTS, "")
    if not text:
        return None
    weights = text.split("/")[1:]  # the root's weight has no effect
    numbers = [number for each in weights if (number := whole_number(each))]
    if len(numbers) == len(weights) == count:
        return numbers
    why = "expected whole numbers above 0, as many as the hierarchy has parts"
    given.ignore(annotation(_WEIGHTS), why)
    return None


# KAI Scheduler

_KAI_GROUP = "scheduling.run.ai/"
_KAI_UNITS: Mapping[str, tuple[str, int]] = {
    "cpu": ("cpu", 1),  # thousandths of a cpu
    "memory": ("memory", 1_000_000),  # megabytes
    "gpu": ("nvidia.com/gpu", 1000),  # devices
}
_KAI_PRIORITY = 100
_UNLIMITED = -1
_ALL_OF_PARENT = (
    "-1 is read as: it deserves all that its parent has, or the cluster if it has no parent, and "
    "has no limit"
)
_NOT_NAMED = "not given: read as -1, as no limit is given of what is; KAI Scheduler may read 0"


def is_kai_queue(given: KubernetesObject, /) -> bool:
    """Return whether a Queue is KAI Scheduler's, by its API group or else by its fields."""
    version = given.reader.get("apiVersion")
    if isinstance(version, str) and version:
        return version.startswith(_KAI_GROUP)
    spec = given.spec
    return spec.get("parentQueue") is not None or spec.get("resources") is not None


def _read_kai_queue(
    given: KubernetesObject, known: Collection[str], renamed: Mapping[str, str]
) -> _QueueDraft:
    """Return a queue with quota, limit and weight.

    A missing quota or limit is 0; -1 means unlimited. With a limit below the quota the queue may
    use its quota and no more, as KAI Scheduler's documentation says of a limit of 0. A queue that
    limits none of the resources that it names limits no other: that is the documentation's
    unlimited queue.
    """
    spec = given.spec
    resources = spec.child("resources")
    quotas: dict[str, int] = {}
    limits: dict[str, int] = {}
    guarantees: dict[str, int] = {}
    weights: dict[str, Fraction] = {}
    unlimited: list[str] = []
    named = [resources.child(key) for key in _KAI_UNITS if resources.get(key) is not None]
    has_no_limit, has_all = (
        bool(named) and all(each.get(key) == _UNLIMITED for each in named)
        for key in ("limit", "quota")
    )
    for key, (name, unit) in _KAI_UNITS.items():
        resource = resources.child(key)
        quota = _kai_number(resource, "quota")
        limit = _kai_number(resource, "limit")
        is_named = resources.get(key) is not None
        if has_no_limit and not is_named:
            quota, limit = (Fraction(_UNLIMITED) if has_all else quota), Fraction(_UNLIMITED)
            given.note(NoticeCode.READ_AS, f"spec.resources.{key}", _NOT_NAMED)
        if quota == _UNLIMITED:
            unlimited.append(name)
        if quota == _UNLIMITED and is_named:
            given.note(NoticeCode.READ_AS, f"spec.resources.{key}.quota", _ALL_OF_PARENT)
        if quota != _UNLIMITED:
            quotas[name] = ceil(quota * unit)
            if limit != _UNLIMITED:
                most: Fraction = max(limit, quota)
                limits[name] = ceil(most * unit)
            if resource.get("lendingLimit") is not None:
                lent = _kai_number(resource, "lendingLimit")
                guarantees[name] = max(0, ceil((quota - lent) * unit))
        weights[key] = _kai_number(resource, "overQuotaWeight")
    weight = weights["gpu"] or max(weights.values())
    if len({w for w in weights.values() if w}) > 1:
        message = "a queue has one weight here: overQuotaWeight of gpu is used, or else the largest"
        given.note(NoticeCode.FIELD_IGNORED, "spec.resources", message)
    queue = Queue(
        name=given.name,
        creation_time=given.creation_time(),
        parent=_parent_of(given, "parentQueue", known, renamed),
        priority=spec.integer("priority", default=_KAI_PRIORITY),
        preempt_min_runtime=duration_at(given, "preemptMinRuntime"),
        reclaim_min_runtime=duration_at(given, "reclaimMinRuntime"),
    )
    return _QueueDraft(given, queue, weight, guarantees, quotas, limits, unlimited)


def _kai_number(resource: Reader, key: str) -> Fraction:
    """Return a number of 0 or more, or -1 where that means unlimited; 0 if none is given."""
    given = resource.get(key)
    if given is None:
        return Fraction(0)
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        try:
            number = parse_quantity(given)
        except QuantityError:
            number = Fraction(-2)
        if number >= 0 or (number == _UNLIMITED and key in ("quota", "limit")):
            return number
    resource.fault(f".{key}", f"expected a number of 0 or more, or -1, got {shown(given)}")
    return Fraction(0)


# Kueue: the quota of a subtree is the sum of its members'

_STOP_POLICIES = {
    **dict.fromkeys(("", "None"), QueueStatus.OPEN),
    "Hold": QueueStatus.CLOSED,
    "HoldAndDrain": QueueStatus.DRAINING,
}


_Quota = tuple[int, int | None, int | None]
"""What a flavor has of a resource: nominal, may be borrowed (None: any), may be lent (None: all)"""


def _read_kueue(given: Sequence[KubernetesObject], taken: Collection[str], /) -> list[_QueueDraft]:
    """Return the queues of ClusterQueues and Cohorts, with cohorts that are only named by others.

    A queue deserves its nominal quota; a cohort deserves its own and that of all members below it.
    A subtree may borrow up to its limit, and one without a parent nothing; what it does not lend
    is guaranteed to it.

    Args:
        given: objects of the kinds ClusterQueue and Cohort.
        taken: the names of other queues. A cohort whose name is taken, possibly by a cluster
            queue, is called ``cohort/name``.

    """
    taken = {*taken, *(one.name for one in given if one.kind == "ClusterQueue")}
    drafts = {draft.queue.name: draft for draft in (_member(one, taken) for one in given)}
    for parent in [draft.queue.parent for draft in drafts.values()]:
        if parent is not None and parent not in drafts:
            drafts[parent] = _QueueDraft(None, Queue(name=parent), Fraction(1))
    quotas = {name: _quotas_of(draft.object) for name, draft in drafts.items()}
    children: dict[str | None, list[str]] = {}
    for name, draft in drafts.items():
        children.setdefault(draft.queue.parent, []).append(name)
    for name, draft in drafts.items():
        members = {name: None}
        todo = [name]
        for each in todo:  # cohorts may form a cycle
            todo += [child for child in children.get(each, ()) if child not in members]
            members |= dict.fromkeys(children.get(each, ()))
        for member in members:
            for resource, of_flavors in quotas[member].items():
                nominal = sum(one[0] for one in of_flavors)
                draft.deserved[resource] = draft.deserved.get(resource, 0) + nominal
        _bound(draft, quotas[name])
    return list(drafts.values())


def _member(given: KubernetesObject, taken: Collection[str]) -> _QueueDraft:
    """Return a ClusterQueue or a Cohort without its amounts."""
    is_cohort, spec = given.kind == "Cohort", given.spec
    if not is_cohort:
        by_kueue = given.reading.kueue_admits
        note_unsupported(given, "ClusterQueue (admitted by Kueue)" if by_kueue else None)
    names = ("parentName", "parent") if is_cohort else ("cohortName", "cohort")
    parent = next((name for key in names if (name := spec.text(key))), None)
    policy = spec.text("stopPolicy")
    if policy not in _STOP_POLICIES:
        message = f"expected None, Hold or HoldAndDrain, got {shown(policy)}"
        spec.fault(".stopPolicy", message)
    thousandths = spec.child("fairSharing").quantity("weight", milli=True)
    queue = Queue(
        name=_cohort_name(given.name, taken) if is_cohort else given.name,
        creation_time=given.creation_time(),
        parent=None if parent is None else _cohort_name(parent, taken),
        state=_STOP_POLICIES.get(policy, QueueStatus.OPEN),
    )
    return _QueueDraft(given, queue, Fraction(1000 if thousandths is None else thousandths, 1000))


def _cohort_name(name: str, taken: Collection[str]) -> str:
    return f"cohort/{name}" if name in taken else name


def _quotas_of(given: KubernetesObject | None) -> dict[str, list[_Quota]]:
    """Return what all flavors have of each resource."""
    quotas: dict[str, list[_Quota]] = {}
    for group in () if given is None else given.spec.children("resourceGroups"):
        for flavor in group.children("flavors"):
            for resource in flavor.children("resources"):
                name = resource.text("name", required=True)
                unit = quota_unit(name)
                if name and unit is not None:
                    nominal, borrowing, lending = (
                        resource.quantity(key, milli=unit)
                        for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
                    )
                    quotas.setdefault(name, []).append((nominal or 0, borrowing, lending))
    if given is not None and any(len(of_flavors) > 1 for of_flavors in quotas.values()):
        message = "flavors are not distinguished: the quotas of a resource are added up"
        given.note(NoticeCode.FIELD_IGNORED, "spec.resourceGroups", message)
    return quotas


def _bound(draft: _QueueDraft, quotas: Mapping[str, Sequence[_Quota]]) -> None:
    """Give a member its limit and its guarantee, once it has what it deserves."""
    has_parent = draft.queue.parent is not None
    if not has_parent:
        draft.limit = dict(draft.deserved)
    for name, of_flavors in quotas.items():
        _, borrowing, lending = zip(*of_flavors, strict=True)
        if has_parent and None not in borrowing:  # unlimited if any flavor is
            draft.limit[name] = draft.deserved[name] + sum(borrowing)
        if draft.object is not None and draft.object.kind == "ClusterQueue":
            not_lent = [max(0, own - lent) for own, _, lent in of_flavors if lent is not None]
            draft.guarantee[name] = sum(not_lent)
        elif None not in lending:
            # It also lends the quotas of its members, and its limit applies to all of them.
            draft.guarantee[name] = max(0, draft.deserved[name] - sum(lending))
