"""The record of changes: what changed since a position."""

from __future__ import annotations

from batchsched import JobInfo, NodeInfo, Queue, Resource, Scheduler, Session, Snapshot, TaskInfo

CPU = Resource(milli_cpu=1000)


def opened() -> Session:
    return Scheduler().open(
        Snapshot(
            nodes=[NodeInfo(name=f"n{i}", allocatable=Resource(milli_cpu=4000)) for i in range(3)],
            queues=[Queue(name="q")],
            jobs=[
                JobInfo(
                    name=name,
                    queue="q",
                    min_available=9,
                    tasks=[
                        TaskInfo(uid=f"{name}{i}", name=f"{name}{i}", resreq=CPU) for i in range(9)
                    ],
                )
                for name in ("a", "b")
            ],
        )
    )


def changed(session: Session, position: tuple[int, int, int]) -> tuple[set[int], set[str]]:
    nodes, jobs, charged = session.ledger.log.changed_since(position)
    assert charged <= jobs
    return nodes, {job.info.name for job in jobs}


def test_what_was_placed_since_is_told() -> None:
    session = opened()
    before = session.ledger.log.position()
    session.allocate(session.task("a0"), session.node("n1"))
    assert changed(session, before) == ({1}, {"a"})
    assert changed(session, session.ledger.log.position()) == (set(), set())


def test_what_is_undone_is_told_as_any_change() -> None:
    session = opened()
    before = session.ledger.log.position()
    with session.statement() as statement:
        statement.allocate(session.task("a0"), session.node("n0"))
        within = session.ledger.log.position()
        statement.allocate(session.task("b0"), session.node("n2"))
    assert changed(session, before) == ({0, 2}, {"a", "b"})
    assert changed(session, within) == ({0, 2}, {"a", "b"})


def test_nodes_and_jobs_are_recorded_apart() -> None:
    """Binding charges nobody, and a node that changed last is not recorded again."""
    session = opened()
    session.allocate(session.task("a0"), session.node("n0"))
    session.allocate(session.task("a1"), session.node("n1"))
    for uid in ("a1", "a0"):
        session.ledger.bind(session.task(uid))
    before = session.ledger.log.position()
    assert before == (3, 4, 2)
    session.allocate(session.task("b0"), session.node("n2"))
    assert session.ledger.log.changed_since(before) == (
        {2},
        {session.jobs["default/b"]},
        {session.jobs["default/b"]},
    )


def test_a_job_that_gives_back_changes_and_is_not_charged() -> None:
    session = opened()
    session.allocate(session.task("a0"), session.node("n1"))
    before = session.ledger.log.position()
    session.unallocate(session.task("a0"))
    nodes, jobs, charged = session.ledger.log.changed_since(before)
    assert (nodes, jobs, charged) == ({1}, {session.jobs["default/a"]}, set())
