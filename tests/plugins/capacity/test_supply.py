"""What there is for queues: the total, the ceiling, and the units in which devices are shared."""

from __future__ import annotations

from random import Random

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import amount, job, node
from tests.support.books import opened

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Session,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.plugin import SessionView
from batchsched.plugins.capacity.supply import RememberedSupply, Supply
from batchsched.testing import snapshots

GPU = "gpu"


class Supplies:
    """Keeps both forms of the supply in a session."""

    def __init__(self, view: SessionView) -> None:
        self.view = view
        self.plain, self.remembered = Supply(view), RememberedSupply(view)

    def jobs_admitted(self) -> None:
        """Do nothing: it is here for what it keeps."""


def session_with_supplies(snapshot: Snapshot) -> tuple[Session, Supplies]:
    found: list[Supplies] = []

    def supplies(view: SessionView) -> Supplies:
        found.append(Supplies(view))
        return found[-1]

    return opened(snapshot, [("supplies", supplies)]), found[0]


def supplies_of(*nodes: NodeInfo, jobs: list[JobInfo], **more: object) -> Supplies:
    queues = [Queue(name="a"), Queue(name="b")]
    snapshot = Snapshot(nodes=nodes, queues=queues, jobs=jobs, **more)  # type: ignore[arg-type]
    return session_with_supplies(snapshot)[1]


def gpus(vector: tuple[int, ...]) -> int:
    return vector[2] // 1000


def on(name: str, count: int, status: TaskStatus = TaskStatus.RUNNING) -> JobInfo:
    """A job whose tasks of one gpu each are on a node."""
    one = job("a", f"on-{name}-{status.value}", count, size=1, gpus=1, on=name)
    return evolve(one, tasks=[evolve(task, status=status) for task in one.tasks])


class TestTotalAndRoom:
    LOST = (node("n1", 99, 0), node("n2", 99, 8))
    """The first had devices, too."""

    def test_lost_devices_are_no_part_of_what_is_shared_and_keep_no_others_idle(self) -> None:
        supplies = supplies_of(*self.LOST, jobs=[on("n1", 8)])
        assert gpus(supplies.plain.total()) == 8
        assert gpus(supplies.plain.ceiling()) == 16

    def test_a_node_out_of_service_has_what_runs_there(self) -> None:
        nodes = evolve(node("n1", 99, 8), unschedulable=True), node("n2", 99, 8)
        supplies = supplies_of(*nodes, jobs=[on("n1", 3), on("n1", 2, TaskStatus.RELEASING)])
        assert gpus(supplies.plain.total()) == 13
        assert gpus(supplies.plain.ceiling()) == 11  # what is leaving it does not count

    def test_the_ceiling_leaves_lost_devices_with_the_tasks(self) -> None:
        supplies = supplies_of(*self.LOST, jobs=[on("n1", 8), on("n2", 4)])
        tasks = supplies.view.tasks
        for which in (supplies.plain, supplies.remembered):
            assert gpus(which.ceiling([tasks["on-n1-Running-00"]])) == 15
            assert gpus(which.ceiling([tasks["on-n2-Running-00"]])) == 16

    def test_others_take_away_from_both(self) -> None:
        other = TaskInfo(
            uid="other",
            name="other",
            resreq=amount(1, 6),
            status=TaskStatus.RUNNING,
            node_name="n2",
        )
        supplies = supplies_of(*self.LOST, jobs=[on("n2", 4)], other_tasks=[other])
        assert gpus(supplies.plain.total()) == 2
        assert gpus(supplies.plain.ceiling()) == 4  # n2 is overcommitted


@settings(max_examples=150)
@given(
    snapshots(always=["overcommitted", "running"], min_jobs=2, groups=False),
    st.integers(0, 1 << 32),
)
def test_what_is_remembered_is_what_the_definition_says(snapshot: Snapshot, seed: int) -> None:
    """After any evictions, and with any of the rest gone."""
    random = Random(seed)
    nodes = [evolve(each, unschedulable=random.random() < 0.3) for each in snapshot.nodes]
    session, supplies = session_with_supplies(evolve(snapshot, nodes=nodes))
    assert supplies.remembered.total() == supplies.plain.total()
    tasks = [task for each in session.jobs.values() for task in each.tasks if each.in_session]
    claimants = [task for task in tasks if task.status is TaskStatus.PENDING]
    running = [task for task in tasks if task.status is TaskStatus.RUNNING]
    random.shuffle(running)
    for task in running[: 4 if claimants else 0]:
        leaving = random.sample(running, random.randint(0, len(running)))
        staying = [each for each in leaving if each.status is TaskStatus.RUNNING]
        assert supplies.remembered.ceiling() == supplies.plain.ceiling()
        assert supplies.remembered.ceiling(staying) == supplies.plain.ceiling(staying)
        with session.statement() as statement:
            statement.evict(task, claimant=claimants[0])
            if random.random() < 0.7:
                statement.commit()
    assert supplies.remembered.ceiling() == supplies.plain.ceiling()


def test_tasks_of_which_nothing_is_known_stay() -> None:
    nodes = evolve(node("n1", 99, 8), unschedulable=True), node("n2", 99, 8)
    supplies = supplies_of(*nodes, jobs=[on("n1", 2, TaskStatus.UNKNOWN)])
    assert gpus(supplies.plain.ceiling()) == gpus(supplies.remembered.ceiling()) == 10
