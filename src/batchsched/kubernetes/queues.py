"""Reads the queues of kube-batch, Volcano, KAI Scheduler and Kueue as one tree."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import lcm

from attrs import evolve

from batchsched.kubernetes.kai_queues import is_kai_queue, read_kai_queue
from batchsched.kubernetes.kueue import read_kueue
from batchsched.kubernetes.objects import KubernetesObject
from batchsched.kubernetes.queue_draft import QueueDraft
from batchsched.kubernetes.requests import read_amounts
from batchsched.kubernetes.unsupported import note_unsupported
from batchsched.model.cluster import Queue, QueueStatus
from batchsched.model.notice import NoticeCode

__all__ = ["QUEUE_KINDS", "closed_queues", "read_queues"]

QUEUE_KINDS = ("Queue", "ClusterQueue", "Cohort")
"""The kinds of objects that are queues: of Volcano and KAI Scheduler, and two of Kueue."""

_HIERARCHY = "volcano.sh/hierarchy"
_WEIGHTS = "volcano.sh/hierarchy-weights"
_ROOT = "root"


def read_queues(given: Sequence[KubernetesObject], /) -> list[Queue]:
    """Return the queues of objects, with inner queues that are only named by others. O(size)."""
    names = {queue.name for queue in given if queue.kind == "Queue"}
    drafts = [_without_missing_parent(draft, names) for draft in _drafts(given)]
    # Weights must be whole numbers, and only their proportions matter.
    factor = lcm(*(draft.weight.denominator for draft in drafts))
    return [evolve(draft.queue, weight=int(draft.weight * factor)) for draft in drafts]


def closed_queues(queues: Sequence[Queue], /) -> set[str]:
    """Return the names of the queues that are not open, or are below one that is not open."""
    by_name = {queue.name: queue for queue in queues}

    def is_closed(queue: Queue) -> bool:
        seen: set[str] = set()
        above: Queue | None = queue
        while above is not None and above.name not in seen:  # cycles are reported elsewhere
            if above.state is not QueueStatus.OPEN:
                return True
            seen.add(above.name)
            above = None if above.parent is None else by_name.get(above.parent)
        return False

    return {queue.name for queue in queues if is_closed(queue)}


def _drafts(given: Sequence[KubernetesObject]) -> Iterator[QueueDraft]:
    of_kueue = [queue for queue in given if queue.kind != "Queue"]
    yield from read_kueue(of_kueue, {queue.name for queue in given if queue.kind == "Queue"})
    of_volcano: list[KubernetesObject] = []
    for queue in given:
        if queue.kind == "Queue":
            if is_kai_queue(queue):
                yield read_kai_queue(queue)
            else:
                of_volcano.append(queue)
    yield from _read_volcano(of_volcano)


def _without_missing_parent(draft: QueueDraft, names: Collection[str]) -> QueueDraft:
    """Return a queue without its parent if that was not given."""
    parent = draft.queue.parent
    if draft.object is None or parent is None or draft.parent_is_known or parent in names:
        return draft
    field = "spec.parentQueue" if is_kai_queue(draft.object) else "spec.parent"
    message = f"queue {parent!r} was not given: the queue has no parent"
    draft.object.note(NoticeCode.QUEUE_MISSING, field, message)
    return evolve(draft, queue=evolve(draft.queue, parent=None))


# Volcano and kube-batch


def _read_volcano(given: Sequence[KubernetesObject]) -> Iterator[QueueDraft]:
    parents = {queue.name: queue.reader.child("spec").text("parent") for queue in given}
    paths = {queue.name: _annotated_path(queue, parents[queue.name]) for queue in given}
    names = {path: name for name, path in paths.items() if path}
    implied: dict[tuple[str, ...], QueueDraft] = {}
    has_root = any(paths.values()) or _ROOT in parents.values()
    for queue in given:
        if queue.name == _ROOT and has_root:
            continue  # the root is the cluster itself
        draft = _volcano_draft(queue, parents[queue.name])
        path = paths[queue.name]
        if path:
            draft = _in_hierarchy(draft, queue, path, names, implied)
        yield draft
    yield from implied.values()


def _volcano_draft(given: KubernetesObject, parent: str) -> QueueDraft:
    note_unsupported(given)
    spec = given.reader.child("spec")
    capability = read_amounts(spec.child("capability"))
    guarantee = read_amounts(spec.child("guarantee").child("resource"))
    queue = Queue(
        name=given.name,
        creation_time=given.creation_time(),
        parent=parent if parent not in ("", _ROOT) else None,
        priority=spec.integer("priority", default=0),
        state=_volcano_state(given),
    )
    return QueueDraft.of(
        given,
        queue,
        weight=spec.integer("weight", default=1),
        guarantee=guarantee,
        deserved=read_amounts(spec.child("deserved")),
        limit=capability,
    )


def _volcano_state(given: KubernetesObject) -> QueueStatus:
    """Return the state in ``status.state``.

    Volcano sets Open, Closed, Closing or Unknown; a new queue has none.
    """
    if given.reader.child("status").text("state") in ("", "Open"):
        return QueueStatus.OPEN
    given.note(NoticeCode.QUEUE_CLOSED, "status.state", "not open: no new tasks start in it")
    return QueueStatus.CLOSED


def _annotated_path(given: KubernetesObject, parent: str) -> tuple[str, ...]:
    """Return the path in an annotation such as ``root/science/vision``; (): there is none."""
    text = given.metadata.text_map("annotations").get(_HIERARCHY, "")
    if not text:
        return ()
    field = f"metadata.annotations[{_HIERARCHY!r}]"
    if parent:
        given.note(NoticeCode.FIELD_IGNORED, field, "ignored: spec.parent takes precedence")
        return ()
    root, *path = text.split("/")
    if root != _ROOT or not path or not all(path):
        given.note(
            NoticeCode.FIELD_IGNORED, field, "ignored: expected a path such as root/science/vision"
        )
        return ()
    return tuple(path)


def _in_hierarchy(
    draft: QueueDraft,
    given: KubernetesObject,
    path: tuple[str, ...],
    names: Mapping[tuple[str, ...], str],
    implied: dict[tuple[str, ...], QueueDraft],
) -> QueueDraft:
    """Place a queue in the tree by its annotations; inner queues may exist only in annotations."""
    weights = _annotated_weights(given, len(path))
    above: str | None = None
    for depth in range(1, len(path)):
        part = path[:depth]
        name = names.get(part)
        if name is None:
            name = "/".join((_ROOT, *part))  # unique: names of objects have no slash
            weight = 1 if weights is None else weights[depth - 1]
            if part not in implied:
                queue = Queue(name=name, parent=above)
                implied[part] = QueueDraft.of(None, queue, weight=weight)
            elif implied[part].weight != weight and weights is not None:
                given.note(
                    NoticeCode.FIELD_IGNORED,
                    f"metadata.annotations[{_WEIGHTS!r}]",
                    f"ignored for {name!r}: another queue gives it the weight "
                    f"{implied[part].weight}",
                )
        above = name
    placed = evolve(draft, queue=evolve(draft.queue, parent=above), parent_is_known=True)
    return placed if weights is None else placed.with_weight(weights[-1])


def _annotated_weights(given: KubernetesObject, count: int) -> Sequence[int] | None:
    text = given.metadata.text_map("annotations").get(_WEIGHTS, "")
    if not text:
        return None
    weights = text.split("/")[1:]  # the root's weight has no effect
    if len(weights) == count and all(w.isascii() and w.isdecimal() and int(w) for w in weights):
        return [int(weight) for weight in weights]
    given.note(
        NoticeCode.FIELD_IGNORED,
        f"metadata.annotations[{_WEIGHTS!r}]",
        "ignored: expected whole numbers above 0, as many as the hierarchy has parts",
    )
    return None
