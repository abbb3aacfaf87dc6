"""How a cluster becomes what was seen of another: one batch of events.

What is to be is found first, each part from those that it refers to: topologies, jobs, tasks,
nodes, devices. Then the events that lead there are told together, so that nothing is checked while
only half of it was said.

Objects are seen in any order, so the tasks of a job need not agree with it, nor with one another: a
task names a group that the job does not have yet, a replacement has the number of a task that is
still leaving, and of the last segment only half was seen. What contradicts the job waits: it has no
place in a snapshot, where a job and its tasks agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from attrs import evolve, frozen

from batchsched.live.seen import (
    KINDS,
    CorrectionKind,
    HeldDevices,
    InFlight,
    Item,
    Kind,
    device_path,
)
from batchsched.model.cluster import (
    Budget,
    JobInfo,
    NodeInfo,
    Queue,
    TaskInfo,
    TaskStatus,
    children_of,
)
from batchsched.model.devices import CounterSet, Device
from batchsched.model.topology import Segment, Topology
from batchsched.model.validation.tasks import (
    are_requests,
    group_problems,
    has_requests,
    levels_of,
    requests_problems,
)
from batchsched.transition import events as happened
from batchsched.transition.content import Content
from batchsched.transition.event_rules import said_of_job
from batchsched.transition.rules import TO_START, as_it_was


def has_numbers(job: JobInfo) -> bool:
    """Return whether the tasks of a job have places beside one another in segments. O(groups)."""
    asked = (job.topology, *(group.topology for group in job.groups))
    return any(each is not None and each.segments for each in asked)


def members_of(job: JobInfo, tasks: Iterable[TaskInfo]) -> Mapping[str, TaskInfo]:
    """Return the tasks that can be in a job, by UID, as they are there. O(n log n).

    A task that has ended or is leaving gives its number to one that stays. Of two that stay, the
    first on a node has it, or the older. Where segments are nested, only whole ones of the widest
    kind are there, and tasks on nodes before others.
    """
    children = children_of(job.groups)
    leaves: set[str | None] = {each.name for each in job.groups if each.name not in children}
    leaves = leaves or {None}
    by_group: dict[str | None, list[TaskInfo]] = {}
    for task in tasks:
        if task.group in leaves:
            by_group.setdefault(task.group, []).append(task)
    found: dict[str, TaskInfo] = {}
    for name, of_group in by_group.items():
        asked = _segments_of(job, name)
        fitting = _numbered_once(of_group) if any(asked) else of_group
        sizes = [segments[0].size for segments in asked if len(segments) > 1]
        count = len(fitting)
        while any(count % size for size in sizes):
            count -= 1
        if count < len(fitting):
            fitting = sorted(fitting, key=_is_kept_first)[:count]
        found.update((task.uid, task) for task in fitting)
    return found


def _segments_of(job: JobInfo, group: str | None) -> list[tuple[Segment, ...]]:
    """Return the segments that a job and one of its groups ask for."""
    asked = (job.topology, *(each.topology for each in job.groups if each.name == group))
    return [each.segments for each in asked if each is not None]


def _numbered_once(tasks: Iterable[TaskInfo]) -> list[TaskInfo]:
    fitting: list[TaskInfo] = []
    taken: set[int] = set()
    for task in sorted(tasks, key=_stays_first):
        if task.index not in taken:
            fitting.append(task)
            if task.index is not None:
                taken.add(task.index)
        elif not _stays(task):
            fitting.append(evolve(task, index=None))
    return fitting


def _stays(task: TaskInfo) -> bool:
    return not task.status.ended and task.status is not TaskStatus.RELEASING


def _stays_first(task: TaskInfo) -> tuple[bool, bool, float, str]:
    return not _stays(task), not task.status.holds, task.creation_time, task.uid


def _is_kept_first(task: TaskInfo) -> tuple[bool, bool, int, str]:
    index = -1 if task.index is None else task.index
    return not _stays(task), not task.status.holds, index, task.uid


ItemT = TypeVar("ItemT")
SharedT = TypeVar("SharedT", bound=Device | CounterSet)
ValueT = TypeVar("ValueT")


@frozen
class KnownObject:
    """What was seen last of an object."""

    item: Item
    version: str
    job: str = ""


@frozen
class _Place:
    """A task as it will be, and its job; None: it has none."""

    task: TaskInfo
    owner: str | None


class Settling:
    """One batch of events, found from what is known and what the cluster has."""

    def __init__(
        self,
        content: Content,
        known: Mapping[Kind, Mapping[str, KnownObject]],
        tasks_of: Mapping[str, Mapping[str, None]],
        flights: dict[str, InFlight],
        correct: Callable[[CorrectionKind, str, str], None],
    ) -> None:
        """Prepare a batch.

        Args:
            content: what the cluster has now.
            known: what was seen last, by kind and name.
            tasks_of: the UIDs of the tasks that were seen of each job.
            flights: the decisions in flight; those that have arrived are taken out.
            correct: called for what turned out to be different from what was known.

        """
        self._content = content
        self._known = known
        self._tasks_of = tasks_of
        self._flights = flights
        self._correct = correct
        self._names: dict[Kind, dict[str, None]] = {}
        self._jobs: dict[str, JobInfo | None] = {}
        """The jobs that are concerned, as they will be, without tasks; None: they are not there."""
        self._coming: dict[str, None] = {}
        """The jobs that come with their tasks, some after they have left."""
        self._leaving: dict[str, None] = {}
        """The jobs that leave with their tasks, some to come again."""
        self._places: dict[str, _Place | None] = {}
        """The tasks that are concerned, as they will be; None: they are not there."""
        self._nodes: dict[str, NodeInfo | None] = {}
        """The nodes that are concerned, as they will be; None: they are not there."""

    def events(self, concerned: Iterable[tuple[Kind, str]]) -> list[happened.Event]:
        """Return the events after which the cluster is as the objects that are concerned."""
        self._names = {kind: {} for kind in KINDS}
        for kind, name in sorted(concerned):
            self._names[kind][name] = None
        topologies = self._topologies_then()
        self._find_jobs(topologies)
        self._find_tasks()
        common = self._common_then()
        self._find_nodes(common["counter_sets"])
        return [
            *self._of_queues(),
            *self._of_devices(common),
            *self._of_budgets(),
            *self._of_nodes(),
            *self._of_topologies(topologies),
            *self._of_jobs_and_tasks(),
            *(
                happened.NodeRemoved(name)
                for name, node in self._nodes.items()
                if node is None and name in self._content.nodes
            ),
        ]

    def _seen(self, kind: Kind, of: type[ItemT], name: str) -> ItemT | None:
        known = self._known[kind].get(name)
        if known is None:
            return None
        assert isinstance(known.item, of)
        return known.item

    # Queues

    def _of_queues(self) -> Iterator[happened.Event]:
        """Yield the events of queues: those whose parents are all there are in the cluster."""
        if not self._names["queue"]:
            return
        items = (known.item for known in self._known["queue"].values())
        seen = {item.name: item for item in items if isinstance(item, Queue)}
        wanted: dict[str, Queue] = {}
        for name in sorted(seen):
            path: list[str] = []
            at: str | None = name
            while at is not None and at in seen and at not in path:
                path.append(at)
                at = seen[at].parent
            if at is None:
                wanted[name] = seen[name]
        present = self._content.queues
        for name, queue in wanted.items():
            if name not in present:
                yield happened.QueueAdded(queue)
                continue
            before = present[name]
            # What was used is reckoned here, and only begins as it was seen.
            after = evolve(queue, usage=before.usage, usage_by_user=before.usage_by_user)
            if after != before:
                yield happened.QueueChanged(after)
        for name in sorted(present):
            if name not in wanted:
                yield happened.QueueRemoved(name)

    # Devices that several nodes reach

    def _common_then(self) -> dict[str, Any]:
        """Return the devices, counter sets and held devices as they will be, by field."""
        common = self._content.of_devices()
        if any(self._names[kind] for kind in ("device", "counter set", "node")):
            sets = self._merged("counter set", CounterSet, common["counter_sets"])
            devices = self._merged("device", Device, common["devices"])
            counters, of_nodes = _counters(sets), self._keys_of_nodes() if devices else ()
            common["counter_sets"] = sets
            common["devices"] = [
                each for each in devices if each.key not in of_nodes and _can_draw(each, counters)
            ]
        if self._names["held devices"]:
            claims = (known.item for known in self._known["held devices"].values())
            told = {*self._names["held devices"], *self._known["held devices"]}
            common["held"] = [
                *(pick for pick in common["held"] if pick.claim not in told),
                *(pick for one in claims if isinstance(one, HeldDevices) for pick in one.picks),
            ]
        return common

    def _keys_of_nodes(self) -> set[tuple[str, str, str]]:
        nodes = (known.item for known in self._known["node"].values())
        return {
            device.key for node in nodes if isinstance(node, NodeInfo) for device in node.devices
        }

    def _merged(self, kind: Kind, of: type[SharedT], present: Iterable[SharedT]) -> list[SharedT]:
        """Return what is there of a kind and was never seen, and then what was seen."""
        told = {*self._names[kind], *self._known[kind]}
        items = [known.item for known in self._known[kind].values()]
        return [
            *(each for each in present if device_path(each) not in told),
            *(each for each in items if isinstance(each, of)),
        ]

    def _of_devices(self, common: Mapping[str, Any]) -> Iterator[happened.Event]:
        changed = {
            name: value
            for name, value in common.items()
            if tuple(value) != self._content.besides[name]
        }
        if changed:
            yield happened.DevicesChanged(**changed)

    # Budgets

    def _of_budgets(self) -> Iterator[happened.Event]:
        told = {*self._names["budget"], *self._known["budget"]}
        if not self._names["budget"]:
            return
        present: tuple[Budget, ...] = self._content.besides["budgets"]
        items = [known.item for known in self._known["budget"].values()]
        budgets = [
            *(each for each in present if each.uid not in told),
            *(each for each in items if isinstance(each, Budget)),
        ]
        event = happened.BudgetsChanged(budgets)
        if event.budgets != present:
            yield event

    # Topologies

    def _topologies_then(self) -> dict[str, Topology]:
        """Return the topologies as they were seen, by name; of others, those that are there."""
        found = dict(self._content.topologies)
        for name in (*self._known["topology"], *self._names["topology"]):
            seen = self._seen("topology", Topology, name)
            if seen is None:
                found.pop(name, None)
            else:
                found[name] = seen
        return found

    def _of_topologies(self, topologies: Mapping[str, Topology]) -> Iterator[happened.Event]:
        """Yield the change of topologies; of listed domains those nodes count that are there."""
        if not self._names["topology"] and not (
            self._nodes and any(each.domains for each in topologies.values())
        ):
            return

        def is_there(node: str) -> bool:
            if node in self._nodes:
                return self._nodes[node] is not None
            return node in self._content.nodes

        then = {
            name: evolve(
                each,
                domains=[
                    evolve(domain, nodes=[node for node in domain.nodes if is_there(node)])
                    for domain in each.domains
                ],
            )
            if each.domains
            else each
            for name, each in topologies.items()
        }
        if then != self._content.topologies:
            yield happened.TopologiesChanged([then[name] for name in sorted(then)])

    # Nodes

    def _find_nodes(self, counter_sets: Iterable[CounterSet]) -> None:
        names = dict(self._names["node"])
        if self._names["counter set"]:
            names.update(
                (name, None)
                for name, known in sorted(self._known["node"].items())
                if isinstance(known.item, NodeInfo)
                and any(device.counters for device in known.item.devices)
            )
        for uid, place in self._places.items():
            was = self._content.tasks.get(uid)
            for task in (was, None if place is None else place.task):
                both = () if task is None else (task.node_name, task.held_node)
                for node in both:
                    if node is not None and node not in self._known["node"]:
                        names[node] = None
        held = (place.task.held_node for place in self._places.values() if place is not None)
        holding = {node for node in held if node is not None}
        for name in sorted(names):
            seen = self._seen("node", NodeInfo, name)
            before = self._content.nodes.get(name)
            if seen is not None:
                self._nodes[name] = _with_possible_devices(seen, counter_sets)
            elif name in holding or self._others_hold(name):
                if before is None:
                    text = f"node {name} was not seen; it is closed until it is"
                    self._correct(CorrectionKind.NODE_UNKNOWN, name, text)
                    before = NodeInfo(name=name)
                elif not before.unschedulable:
                    text = f"node {name} is gone; it is closed while tasks are on it"
                    self._correct(CorrectionKind.NODE_GONE, name, text)
                self._nodes[name] = evolve(before, unschedulable=True)
            else:
                self._nodes[name] = None

    def _others_hold(self, node: str) -> bool:
        """Return whether tasks hold a node of which nothing was heard now."""
        content = self._content
        return any(
            content.tasks[uid].held_node == node
            and uid not in self._places
            and content.owner.get(uid) not in self._leaving
            for uid in content.on_node.get(node, ())
        )

    def _of_nodes(self) -> Iterator[happened.Event]:
        for name, node in self._nodes.items():
            before = self._content.nodes.get(name)
            if node is not None and node != before:
                event = happened.NodeAdded if before is None else happened.NodeChanged
                yield event(node)

    # Jobs

    def _find_jobs(self, topologies: Mapping[str, Topology]) -> None:
        content = self._content
        levels = levels_of(topologies.values())
        uids = dict(self._names["job"])
        if levels != levels_of(content.topologies.values()):
            seen = {uid: self._seen("job", JobInfo, uid) for uid in sorted(self._known["job"])}
            uids.update((uid, None) for uid, job in seen.items() if job and has_requests(job))
        for uid in uids:
            item, before = self._seen("job", JobInfo, uid), content.jobs.get(uid)
            if item is not None and has_requests(item) and are_requests(item):
                problem = next(requests_problems(item, levels), None)
                if problem is not None:
                    text = f"job {uid} waits for a topology: {problem[0]}: {problem[1]}"
                    self._correct(CorrectionKind.JOB_WAITS, uid, text)
                    item = None
            self._jobs[uid] = item
            if before is None or item is None:
                if before is not None:
                    self._leaving[uid] = None
                if item is not None:
                    self._coming[uid] = None
                continue
            self._jobs[uid] = whole = _with_what_is_reckoned(item, before)
            if evolve(before, **said_of_job(_change_of(whole))) != whole:
                # In what no event changes: its groups, say, or what it depends on.
                self._leaving[uid] = self._coming[uid] = None

    def _job_then(self, uid: str) -> JobInfo | None:
        return self._jobs[uid] if uid in self._jobs else self._content.jobs.get(uid)

    # Tasks

    def _find_tasks(self) -> None:
        content = self._content
        uids = dict(self._names["task"])
        for uid in (*self._leaving, *self._coming):
            uids.update(self._tasks_of.get(uid, {}))
        for uid in list(uids):
            known = self._known["task"].get(uid)
            for job in (content.owner.get(uid), None if known is None else known.job):
                there = self._job_then(job) if job else None
                if job and there is not None and has_numbers(there):
                    uids.update(self._tasks_of.get(job, {}))
        by_job: dict[str, list[TaskInfo]] = {}
        as_known: dict[str, TaskInfo] = {}
        for uid in sorted(uids):
            known, before = self._known["task"].get(uid), content.tasks.get(uid)
            if known is None:
                flight = self._flights.pop(uid, None)
                if flight is not None and flight.decision == "bind":
                    text = f"task {uid} was deleted while it was being bound to {flight.node_name}"
                    self._correct(CorrectionKind.GONE_WHILE_BINDING, uid, text)
                self._places[uid] = None
                continue
            assert isinstance(known.item, TaskInfo)
            after = as_known[uid] = self._as_known(known.item, before)
            self._correct_place(before, after)
            by_job.setdefault(known.job, []).append(after)
        for job, tasks in by_job.items():
            there = self._job_then(job) if job else None
            # What is wrong with a job by itself is told when it comes.
            fits = there is not None and not any(group_problems(evolve(there, tasks=())))
            members: Mapping[str, TaskInfo] = {}
            if there is not None and fits:
                members = members_of(there, tasks)
            for task in tasks:
                if task.uid in members:
                    self._places[task.uid] = _Place(members[task.uid], job)
                elif task.status.holds or not (job or task.status.ended):
                    self._places[task.uid] = _Place(evolve(task, group=None), None)
                else:
                    self._places[task.uid] = None

    def _as_known(self, item: TaskInfo, before: TaskInfo | None) -> TaskInfo:
        """Return a task as it is, given how it was seen, and what is in flight."""
        uid, status, node = item.uid, item.status, item.node_name
        flight = self._flights.get(uid)
        if (
            before is not None
            and before.leaving is not None
            and node == before.leaving
            and (status is TaskStatus.RELEASING or (status.occupies and flight is not None))
        ):  # it moves, and has not left yet
            if status is TaskStatus.RELEASING:
                self._flights.pop(uid, None)
            return as_it_was(item, before)
        if status is TaskStatus.UNKNOWN:
            self._flights.pop(uid, None)
        elif not status.holds and not status.ended:
            if flight is not None and flight.decision == "bind":
                status, node = TaskStatus.BOUND, flight.node_name
            else:
                self._flights.pop(uid, None)
                status, node = TaskStatus.PENDING, None
                if before is not None and not before.status.holds and not before.status.ended:
                    status, node = before.status, before.node_name  # it may be promised a place
        elif (
            flight is not None
            and flight.decision == "eviction"
            and status.occupies
            and node == flight.node_name
        ):
            status = TaskStatus.RELEASING
        else:
            self._flights.pop(uid, None)
            if status.ended:
                node = None
            elif (
                status in TO_START
                and before is not None
                and before.status is TaskStatus.RUNNING
                and before.node_name == node
            ):
                status = TaskStatus.RUNNING
            elif status is TaskStatus.BINDING:
                status = TaskStatus.BOUND
        after = evolve(item, status=status, node_name=node)
        if before is not None:
            # Where it is where it was, what was chosen for it there stays, unless it is seen.
            was = as_it_was(item, before)
            after = evolve(
                after, is_backfill=before.is_backfill, attained_service=before.attained_service
            )
            if before.node_name == node and before.status.holds == status.holds:
                start = before.start_time
                after = evolve(after, start_time=start, choices=was.choices, devices=was.devices)
        if not status.holds:
            return evolve(after, start_time=None)
        return (
            after if after.start_time is not None else evolve(after, start_time=self._content.now)
        )

    def _correct_place(self, before: TaskInfo | None, after: TaskInfo) -> None:
        if before is None or before.status.ended or after.status.ended:
            return
        uid, was, now = before.uid, before.node_name, after.node_name
        if before.status.holds and not after.status.holds:
            if before.status is not TaskStatus.RELEASING:
                text = f"task {uid} is not on {was} any more; it waits again"
                self._correct(CorrectionKind.WAITS_AGAIN, uid, text)
        elif before.status.holds and was != now:
            text = f"task {uid} is on {now}, not on {was}"
            self._correct(CorrectionKind.BOUND_ELSEWHERE, uid, text)
        elif after.status.holds and not before.status.holds:
            text = f"task {uid} is on {now} after all"
            self._correct(CorrectionKind.STARTED_AFTER_ALL, uid, text)

    def _of_jobs_and_tasks(self) -> Iterator[happened.Event]:
        """Yield the events of jobs and tasks: first what leaves, as a task may change its job."""
        content = self._content
        coming: dict[str, list[TaskInfo]] = {uid: [] for uid in self._coming}
        added: dict[str, list[TaskInfo]] = {}
        others: list[TaskInfo] = []
        changes: list[happened.Event] = []
        for uid, place in self._places.items():
            before: TaskInfo | None = content.tasks.get(uid)
            if content.owner.get(uid) in self._leaving:
                before = None
            elif before is not None and (
                place is None
                or content.owner.get(uid) != place.owner
                or not _can_become(before.status, place.task.status)
            ):
                yield happened.TaskRemoved(uid)
                before = None
            if place is None:
                continue
            if before is not None:
                changes += _changes(before, place.task)
            elif place.owner is None:
                others.append(place.task)
            elif place.owner in coming:
                coming[place.owner].append(place.task)
            else:
                added.setdefault(place.owner, []).append(place.task)
        yield from map(happened.JobRemoved, self._leaving)
        for uid, job in self._jobs.items():
            if job is None:
                continue
            if uid in coming:
                yield happened.JobArrived(evolve(job, tasks=coming[uid]))
                continue
            if job != content.jobs[uid]:
                yield _change_of(job)
        yield from (happened.TasksAdded(uid, tasks) for uid, tasks in added.items())
        yield from map(happened.OtherTaskArrived, others)
        yield from changes


def _changes(before: TaskInfo, after: TaskInfo) -> Iterator[happened.Event]:
    """Yield the events by which a task changes: where it is, and then how it is described."""
    uid = before.uid
    moves = before.status is not after.status or before.node_name != after.node_name
    if before.leaving is not None and after.leaving is None and not after.status.holds:
        yield happened.TaskGone(uid)
    if moves:
        if after.status is TaskStatus.SUCCEEDED:
            yield happened.TaskSucceeded(uid)
        elif after.status is TaskStatus.FAILED:
            yield happened.TaskFailed(uid)
        elif after.status.holds and after.node_name is not None:
            yield happened.TaskFound(uid, after.node_name, status=after.status)
        elif before.status.holds:
            is_refused = before.status in TO_START
            event = happened.BindRefused if is_refused else happened.TaskGone
            yield event(uid)
    # A task that was found elsewhere has forgotten what was chosen for it where it was.
    chosen = bool(after.choices) or after.devices is not None
    if as_it_was(after, before) != before or (moves and chosen):
        yield happened.TaskChanged(after)


def _with_what_is_reckoned(item: JobInfo, job: JobInfo) -> JobInfo:
    """Return a job as it was seen, with what only the cluster knows of it."""
    return evolve(
        item, plan=job.plan, eligible_time=job.eligible_time, last_evicted=job.last_evicted
    )


def _change_of(job: JobInfo) -> happened.JobChanged:
    return happened.JobChanged(
        job.uid,
        priority=job.priority,
        queue=job.queue,
        min_available=job.min_available,
        max_available=_or_none(job.max_available),
        holds=job.holds,
        user=job.user,
        labels=job.labels,
        deadline=_or_none(job.deadline),
        max_wait=_or_none(job.max_wait),
        preemptible=job.preemptible,
        preempts=job.preempts,
        claim_delay=_or_none(job.claim_delay),
        evict_whole=job.evict_whole,
    )


def _or_none(limit: ValueT | None) -> ValueT | happened.NoLimit:
    return happened.NO_LIMIT if limit is None else limit


def _can_become(before: TaskStatus, after: TaskStatus) -> bool:
    """Return whether an event says so; a task for which there is none is removed and added."""
    if before is after:
        return True
    if TaskStatus.UNKNOWN in (before, after) or before.ended:
        return False
    return before.holds or not after.ended


_Counters = Mapping[tuple[str, str, str], Mapping[str, int]]


def _counters(sets: Iterable[CounterSet]) -> _Counters:
    return {(each.driver, each.pool, each.name): each.counters for each in sets}


def _can_draw(device: Device, counters: _Counters) -> bool:
    """Return whether all counters are there that a device draws on."""
    return all(
        amounts.keys() <= counters.get((device.driver, device.pool, name), {}).keys()
        and (device.driver, device.pool, name) in counters
        for name, amounts in device.counters.items()
    )


def _with_possible_devices(node: NodeInfo, common: Iterable[CounterSet]) -> NodeInfo:
    """Return a node without the devices that draw on counters that were not seen yet."""
    if not any(device.counters for device in node.devices):
        return node
    counters = _counters([*node.counter_sets, *common])
    possible = [each for each in node.devices if _can_draw(each, counters)]
    return node if len(possible) == len(node.devices) else evolve(node, devices=possible)
