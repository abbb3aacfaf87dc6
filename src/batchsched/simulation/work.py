"""What a job's work is: its tasks in order, its speed, checkpoints and costs; and conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, Protocol, get_args

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.model.cluster import JobInfo, TaskInfo, TaskStatus, can_start_with
from batchsched.model.immutable import AsMap
from batchsched.model.serialisation import WRITTEN
from batchsched.model.validation.values import is_mapping, is_of, is_text, items_of, shown
from batchsched.simulation.checks import JobId, faults_of_part, faults_unless, is_number
from batchsched.state.groups import JobGroups
from batchsched.state.needs import TasksByGroup, needed_tasks
from batchsched.state.records import TaskState

CPU = 1000
"""A processor, in thousandths of a cpu."""


@frozen
class OrderedTasks:
    """The tasks of a job in the order in which they are counted."""

    infos: tuple[TaskInfo, ...]
    need: int
    """How many it needs to run: the first ones."""
    most: int
    """The most that may run."""
    number: int = 0
    """A number that all equal jobs of a workload share."""

    @property
    def processors(self) -> int:
        """The whole cpus of what it needs, rounded up; at least 1."""
        milli_cpu = sum(task.resreq.milli_cpu for task in self.infos[: self.need])
        return max(1, int(-(-milli_cpu // CPU)))


def ordered_tasks(info: JobInfo, number: int = 0) -> OrderedTasks:
    """Return the tasks of a valid job, in the order in which they are counted. O(n log n).

    The more important first, then by UID; with groups in the order in which they would start: the
    groups that it pursues, and then one task, or the rest of a group, after the other.
    """
    listed = sorted(info.tasks, key=lambda task: (-task.priority, task.creation_time, task.uid))
    most = len(listed) if info.max_available is None else min(info.max_available, len(listed))
    if not info.groups:
        return OrderedTasks(tuple(listed), max(1, info.min_available), most, number)
    groups = JobGroups(info)
    states = [TaskState(task, None, (0, 0), (0, 0)) for task in listed]
    for state in states:
        groups.recount(state, None, state.status)
    chosen: list[TaskInfo] = []
    need = 0
    while True:
        left = [state for state in states if state.status is TaskStatus.PENDING]
        following = needed_tasks(groups, TasksByGroup(groups, left))
        if not following:
            break
        for state in following:
            state.status = TaskStatus.ALLOCATED
            groups.recount(state, TaskStatus.PENDING, TaskStatus.ALLOCATED)
            chosen.append(state.info)
        need = need or len(chosen)
    return OrderedTasks(tuple(chosen), max(1, need), len(chosen), number)


def is_enough(info: JobInfo, uids: Iterable[str]) -> bool:
    """Return whether some of a job's tasks are all that it needs. O(tasks + groups)."""
    counts: dict[str | None, int] = {}
    there = set(uids)
    for task in info.tasks:
        if task.uid in there:
            counts[task.group] = counts.get(task.group, 0) + 1
    if len(there) < max(1, info.min_available):
        return False
    return not info.groups or can_start_with(info.groups, info.min_groups, counts)


On = Literal["ended", "succeeded", "failed", "started"]


@frozen
class After:
    """A condition of a job: something that happens to another job must have happened.

    >>> After("prepare", on="succeeded", think=60)
    After(job='prepare', on='succeeded', think=60)
    """

    job: JobId
    """The id of the other job."""
    on: On = "ended"
    """What must have happened to it. A cancelled job has failed; who ends has started."""
    think: float = 0
    """The seconds from then until the condition holds."""


@frozen
class Speed:
    """How fast a job works, by the number of its running tasks and by its nodes.

    >>> speed = Speed(tasks={1: 1, 2: 1.5, 4: 2})
    >>> speed.of_tasks(3), speed.of_tasks(8), speed.of_tasks(0)
    (1.5, 2, 0)
    """

    tasks: Mapping[int, float] = field(factory=dict[int, float], converter=AsMap[int, float])
    """Seconds of work in a second, by number of tasks: the entry of the largest number that is not
    above that of the tasks which run, 0 without any. Empty: always 1."""
    label: str = ""
    """The label of nodes that decides how fast they are."""
    nodes: Mapping[str, float] = field(factory=dict[str, float], converter=AsMap[str, float])
    """By value of that label: a factor, of which the least of the job's nodes holds. Others: 1."""

    def of_tasks(self, count: int) -> float:
        """Return the speed of this many tasks on nodes of speed 1. O(entries)."""
        if not self.tasks:
            return 1
        least = max((each for each in self.tasks if each <= count), default=None)
        return 0 if least is None else self.tasks[least]


