"""Groups count and choose as plain recursion, or trying everything, does."""

from __future__ import annotations

from itertools import combinations

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.groups import Groups, has_groups
from tests.reference.state import State
from tests.support.elastic import elastic
from tests.support.elastic_worlds import elastic_jobs

from batchsched import JobInfo, NodeInfo, Snapshot, TaskGroup, TaskStatus
from batchsched.model.cluster import can_start_with, least_tasks
from batchsched.plugin import JobState
from batchsched.state.groups import Counting, GroupState
from batchsched.state.ledger import counted_job
from batchsched.state.needs import TasksByGroup, needed_tasks

STATUSES = {
    Counting.READY: ("Running", "Bound", "Succeeded"),
    Counting.VALID: ("Running", "Bound", "Succeeded", "Pending"),
}
JOBS = elastic_jobs("j").filter(has_groups)


def pending(job: JobInfo) -> list[str]:
    return [task.uid for task in job.tasks if task.status is TaskStatus.PENDING]


def starts_with(job: JobInfo, more: tuple[str, ...]) -> bool:
    """Whether a job could start if these tasks ran, by plain recursion, within its maxima."""
    counts: dict[str | None, int] = {}
    placed: dict[str | None, int] = {}
    for task in job.tasks:
        if task.status.ready or task.uid in more:
            counts[task.group] = counts.get(task.group, 0) + 1
        if (task.status.conditionally_ready and task.status is not TaskStatus.SUCCEEDED) or (
            task.uid in more
        ):  # a reservation counts against maxima, too
            placed[task.group] = placed.get(task.group, 0) + 1
    if job.max_available is not None and sum(placed.values()) > job.max_available:
        return False
    joined = {task.group for task in job.tasks if task.uid in more}
    for group in job.groups:  # one that holds too much already may keep it
        if group.max is not None and group.name in joined and placed[group.name] > group.max:
            return False
    if sum(counts.values()) < job.min_available:
        return False
    return not job.groups or can_start_with(job.groups, job.min_groups, counts)


def has_no_inner_maximum(job: JobInfo) -> bool:
    inner = {group.parent for group in job.groups}
    return all(group.max is None for group in job.groups if group.name in inner)


@settings(max_examples=60)
@given(JOBS)
def test_e6_what_counts_is_what_plain_recursion_counts(job: JobInfo) -> None:
    groups = counted_job(job).groups
    plain = Groups(State(Snapshot(jobs=[job], nodes=[NodeInfo(name=n) for n in ("n1", "n2")])), job)
    assert groups is not None
    assert groups.minimum == plain.least_tasks
    for counting, names in STATUSES.items():
        statuses = [TaskStatus(name) for name in names]
        assert groups.is_satisfied(counting) is plain.can_start(statuses)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.text("PRSF", max_size=4)), min_size=1, max_size=4))
def test_e6_with_roles_a_job_is_ready_when_each_role_and_the_number_are(
    roles: list[tuple[int, str]],
) -> None:
    """So is a job of Volcano with `minTaskMember` and `minMember`."""
    groups = [TaskGroup(f"r{number}", min=least) for number, (least, _) in enumerate(roles)]
    of = {f"r{number}": statuses for number, (_, statuses) in enumerate(roles)}
    ready = [sum(letter in "RS" for letter in statuses) for _, statuses in roles]
    for number in range(6):
        state = counted_job(elastic("e", of, groups=groups, min_available=number)).groups
        assert state is not None
        each = all(have >= least for have, (least, _) in zip(ready, roles, strict=True))
        assert state.is_satisfied(Counting.READY) is (each and sum(ready) >= number)


@settings(max_examples=40)
@given(JOBS.filter(has_no_inner_maximum))
def test_e8_a_job_asks_for_the_fewest_tasks_with_which_it_can_start(job: JobInfo) -> None:
    state = counted_job(job)
    assert state.groups is not None
    if state.groups.is_satisfied(Counting.READY):
        return
    waiting = [task for task in state.tasks if task.status is TaskStatus.PENDING]
    needed = needed_tasks(state.groups, waiting)
    choices = [
        chosen
        for count in range(len(waiting) + 1)
        for chosen in combinations(pending(job), count)
        if starts_with(job, chosen)
    ]
    fewest = min(map(len, choices), default=0)
    assert len(needed) == fewest
    assert not needed or starts_with(job, tuple(task.uid for task in needed))


@settings(max_examples=40)
@given(JOBS, st.data())
def test_e7_names_of_groups_mean_nothing(job: JobInfo, data: st.DataObject) -> None:
    names = [group.name for group in job.groups]
    other = dict(
        zip(names, data.draw(st.permutations([f"x{n}" for n in range(len(names))])), strict=True)
    )
    renamed = [
        TaskGroup(
            other[group.name],
            parent=None if group.parent is None else other[group.parent],
            min=group.min,
            max=group.max,
        )
        for group in job.groups
    ]
    tasks = [(task, other.get(task.group or "")) for task in job.tasks]
    fields = {"uid", "name", "status", "node_name", "resreq", "priority"}
    same = JobInfo(
        name=job.name,
        queue=job.queue,
        min_available=job.min_available,
        max_available=job.max_available,
        min_groups=job.min_groups,
        groups=renamed,
        tasks=[
            type(task)(group=group, **{name: getattr(task, name) for name in fields})
            for task, group in tasks
        ],
    )
    chosen = []
    for each in (job, same):
        state = counted_job(each)
        assert state.groups is not None
        waiting = [task for task in state.tasks if task.status is TaskStatus.PENDING]
        chosen.append([task.uid for task in needed_tasks(state.groups, waiting)])
    assert chosen[0] == chosen[1]


