"""Keep planned starts possible while other actions place tasks."""

from __future__ import annotations

from collections.abc import Iterable

from batchsched.actions.planning.cluster_profile import Places
from batchsched.actions.planning.profile import NOW, end_of_run, estimate_of, profile_of
from batchsched.session.session import Session
from batchsched.state.records import NodeState, TaskState

__all__ = ["PlanGuard"]


class PlanGuard:
    """Refuses placements that would make a plan impossible."""

    def __init__(self, session: Session, plans: Iterable[Places]) -> None:
        self._now = session.now
        self._on_node: dict[int, list[tuple[TaskState, float]]] = {}
        for places in plans:
            for task, node in places.of:
                self._on_node.setdefault(node.index, []).append((task, places.start))

    def allows(self, task: TaskState, node: NodeState, /) -> bool:
        """Return whether all plans still fit if a task runs on a node until its expected end.

        The plan of the task's own job is ignored, and so are plans for tasks that have been
        placed meanwhile. O(tasks and plans on the node).
        """
        planned = self._on_node.get(node.index)
        if planned is None:
            return True
        profile = profile_of(node, self._now)
        for other, start in planned:
            if other.node is None and other.job is not task.job:
                profile.take(other.resreq, start, end_of_run(start, estimate_of(other), self._now))
        return profile.fits(task.init_resreq, NOW, end_of_run(NOW, estimate_of(task), self._now))
