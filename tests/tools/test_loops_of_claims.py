"""Loops that were published of claims in Kueue's way, found by `find_cycles`; and what ends them.

There a job claims from its own queue and from others at once, whoever of other queues may be taken
is judged by shares, and room that is there is offered to the oldest waiting job of a queue alone.
No action here does that, so these are actions of their own; single tasks, one resource.
"""

from __future__ import annotations

import pytest
from attrs import evolve, frozen

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Registry,
    Resource,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    default_registry,
)
from batchsched.action import Fit, NodeState, QueueState, Session, TaskState
from batchsched.tools import find_cycles

CPU = Resource(milli_cpu=1000)


def waiting_of(queue: QueueState) -> list[TaskState]:
    jobs = sorted(queue.jobs, key=lambda j: (-j.info.priority, j.info.creation_time, j.uid))
    return [task for job in jobs for task in job.tasks if task.status is TaskStatus.PENDING]


@frozen(kw_only=True)
class Heads:
    """Room that is there is offered to the first waiting job of each queue, and to no other."""

    fewest_first: bool = False
    """Whether the queue that holds least comes first, not the first by name."""

    def execute(self, session: Session, /) -> None:
        queues = list(session.queues.values())
        for queue in sorted(queues, key=held_by) if self.fewest_first else queues:
            for task in waiting_of(queue):
                node = session.best_node(task, Fit.NOW)
                if node is None:
                    break
                session.allocate(task, node)


@frozen(kw_only=True)
class Claims:
    """A job of each queue claims: the first that can, or the first alone."""

    only_first: bool = False
    own_first: bool = False
    """Whether jobs of lower priority of its own queue are taken before others'."""
    before_it: bool = False
    """Whether the victim's share counts as it is before it loses anything, not after that."""
    by_priority: bool = False
    """Whether others' jobs of lower priority are taken, whatever the shares."""
    asks_again: bool = False
    """Whether shares are asked again once what is not needed is spared."""

    def execute(self, session: Session, /) -> None:
        for queue in session.queues.values():
            for task in waiting_of(queue):
                if any(self._claims(session, task, n) for n in session.nodes) or self.only_first:
                    break

    def _claims(self, session: Session, task: TaskState, node: NodeState) -> bool:
        taken = self._taken(session, task, node)
        if taken is None:
            return False
        with session.statement() as statement:
            for victim in taken:
                statement.evict(victim, claimant=task)
            statement.pipeline(task, node)
            statement.commit()
        return True

    def _taken(self, session: Session, task: TaskState, node: NodeState) -> list[TaskState] | None:
        assert task.job is not None
        queue, priority, size = task.job.queue, task.job.info.priority, task.resreq[0]
        assert queue is not None
        holds = {each.name: held_by(each) for each in session.queues.values()}
        running = [t for t in node.tasks.values() if t.status is TaskStatus.RUNNING and t.job]
        running.sort(key=lambda t: t.job.info.priority if t.job else 0)
        own = [t for t in running if t.job and t.job.queue is queue]
        own = [t for t in own if t.job and t.job.info.priority < priority]
        others = [t for t in running if t.job and t.job.queue is not queue]
        room, taken = node.future_idle[0], list[TaskState]()
        for victim in [*(own if self.own_first else ()), *others]:
            if room >= size:
                break
            name, amount = owner(victim), victim.resreq[0]
            least = holds[name] if self.before_it else holds[name] - amount
            is_below = victim.job is not None and victim.job.info.priority < priority
            may_go = is_below if self.by_priority else holds[queue.name] + size <= least
            if name == queue.name or may_go:
                holds[name] -= amount
                room += amount
                taken.append(victim)
        if room < size or not taken:
            return None
        for victim in taken[-2::-1]:  # all but the last, backwards
            if room - victim.resreq[0] >= size:
                room -= victim.resreq[0]
                holds[owner(victim)] += victim.resreq[0]
                taken.remove(victim)
        from_others = {owner(victim) for victim in taken} - {queue.name}
        before = {name: held_by(session.queues[name]) for name in from_others}
        if self.asks_again and any(holds[queue.name] + size > before[name] for name in from_others):
            return None
        return taken


def held_by(queue: QueueState) -> int:
    return sum(task.resreq[0] for job in queue.jobs for task in job.tasks if task.status.charged)


def owner(task: TaskState) -> str:
    assert task.job is not None
    return task.job.info.queue


def configured(*, fewest_first: bool = False, **claims: bool) -> tuple[SchedulerConfig, Registry]:
    registry = default_registry()
    registry.register_action("heads", lambda _: Heads(fewest_first=fewest_first))
    registry.register_action("claims", lambda _: Claims(**claims))
    mapping = {"actions": "heads, claims", "tiers": [{"plugins": ["predicates"]}]}
    return SchedulerConfig.from_mapping(mapping, registry=registry), registry


