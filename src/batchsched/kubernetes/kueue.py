"""Kueue's cluster queues and cohorts; the quota of a subtree is the sum of its members'."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction

from attrs import define, field

from batchsched.errors import QuantityError
from batchsched.kubernetes.objects import KubernetesObject, Reader
from batchsched.kubernetes.queue_draft import QueueDraft
from batchsched.kubernetes.requests import amount_unit
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Queue, QueueStatus
from batchsched.model.notice import NoticeCode

__all__ = ["read_kueue"]

_STATES = {"Hold": QueueStatus.CLOSED, "HoldAndDrain": QueueStatus.DRAINING}


@define(eq=False)
class _Member:
    """A cluster queue or a cohort."""

    object: KubernetesObject | None
    """None: a cohort that was not given, but is named by another member."""
    name: str
    is_cohort: bool
    parent: str | None
    """The name of the parent cohort."""
    quota: dict[str, int] = field(factory=dict[str, int])
    """Its own quota by resource, the sum of all flavors."""
    borrowing: dict[str, int] = field(factory=dict[str, int])
    """What it may borrow; a resource that is not named is unlimited."""
    lending: dict[str, int] = field(factory=dict[str, int])
    """What it may lend; of a resource that is not named, everything."""
    lends_all: set[str] = field(factory=set[str])
    """The resources for which some flavor has no lending limit."""


def read_kueue(given: Sequence[KubernetesObject], taken: Collection[str], /) -> list[QueueDraft]:
    """Return the queues of ClusterQueues and Cohorts, with cohorts that are only named by others.

    A queue deserves its nominal quota; a cohort deserves its own and that of all members below it.
    A subtree may borrow up to its limit, and one without a parent nothing; what it does not lend
    is guaranteed to it.

    Args:
        given: objects of the kinds ClusterQueue and Cohort.
        taken: the names of other queues. A cohort whose name is taken, possibly by a cluster
            queue, is called ``cohort/name``.

    """
    members = [_member(one) for one in given]
    cohorts = {member.name: member for member in members if member.is_cohort}
    for parent in [member.parent for member in members]:
        if parent is not None and parent not in cohorts:
            cohorts[parent] = _Member(None, parent, True, None)
    taken = {*taken, *(member.name for member in members if not member.is_cohort)}
    children: dict[str, list[_Member]] = {}
    all_members = [*(m for m in members if not m.is_cohort), *cohorts.values()]
    for member in all_members:
        if member.parent is not None:
            children.setdefault(member.parent, []).append(member)
    return [_draft(member, children, taken) for member in all_members]


def _member(given: KubernetesObject) -> _Member:
    note_unsupported(given)
    spec = given.reader.child("spec")
    is_cohort = given.kind == "Cohort"
    names = ("parentName", "parent") if is_cohort else ("cohortName", "cohort")
    parent = next((name for key in names if (name := spec.text(key))), None)
    member = _Member(given, given.name, is_cohort, parent)
    flavors = [
        list(flavor.children("resources"))
        for group in spec.children("resourceGroups")
        for flavor in group.children("flavors")
    ]
    counts: dict[str, int] = {}
    limited: dict[str, int] = {}
    for resource in (one for flavor in flavors for one in flavor):
        name = resource.text("name", required=True)
        unit = amount_unit(name)
        if not name or unit is None:
            continue
        quota = _amount(resource, "nominalQuota", unit=unit) or 0
        counts[name] = counts.get(name, 0) + 1
        member.quota[name] = member.quota.get(name, 0) + quota
        borrowing = _amount(resource, "borrowingLimit", unit=unit)
        if borrowing is not None:
            limited[name] = limited.get(name, 0) + 1
            member.borrowing[name] = member.borrowing.get(name, 0) + borrowing
        lending = _amount(resource, "lendingLimit", unit=unit)
        if lending is None:
            member.lends_all.add(name)
            lending = quota
        elif not is_cohort:  # a cohort also lends the quotas of its members
            lending = min(lending, quota)
        member.lending[name] = member.lending.get(name, 0) + lending
    for name, count in counts.items():
        if limited.get(name, 0) < count:  # unlimited if any flavor has no limit
            member.borrowing.pop(name, None)
    if any(count > 1 for count in counts.values()):
        message = "flavors are not distinguished: the quotas of a resource are added up"
        given.note(NoticeCode.FIELD_IGNORED, "spec.resourceGroups", message)
    return member


def _amount(resource: Reader, key: str, *, unit: bool) -> int | None:
    given = resource.get(key)
    if given is None:
        return None
    try:
        return resource.reading.amount(given, milli=unit)
    except QuantityError as error:
        resource.fault(f".{key}", str(error))
        return None


def _draft(
    member: _Member, children: dict[str, list[_Member]], taken: Collection[str]
) -> QueueDraft:
    below = list(_below(member, children))
    deserved: dict[str, int] = {}
    for one in below:
        for name, quota in one.quota.items():
            deserved[name] = deserved.get(name, 0) + quota
    if member.parent is None:
        limit = dict(deserved)
    else:
        limit = {name: deserved[name] + more for name, more in member.borrowing.items()}
    guarantee: dict[str, int] = {}
    for name, lent in member.lending.items():
        if not member.is_cohort:
            guarantee[name] = member.quota[name] - lent
        elif name not in member.lends_all:  # a cohort's limit applies to its whole subtree
            guarantee[name] = max(0, deserved[name] - lent)
    return QueueDraft.of(
        member.object,
        Queue(
            name=_name(member, taken),
            creation_time=0.0 if member.object is None else member.object.creation_time(),
            parent=None if member.parent is None else _cohort_name(member.parent, taken),
            state=_state(member),
        ),
        weight=_weight(member),
        guarantee=guarantee,
        deserved=deserved,
        limit=limit,
        parent_is_known=True,
    )


def _below(member: _Member, children: dict[str, list[_Member]]) -> Iterator[_Member]:
    """Yield a member and all members below it, each once even if cohorts form a cycle."""
    found = [member]
    seen = {(member.is_cohort, member.name)}
    for one in found:
        for child in children.get(one.name, ()) if one.is_cohort else ():
            key = child.is_cohort, child.name
            if key not in seen:
                seen.add(key)
                found.append(child)
    yield from found


def _name(member: _Member, taken: Collection[str]) -> str:
    return _cohort_name(member.name, taken) if member.is_cohort else member.name


def _cohort_name(name: str, taken: Collection[str]) -> str:
    return f"cohort/{name}" if name in taken else name


def _state(member: _Member) -> QueueStatus:
    if member.object is None:
        return QueueStatus.OPEN
    policy = member.object.reader.child("spec").text("stopPolicy")
    if policy in ("", "None"):
        return QueueStatus.OPEN
    if policy not in _STATES:
        member.object.reader.fault(
            ".spec.stopPolicy", f"expected None, Hold or HoldAndDrain, got {policy!r}"
        )
        return QueueStatus.OPEN
    message = "not open: no new tasks start in it"
    member.object.note(NoticeCode.QUEUE_CLOSED, "spec.stopPolicy", message)
    return _STATES[policy]


def _weight(member: _Member) -> Fraction:
    if member.object is None:
        return Fraction(1)
    sharing = member.object.reader.child("spec").child("fairSharing")
    thousandths = _amount(sharing, "weight", unit=True)
    return Fraction(1) if thousandths is None else Fraction(thousandths, 1000)