@settings(max_examples=40)
@given(JOBS.filter(has_no_inner_maximum), st.data())
def test_e7_the_order_of_groups_decides_ties_alone(job: JobInfo, data: st.DataObject) -> None:
    """In any order as many tasks are asked for; the same ones, where no two groups are equal."""
    shuffled = evolve(job, groups=data.draw(st.permutations(job.groups)))
    chosen = []
    for each in (job, shuffled):
        groups = counted_job(each).groups
        assert groups is not None
        states = [*groups.groups, groups.root]
        is_ready = groups.is_satisfied(Counting.READY)
        waiting = [t for t in counted_job(each).tasks if t.status is TaskStatus.PENDING]
        chosen.append([task.uid for task in needed_tasks(groups, waiting)])
        has_ties = any(
            one is not other and one.parent is other.parent and rank(one) == rank(other)
            for one in states
            for other in states
        )
    if not is_ready:
        assert len(chosen[0]) == len(chosen[1])
    if not has_ties and all(group.parent is None for group in job.groups):
        assert chosen[0] == chosen[1]


def rank(group: GroupState) -> tuple[float, ...]:
    have = group.counts[Counting.HOPED]
    return max(0, group.minimum - have), (have + 1) / max(1, group.minimum)


@settings(max_examples=40)
@given(JOBS, st.data())
def test_counts_after_moves_are_what_counting_anew_gives(job: JobInfo, data: st.DataObject) -> None:
    state = counted_job(job)
    groups = state.groups
    assert groups is not None
    statuses = list(TaskStatus)
    for task in state.tasks:
        for status in data.draw(st.lists(st.sampled_from(statuses), max_size=3)):
            groups.recount(task, task.status, status)
            task.status = status
    anew = counted_job(job).groups
    assert anew is not None
    for task in state.tasks:
        anew.recount(task, task.info.status, task.status)
    pairs = zip([groups.root, *groups.groups], [anew.root, *anew.groups], strict=True)
    for group, counted in pairs:
        for what in ("counts", "placed", "succeeded", "occupying", "spare", "costly", "seen_as"):
            assert getattr(group, what) == getattr(counted, what), what


@settings(max_examples=40)
@given(elastic_jobs("j", tasks=9).filter(has_groups), st.data())
def test_a_job_that_fills_asks_for_what_one_counted_anew_asks_for(
    job: JobInfo, data: st.DataObject
) -> None:
    """What was passed over comes back whenever something changed that lets it in."""
    state = counted_job(job)
    groups = state.groups
    assert groups is not None
    waiting = [task for task in state.tasks if task.status is TaskStatus.PENDING]
    left = TasksByGroup(groups, waiting)
    for _ in range(data.draw(st.integers(1, 6))):
        goal = needed_tasks(groups, left)
        assert goal == needed_tasks(groups, list(left))
        by_hand = list(Groups(plain_state(state), job).needed([t.info for t in left]))
        assert [task.uid for task in goal] == [task.uid for task in by_hand]
        placed = [] if not goal else list(goal[: data.draw(st.integers(0, len(goal)))])
        for task in placed:
            groups.recount(task, task.status, TaskStatus.BOUND)
            task.status = TaskStatus.BOUND
        if len(placed) < len(goal):  # it is undone, and what found no place is not tried again
            for task in reversed(placed):
                groups.recount(task, task.status, TaskStatus.PENDING)
                task.status = TaskStatus.PENDING
            left.take_out(goal[len(placed) : len(placed) + 1])
        else:
            left.take_out(placed)
        other = data.draw(st.sampled_from(list(state.tasks)))
        if other.status in (TaskStatus.RUNNING, TaskStatus.BOUND) and data.draw(st.booleans()):
            to = data.draw(st.sampled_from([TaskStatus.RELEASING, TaskStatus.SUCCEEDED]))
            groups.recount(other, other.status, to)
            other.status = to


GONE = (TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def plain_state(state: JobState) -> State:
    """The books of the reference, with the statuses that tasks have now."""
    tasks = [
        evolve(task.info, status=task.status, node_name=None if task.status in GONE else "n1")
        for task in state.tasks
    ]
    job = evolve(state.info, tasks=tasks)
    return State(Snapshot(jobs=[job], nodes=[NodeInfo(name=n) for n in ("n1", "n2")]))


def test_the_least_that_groups_need_is_that_of_the_smallest() -> None:
    groups = [
        TaskGroup("a", min=5),
        TaskGroup("b"),
        TaskGroup("b.0", parent="b", min=1),
        TaskGroup("b.1", parent="b", min=2),
    ]
    assert least_tasks(groups, None) == 8
    assert least_tasks(groups, 1) == 3


def test_a_task_of_a_group_at_its_maximum_is_not_asked_for() -> None:
    groups = [TaskGroup("a", min=1, max=2), TaskGroup("b", min=0)]
    state = counted_job(elastic("e", {"a": "RRPP", "b": "P"}, groups=groups))
    assert state.groups is not None
    waiting = [task for task in state.tasks if task.status is TaskStatus.PENDING]
    assert [task.uid for task in needed_tasks(state.groups, waiting)] == ["e-b-0"]


def test_a_ready_job_fills_the_group_that_has_the_least_for_its_minimum() -> None:
    groups = [TaskGroup("a", min=1), TaskGroup("b", min=4)]
    state = counted_job(elastic("e", {"a": "RP", "b": "RRRRPP"}, groups=groups))
    assert state.groups is not None
    waiting = [task for task in state.tasks if task.status is TaskStatus.PENDING]
    assert [task.uid for task in needed_tasks(state.groups, waiting)] == ["e-b-4"]