def job(name: str, size: int, *, at: float = 0, runs: bool = False, priority: int = 0) -> JobInfo:
    """Return a job of one task; its queue is the first letter of its name."""
    task = TaskInfo(uid=name, name=name, resreq=size * CPU)
    if runs:
        task = evolve(task, status=TaskStatus.RUNNING, node_name="n")
    return JobInfo(name=name, queue=name[0], priority=priority, creation_time=at, tasks=[task])


def cluster(size: int, *jobs: JobInfo) -> Snapshot:
    queues = [Queue(name=name) for name in sorted({each.queue for each in jobs})]
    return Snapshot(nodes=[NodeInfo(name="n", allocatable=size * CPU)], queues=queues, jobs=jobs)


def test_claims_by_priority_beside_turns_by_what_queues_hold_go_round() -> None:
    """a takes from c by priority, and c, which holds least then, takes its place again."""
    runs = [job("a0", 250, runs=True), job("c0", 50, runs=True)]
    given = cluster(300, *runs, job("a1", 50, at=1, priority=1))
    config, registry = configured(fewest_first=True, by_priority=True)
    found = find_cycles(config, given, registry=registry, promises="forgotten")
    assert found is not None
    assert (found.proved, found.evicted) == (True, ("c0",))
    assert find_cycles(config, given, registry=registry) is None
    assert find_cycles(config, registry=registry, promises="forgotten", worlds=400) is not None


EQUAL = cluster(
    8,
    *(job(f"a{number}", 2, at=number, runs=True) for number in range(4)),
    *(job(f"b{size}", size, at=10 - size) for size in (6, 5, 3)),
)
"""Queue a runs four jobs of 2; b waits for 6, 5 and 3, the largest first."""


def test_a_claim_up_to_an_equal_share_that_is_forgotten_goes_round() -> None:
    """b3 takes two jobs, and their place is not kept: b6 comes first, too large, and they return.

    b6 and b5 may take one job and none after it, for b would hold more than a does then.
    """
    config, registry = configured()
    found = find_cycles(config, EQUAL, registry=registry, promises="forgotten")
    assert found is not None
    assert found.proved
    assert set(found.evicted) == {"a0", "a1", "a2", "a3"}
    assert {each.for_task_uid for result in found.loop for each in result.evictions} == {"b3"}


def test_it_ends_where_promises_are_kept_or_only_the_first_job_may_claim() -> None:
    """Where b6 alone may claim, it may not take enough, and nobody ever leaves on this cluster."""
    config, registry = configured()
    assert find_cycles(config, EQUAL, registry=registry) is None
    config, registry = configured(only_first=True)
    assert find_cycles(config, EQUAL, registry=registry, promises="forgotten") is None
    assert find_cycles(SchedulerConfig(), EQUAL, promises="forgotten") is None


@pytest.mark.parametrize("only_first", [True, False])
def test_equal_shares_go_round_on_small_clusters_where_promises_are_forgotten(
    only_first: bool,
) -> None:
    config, registry = configured(only_first=only_first)
    found = find_cycles(config, registry=registry, promises="forgotten", worlds=200)
    assert found is not None
    assert (len(found.snapshot.nodes), len(found.snapshot.jobs)) == (1, 2)
    assert find_cycles(config, registry=registry, worlds=200) is None


OWN = cluster(
    3, job("alow", 1, runs=True), job("b", 2, runs=True), job("ahigh", 2, at=1, priority=1)
)
"""ahigh waits for 2; of its queue alow runs, and b holds the rest."""


def test_own_jobs_that_go_first_and_are_spared_unasked_go_round() -> None:
    """Without alow its queue holds nothing, so ahigh may take b; then alow is spared, and stays.

    Queue a holds all, and b takes its place back.
    """
    config, registry = configured(own_first=True, before_it=True)
    found = find_cycles(config, OWN, registry=registry)
    assert found is not None
    assert found.proved
    assert set(found.evicted) == {"ahigh", "b"}
    anywhere = find_cycles(config, registry=registry, worlds=2000)
    assert anywhere is not None
    assert anywhere.proved


def test_it_ends_where_shares_are_asked_again_or_own_jobs_do_not_go_with_others() -> None:
    for claims in ({"own_first": True, "asks_again": True}, {"own_first": False}):
        config, registry = configured(before_it=True, **claims)
        assert find_cycles(config, OWN, registry=registry) is None
    for actions in ("allocate, preempt", "reclaim, allocate, preempt"):
        config = SchedulerConfig.from_mapping({"actions": actions})
        assert find_cycles(config, OWN) is None
