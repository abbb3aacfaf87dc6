"""Mistakes that one process cannot see: what is made from the order of a set."""

from __future__ import annotations

from collections.abc import Iterable

from batchsched import Scheduler, SchedulerConfig, Session, TaskStatus, default_registry
from batchsched.plugin import JobState, NodeScore, NodeState, Reads, SessionView, TaskState


class ScoresByASet:
    """Prefers the nodes as they come in a set."""

    def open(self, view: SessionView, /) -> ScoresByASet:
        self._places = {name: place for place, name in enumerate({n.name for n in view.nodes})}
        return self

    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(score=self.score, reads=Reads.DESCRIPTION)

    def score(self, _task: TaskState, node: NodeState, /) -> float:
        return self._places[node.name]


class OrdersByASet:
    """Ranks jobs as they come in a set."""

    def open(self, view: SessionView, /) -> OrdersByASet:
        self._places = {uid: place for place, uid in enumerate(set(view.jobs))}
        return self

    def job_order_key(self, job: JobState, /) -> int:
        return self._places[job.uid]


class OrdersByName:
    """Goes through a set as well, and sorts it."""

    def open(self, view: SessionView, /) -> OrdersByName:
        self._places = {uid: place for place, uid in enumerate(sorted(set(view.jobs)))}
        return self

    def job_order_key(self, job: JobState, /) -> int:
        return self._places[job.uid]


class StartsByASet:
    """An action that starts what waits as it comes in a set."""

    def execute(self, session: Session, /) -> None:
        waiting = {t.uid for j in session.jobs.values() for t in j.having(TaskStatus.PENDING)}
        for uid in waiting:
            task = session.task(uid)
            for node in session.nodes:
                if node.fits(task):
                    with session.statement() as statement:
                        statement.allocate(task, node)
                        statement.commit()
                    break


def scheduler_by_a_set() -> Scheduler:
    registry = default_registry()
    registry.register_action("by-a-set", lambda _: StartsByASet())
    config = {"actions": "by-a-set", "tiers": [{"plugins": ["priority"]}]}
    return Scheduler(SchedulerConfig.from_mapping(config, registry=registry), registry)


def fails() -> Scheduler:
    raise OSError("no such cluster")
