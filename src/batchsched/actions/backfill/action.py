"""backfill: use resources that would otherwise stay idle."""

from __future__ import annotations

from attrs import frozen

from batchsched.actions.backfill.displace import displace
from batchsched.actions.backfill.release import release
from batchsched.model.cluster import TaskStatus
from batchsched.placement import Fit
from batchsched.plugin.arguments import Arguments
from batchsched.session.session import Session
from batchsched.state.records import JobState, TaskState

__all__ = ["BackfillAction"]


@frozen(kw_only=True)
class BackfillAction:
    """Places best-effort tasks; then, by its strategy, uses what unready gangs hold."""

    strategy: str = "best-effort"
    """``best-effort``, ``release`` or ``displace``."""
    best_node: bool = False
    """Whether best-effort tasks go to the best node; if not, to the first feasible one."""
    starvation_threshold: float | None = None
    """Seconds after which a waiting job keeps what it holds; None: no job is starving."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> BackfillAction:
        """Read ``strategy``, ``nodeChoice`` and ``starvationThreshold``."""
        threshold = arguments.number("starvationThreshold", default=0, minimum=0)
        is_given = arguments.is_given("starvationThreshold")
        return cls(
            strategy=arguments.choice(
                "strategy", ("best-effort", "release", "displace"), default="best-effort"
            ),
            best_node=arguments.choice("nodeChoice", ("first", "best"), default="first") == "best",
            starvation_threshold=threshold if is_given else None,
        )

    def execute(self, session: Session, /) -> None:
        """Place best-effort tasks, then follow the strategy."""
        self._place_best_effort(session)
        if self.strategy == "release":
            release(session, self.starvation_threshold)
        elif self.strategy == "displace":
            displace(session)

    def _place_best_effort(self, session: Session) -> None:
        pending: dict[JobState, list[TaskState]] = {}
        for job in session.jobs_having(TaskStatus.PENDING):
            if not job.best_effort_count:
                continue
            tasks = [t for t in job.having(TaskStatus.PENDING) if t.is_best_effort]
            if tasks:
                pending[job] = tasks
        for job in sorted(pending, key=session.job_order_key):
            for task in session.in_task_order(pending[job]):
                if not session.may_take_task(task):
                    continue
                if self.best_node:
                    node = session.best_node(task, Fit.NOW)
                else:
                    node = session.first_node(task)
                if node is None:
                    session.record_failure(task)
                else:
                    session.allocate(task, node)
