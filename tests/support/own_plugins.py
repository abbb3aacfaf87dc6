"""Plugins of a user's own: of every scope and with every hint, and one that lets all be evicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from zlib import crc32

from batchsched import TaskStatus, Unfit, UnfitReason
from batchsched.plugin import (
    NodeKeys,
    NodeScore,
    NodeState,
    Predicate,
    PredicateHints,
    Reads,
    ScoreHints,
    SessionView,
    TaskState,
    Verdict,
)

REFUSED = Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="own", detail="no")
OTHER_SIDE = Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="own", detail="the other side")


def _number(*texts: str) -> int:
    return crc32("/".join(texts).encode())


def _app(task: TaskState) -> str:
    return task.info.labels.get("app", "")


def _uid(task: TaskState) -> str:
    return task.uid


def _request(task: TaskState) -> object:
    return task.resreq


def _alike(_task: TaskState) -> None:
    return None


SIDES = NodeKeys(
    of_node=lambda node: [_number(node.name) % 4, "any"],
    of_task=lambda task: [["any"], [_number(_app(task)) % 4]],
    otherwise=OTHER_SIDE,
)


class Own:
    """Predicates and scores of every scope, chosen by the names in `parts`."""

    def __init__(self, parts: Iterable[str], view: SessionView) -> None:
        self.parts = frozenset(parts)
        self.view = view
        if not self.parts.isdisjoint({"key", "free key"}):
            self.node_key = self._key if "key" in self.parts else self._free_key
        if "key" in self.parts:
            self.node_key_signature = _app

    # The key of nodes

    def _key(self, task: TaskState, node: NodeState) -> tuple[int, ...]:
        return _number(_app(task), node.name) % 3, -len(node.tasks) // 2

    def _free_key(self, task: TaskState, node: NodeState) -> tuple[int, ...]:
        elsewhere = sum(len(other.tasks) for other in self.view.nodes if other is not node)
        return (elsewhere // 3, _number(task.uid, node.name) % 3)

    # Predicates

    def _no_label(self, task: TaskState, node: NodeState) -> Unfit | None:
        return REFUSED if _number(_app(task), node.name) % 4 == 0 else None

    def _same_side(self, task: TaskState, node: NodeState) -> Unfit | None:
        if _number(_app(task)) % 4 != _number(node.name) % 4:
            return OTHER_SIDE
        return self._no_label(task, node)

    def _not_many(self, _task: TaskState, node: NodeState) -> Unfit | None:
        return REFUSED if len(node.tasks) + len(node.reserved_tasks) >= 3 else None

    def _few(self, _task: TaskState, node: NodeState) -> Unfit | None:
        return REFUSED if len(node.tasks) >= 3 else None

    def _not_beside_the_same(self, task: TaskState, node: NodeState) -> Unfit | None:
        same = any(_app(other) == _app(task) != "" for other in node.tasks.values())
        return REFUSED if same else None

    def _settled(self, _task: TaskState, node: NodeState) -> Unfit | None:
        waits = any(other.status is TaskStatus.ALLOCATED for other in node.tasks.values())
        return REFUSED if waits else None

    def _not_the_fullest(self, _task: TaskState, node: NodeState) -> Unfit | None:
        fullest = max(len(other.tasks) for other in self.view.nodes)
        return REFUSED if fullest > 2 and len(node.tasks) == fullest else None

    def predicates(self) -> Iterable[Predicate]:
        if "label" in self.parts:
            yield Predicate(check=self._no_label, reads=Reads.DESCRIPTION, signature=_app)
        if "side" in self.parts:
            yield Predicate(
                check=self._same_side,
                reads=Reads.DESCRIPTION,
                signature=_app,
                hints=PredicateHints(node_keys=SIDES),
            )
        if "many" in self.parts:
            yield Predicate(check=self._not_many, reads=Reads.ACCOUNTS, signature=_alike)
        if "few" in self.parts:
            yield Predicate(
                check=self._few,
                reads=Reads.ACCOUNTS,
                signature=_alike,
                hints=PredicateHints(vectorise=lambda _task: lambda nodes: ~(nodes.tasks >= 3)),
            )
        if "same" in self.parts:
            yield Predicate(
                check=self._not_beside_the_same,
                reads=Reads.NODE,
                signature=_app,
                hints=PredicateHints(
                    specialise=lambda task: (
                        (lambda node: self._not_beside_the_same(task, node)) if _app(task) else None
                    )
                ),
            )
        if "settled" in self.parts:
            yield Predicate(check=self._settled, reads=Reads.NODE, signature=_alike)
        if "fullest" in self.parts:
            yield Predicate(check=self._not_the_fullest)

    # Scores

    def _by_name(self, task: TaskState, node: NodeState) -> float:
        return _number(_app(task), node.name) % 7 / 3

    def _idle(self, _task: TaskState, node: NodeState) -> float:
        return float(node.idle[0]) * 0.1 / 7

    def _running(self, _task: TaskState, node: NodeState) -> float:
        return sum(other.status is TaskStatus.RUNNING for other in node.tasks.values()) / 7

    def _elsewhere(self, _task: TaskState, node: NodeState) -> float:
        return sum(len(other.tasks) for other in self.view.nodes if other is not node) * 0.1

    def _tiny(self, task: TaskState, node: NodeState) -> float:
        return (_number(task.uid, node.name) % 3) * 1e-17

    def _free_part(self, task: TaskState, node: NodeState) -> float:
        return (float(node.idle[1]) + float(task.resreq[0])) / 3

    def node_scores(self) -> Iterable[NodeScore]:
        if "tiny" in self.parts:
            yield NodeScore(score=self._tiny, reads=Reads.DESCRIPTION, signature=_uid)
        if "by name" in self.parts:
            yield NodeScore(score=self._by_name, weight=3, reads=Reads.DESCRIPTION, signature=_app)
        if "normalised" in self.parts:
            yield NodeScore(
                score=self._free_part,
                normalise=lambda raw, low, high: (raw - low) / (high - low) if high > low else 0.3,
                weight=2,
                reads=Reads.ACCOUNTS,
                signature=_request,
            )
        if "idle" in self.parts:
            yield NodeScore(
                score=self._idle,
                reads=Reads.ACCOUNTS,
                signature=_alike,
                hints=ScoreHints(
                    vectorise=lambda _task: lambda nodes: nodes.idle[0] * 0.1 / 7,
                ),
            )
        if "capacity" in self.parts:
            yield NodeScore(
                score=lambda _task, node: float(node.allocatable[1]) - node.scoring_memory,
                weight=3,
                reads=Reads.ACCOUNTS,
                signature=_alike,
                hints=ScoreHints(
                    vectorise=lambda _task: lambda nodes: nodes.allocatable[1] - nodes.scoring[1],
                ),
            )
        if "running" in self.parts:
            yield NodeScore(score=self._running, reads=Reads.NODE, signature=_alike)
        if "reversed" in self.parts:
            yield NodeScore(
                score=self._by_name,
                normalise=lambda raw, low, high: 10 * (high - raw) / ((high - low) or 1),
                reads=Reads.DESCRIPTION,
                signature=_app,
                hints=ScoreHints(
                    specialise=lambda task: lambda nodes: [self._by_name(task, n) for n in nodes]
                ),
            )
        if "elsewhere" in self.parts:
            yield NodeScore(score=self._elsewhere)
        if "sometimes" in self.parts:
            yield NodeScore(
                score=lambda task, node: self._by_name(task, node) if _app(task) else 0,
                normalise=lambda raw, _low, high: raw / (high or 1),
                reads=Reads.DESCRIPTION,
                signature=_app,
                hints=ScoreHints(
                    specialise=lambda task: (
                        (lambda nodes: [self._by_name(task, n) for n in nodes])
                        if _app(task)
                        else None
                    )
                ),
            )
        if "nothing" in self.parts:
            yield NodeScore(score=lambda task, node: 1 / 0, weight=0)


WATCHED_PARTS = (
    *("label", "side", "many", "same", "few", "settled"),
    *("tiny", "by name", "normalised", "idle", "running", "reversed", "nothing", "capacity"),
    *("sometimes", "key"),
)
"""What the engine can keep answers of."""
PARTS = (*WATCHED_PARTS, "fullest", "elsewhere", "free key")


class Grabs:
    """Everybody may evict everybody else."""

    def preemptable(
        self, _claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [Verdict.VICTIM for _ in candidates]
