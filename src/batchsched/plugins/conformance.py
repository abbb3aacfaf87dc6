"""conformance: system tasks and critical tasks are never evicted."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes, Verdict
from batchsched.plugin.node_functions import EvictionHints
from batchsched.plugin.session_view import SessionView
from batchsched.state.records import TaskState

SYSTEM_NAMESPACE = "kube-system"
CRITICAL_CLASSES = ("system-cluster-critical", "system-node-critical")


@frozen
class ConformancePlugin:
    """Protects system tasks and tasks of critical priority classes; all others are victims."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> ConformancePlugin:
        """Take no arguments."""
        return cls()

    def open(self, _view: SessionView, /) -> object:
        """Open for one cycle."""
        return _Conformance()


class _Conformance:
    refuses_alike = True

    def resume(self, _changes: Changes, /) -> bool:
        return True  # it has no state

    def hints(self) -> EvictionHints:
        return EvictionHints(claimant_key=self.claimant_key, shielded=self.shielded)

    def claimant_key(self, _claimant: TaskState, /) -> None:
        return None

    def shielded(self, _claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[bool]:
        return [_is_critical(candidate) for candidate in candidates]

    def preemptable(
        self, _claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [
            Verdict.PROTECTED if _is_critical(candidate) else Verdict.VICTIM
            for candidate in candidates
        ]

    reclaimable = preemptable
    revocable = preemptable

    def verdict_reasons(
        self, _claimant: TaskState, candidates: Sequence[TaskState], _verdict: Verdict, /
    ) -> Sequence[str]:
        return [
            SYSTEM_NAMESPACE
            if candidate.info.namespace == SYSTEM_NAMESPACE
            else "of a critical priority class"
            for candidate in candidates
        ]


def _is_critical(task: TaskState) -> bool:
    return (
        task.info.namespace == SYSTEM_NAMESPACE or task.info.priority_class_name in CRITICAL_CLASSES
    )