class Cost(Protocol):
    """The seconds of work that a job loses."""

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:
        """Return the seconds lost by a job, given its size, the size of a node, and its labels."""
        ...


# Costs


@frozen
class NoCost:
    """Nothing is lost."""

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:  # noqa: ARG002
        """Return 0."""
        return 0


@frozen
class ByDistance:
    """A cost that depends on the extent of the job: one processor, one node, or several nodes.

    The defaults are those of the simulator of Helios (SC 2021).
    """

    processor: float = 7
    node: float = 30
    nodes: float = 60

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:  # noqa: ARG002
        """Return the seconds lost by a job of this size."""
        if processors == 1:
            return self.processor
        return self.node if processors <= per_node else self.nodes


@frozen
class ByModel:
    """The cost measured for the model that the job trains (label `model`), by processors.

    >>> ByModel({"bert": {1: 10, 2: 12}}).seconds(2, 8, {"model": "bert"})
    12
    """

    table: Mapping[str, Mapping[int, float]] = field(repr=False)
    otherwise: float = 10
    """The cost for models and sizes that are not in the table."""

    def seconds(self, processors: int, per_node: int, labels: Mapping[str, str]) -> float:  # noqa: ARG002
        """Return the seconds lost by this job."""
        return self.table.get(labels.get("model", ""), {}).get(processors, self.otherwise)


# Checkpoints, and what is wrong with the work of a job


@frozen
class Checkpoint:
    """When a job saves its work, and what starting again costs."""

    every: float | None = None
    """It saves when its work reaches a multiple of this many seconds. 0: all is kept always;
    None: nothing is."""
    cost: float = 0
    """The seconds for which it saves without working; then that work is kept."""
    restart: float | Cost = field(
        default=0, metadata={WRITTEN: float | NoCost | ByDistance | ByModel}
    )
    """The seconds that a start after a stop takes before it works."""
    resize: float = 0
    """The seconds that a resize takes."""

    @property
    def has_costs(self) -> bool:
        """Whether anything takes time."""
        return bool(self.cost or self.resize or self.restart != 0)


NEVER_SAVED = Checkpoint()


def faults_of_checkpoint(path: str, given: object) -> Iterator[Fault]:
    """Yield what is wrong with checkpoints."""
    if not is_of(given, Checkpoint):
        yield Fault(path, f"expected Checkpoint(...) or None, got {shown(given)}")
        return
    is_right = given.every is None or is_number(given.every, least=0)
    yield from faults_unless(is_right, f"{path}.every", "seconds, 0 or more, or None", given.every)
    restart: object = given.restart
    if type(restart) not in (int, float):
        yield from faults_of_part(f"{path}.restart", restart, "seconds", "ByDistance()")
        restart = 0
    for name, seconds in (("cost", given.cost), ("restart", restart), ("resize", given.resize)):
        is_right = is_number(seconds, least=0)
        yield from faults_unless(is_right, f"{path}.{name}", "seconds, 0 or more", seconds)
    is_right, what = given.every != 0 or not given.cost, "0 where all work is kept always"
    yield from faults_unless(is_right, f"{path}.cost", what, given.cost)


def faults_of_speed(path: str, given: object) -> Iterator[Fault]:
    """Yield what is wrong with a speed."""
    if not is_of(given, Speed):
        yield Fault(path, f"expected Speed(...) or None, got {shown(given)}")
        return
    for name, table in (("tasks", given.tasks), ("nodes", given.nodes)):
        if not is_mapping(table):
            yield Fault(f"{path}.{name}", f"expected a mapping, got {shown(table)}")
            continue
        for key, speed in items_of(table):
            where = f"{path}.{name}[{shown(key)}]"
            is_count = name != "tasks" or (type(key) is int and key >= 1)
            yield from faults_unless(is_count, where, "a number of tasks, 1 or more", key)
            is_speed = is_number(speed, least=0, above=True)
            yield from faults_unless(is_speed, where, "a speed above 0", speed)
    is_right = is_text(given.label)
    yield from faults_unless(is_right, f"{path}.label", "the name of a label", given.label)


def faults_of_after(path: str, given: object) -> Iterator[Fault]:
    """Yield what is wrong with a condition, but for the job that it names."""
    if not is_of(given, After):
        yield Fault(path, f"expected After(...), got {shown(given)}")
        return
    is_known = given.on in get_args(On)
    yield from faults_unless(is_known, f"{path}.on", f"one of {get_args(On)}", given.on)
    is_right, what = is_number(given.think, least=0), "a time in seconds, 0 or more"
    yield from faults_unless(is_right, f"{path}.think", what, given.think)
