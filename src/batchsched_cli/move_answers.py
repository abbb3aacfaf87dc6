"""The command about moves: defrag."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from batchsched import BatchschedError, Snapshot
from batchsched.tools import FreeNodes, MovePlan, Room, plan_moves
from batchsched_cli.arguments import UsageError
from batchsched_cli.cluster_answers import JobNames
from batchsched_cli.cluster_pictures import before_and_after
from batchsched_cli.reading import Question, lines_of
from batchsched_cli.text import Answer, Block, Line, Picture, blocks_of, unknown

ReadT = TypeVar("ReadT")


def defrag(question: Question) -> Answer:
    """Answer which tasks to move to free nodes, or for a job, with a picture before and after."""
    snapshot, config = question.dump().snapshot, question.configuration()
    read = _Read(question, snapshot)
    goal: FreeNodes | Room | None
    goal = read.what(read.room) if question.arguments.has("--room") else read.what(read.free_nodes)
    limit = read.what(lambda: question.arguments.whole("--limit", 0))
    max_price = read.what(lambda: question.arguments.whole("--max-price", 0))
    exempt = [
        read.what(partial(question.job, name)) for name in question.arguments.texts("--exempt")
    ]
    if read.faults or goal is None:
        raise UsageError(*read.faults)
    plan = plan_moves(
        snapshot,
        goal,
        config=config.config,
        limit=limit,
        max_price=max_price,
        exempt=[uid for uid in exempt if uid is not None],
    )
    blocks: list[Block] = [*blocks_of(plan.sections())]
    blocks += _pictures(question, snapshot, plan)
    blocks.append(Line(f"configuration: {config.text}", "quiet"))
    return Answer(int(not plan.reached), tuple(blocks), plan.to_dict())


def _pictures(question: Question, snapshot: Snapshot, plan: MovePlan) -> Iterator[Picture]:
    """Yield the nodes that moves begin or end at, before and after all of them."""
    if plan.steps:
        jobs = {task.uid: job.uid for job in snapshot.jobs for task in job.tasks}
        yield from before_and_after(
            snapshot,
            plan.apply(snapshot),
            JobNames(question),
            nodes={name for move in plan.moves for name in (move.from_node, move.to_node)},
            jobs=[jobs[move.task_uid] for move in plan.moves],
        )


class _Read:
    """Reads what the command line says, and keeps all that is wrong with it."""

    def __init__(self, question: Question, snapshot: Snapshot) -> None:
        self._question = question
        self._labels = {key for node in snapshot.nodes for key in node.labels}
        self.faults: list[str] = []

    def what(self, read: Callable[[], ReadT]) -> ReadT | None:
        """Return what is read; None, too, if it cannot be."""
        try:
            return read()
        except UsageError as error:
            self.faults += error.lines
        except BatchschedError as error:
            self.faults += lines_of(error)
        return None

    def room(self) -> Room:
        """Return for which job there is to be room."""
        arguments = self._question.arguments
        for name in ("--free", "--selector"):
            if arguments.has(name):
                self.faults.append(f"{name}: does not go with --room: ask for one of them")
        return Room(job_uid=self._question.job(arguments.text("--room") or ""))

    def free_nodes(self) -> FreeNodes:
        """Return how many nodes are to be free, and which."""
        count = self.what(lambda: self._question.arguments.whole("--free"))
        if count is None and not self._question.arguments.has("--free"):
            self.faults.append("defrag: expected --free N, such as --free 2, or --room JOB")
        given = self._question.arguments.texts("--selector")
        pairs = (self.what(partial(self._label, each)) for each in given)
        return FreeNodes(count=count or 0, selector=dict(filter(None, pairs)))

    def _label(self, text: str) -> tuple[str, str]:
        key, sign, value = text.partition("=")
        if not (key and sign):
            raise UsageError(f"--selector: expected LABEL=VALUE, got {text!r}")
        if key not in self._labels:
            raise unknown("label", key, self._labels)
        return key, value
