"""The changes of `what-if`, as words: ``cordon gpu-3 queue vision limit.gpu=80 cycle``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partialmethod
from math import ceil
from re import fullmatch, sub

from batchsched import (
    BatchschedError,
    EventError,
    HoldKind,
    JobInfo,
    NodeInfo,
    QuantityError,
    Queue,
    QueueStatus,
    Resource,
    ResourceLimit,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    TopologyRequest,
    UnknownNameError,
    live,
    sum_resources,
    what_if,
)
from batchsched.kubernetes import JobFacts, parse_quantity
from batchsched.tools import CycleRun, Released, amount_text, node_like
from batchsched_cli.arguments import UsageError, did_you_mean
from batchsched_cli.reading import Question, lines_of, path_of, replaced
from batchsched_cli.text import dimension_named, unknown

Change = live.Event | SchedulerConfig | CycleRun | Released

CHANGES = {
    "end": "JOB|TASK|CLAIM",
    "move": "TASK to=NODE...",
    "add-node": "NODE[xN]",
    "remove-node": "NODE|LABEL=VALUE",
    "cordon": "NODE|LABEL=VALUE",
    "uncordon": "NODE|LABEL=VALUE",
    "queue": "NAME FIELD=VALUE...",
    "job": "NAME FIELD=VALUE...",
    "budget": "NAME FIELD=VALUE...",
    "release": "JOB",
    "submit": "FILE",
    "config": "CONFIG",
    "cycle": "",
}
"""The changes by their first word, with what follows it; the methods of `ReadChanges` make them."""
QUEUE_FIELDS = (
    "limit.RESOURCE, deserved.RESOURCE, guarantee.RESOURCE, weight, priority, state, reclaimable"
)
JOB_FIELDS = "priority, min, queue, required, preferred"
BUDGET_FIELDS = "max_unavailable, min_available, hard"
_JOB_FIELDS = tuple(JOB_FIELDS.split(", "))
_AMOUNTS = ("limit", "deserved", "guarantee")
_AVAILABLE = ("max_unavailable", "min_available")
_YES_OR_NO = ("true", "false")
_NONE = "none"
_MOST_NODES = 10_000
_MOST_DIGITS = 15
_ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def changes_of(words: Sequence[str], question: Question) -> ReadChanges:
    """Return the changes that words say, in order, each about what the ones before it left.

    A change may also be one word with spaces in it. After ``cycle``, further changes cost a cycle
    more, which tells what there is to change.

    Raises:
        UsageError: some cannot be understood, or name what is not there; a line for each.

    """
    reader = ReadChanges(question)
    faults: list[str] = []
    for change in _separated(words):
        try:
            reader.read(change)
        except UsageError as error:
            faults += error.lines
        except EventError as error:
            # The words are the change; the events that it means are nothing to the user.
            lines = (sub(r"^events\[\d+\](: |\.)", "", line) for line in lines_of(error))
            faults += [f"{' '.join(change)}: {line}" for line in lines]
        except BatchschedError as error:
            faults += lines_of(error)
    if faults:
        raise UsageError(*faults)
    return reader


def _separated(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words of each change."""
    waiting = list(reversed(words))
    while waiting:
        first = waiting.pop()
        parts = first.split()
        if len(parts) > 1:
            yield parts
            continue
        found = [first]
        argument = CHANGES.get(first)
        # What stands behind a change that is not known is no change of its own.
        while argument is None and waiting and waiting[-1].partition(" ")[0] not in CHANGES:
            found.append(waiting.pop())
        if argument and waiting:
            found.append(waiting.pop())
        if argument is not None and argument.endswith("..."):
            while waiting and fullmatch(r"[\w.\-/]+=.*", waiting[-1]):
                found.append(waiting.pop())
        yield found


class ReadChanges:
    """Reads changes one by one, and follows what they leave."""

    def __init__(self, question: Question) -> None:
        self.changes: list[Change] = []
        self.submitted: list[str] = []
        """The UIDs of the jobs that are submitted."""
        self.facts: dict[str, JobFacts] = {}
        """What is known of these and of all others, once something is submitted."""
        self._question = question
        self._first = question.dump().snapshot
        self._now: Snapshot | None = self._first
        self._cluster: live.Cluster | None = None

    def read(self, words: Sequence[str]) -> None:
        """Read one change.

        Raises:
            UsageError: it cannot be understood.
            BatchschedError: it names what is not there, or does not fit the cluster.

        """
        verb, *arguments = words
        usage = CHANGES.get(verb)
        if usage is None:
            hint = did_you_mean(verb, CHANGES)
            raise UsageError(f"no change is called {verb}{hint}; changes: {', '.join(CHANGES)}")
        name, *fields = arguments or [""]
        takes_fields = usage.endswith("...")
        if bool(arguments) != bool(usage) or (fields and not takes_fields):
            given = " ".join(arguments) or "nothing"
            raise UsageError(f"expected `{f'{verb} {usage}'.strip()}`, got {given} after {verb}")
        if takes_fields and not fields:
            raise UsageError(f"expected `{verb} {usage}`, got no field of {name}")
        make: Callable[..., Iterator[Change]] = getattr(self, f"_{verb.replace('-', '_')}")
        self._keep(list(make(*arguments[:1], *([fields] if takes_fields else ()))))

    # What there is

    @property
    def snapshot(self) -> Snapshot:
        """The cluster with the changes."""
        if self._now is None:
            self._now = self._followed().snapshot()
        return self._now

    def _followed(self) -> live.Cluster:
        if self._cluster is None:
            start = self._first
            if self.changes:  # a cycle is among them
                config = self._question.configuration().config
                start = what_if(self._first, *self.changes, config=config).snapshot
            self._cluster = live.Cluster(start)
        return self._cluster

    def _keep(self, changes: Sequence[Change]) -> None:
        events = [
            each for each in changes if not isinstance(each, (SchedulerConfig, CycleRun, Released))
        ]
        if events:
            self._followed().apply(*events)
            self._now = None
        self.changes += changes
        if any(isinstance(each, CycleRun) for each in changes):
            self._cluster = self._now = None

    def _nodes(self, text: str) -> list[NodeInfo]:
        """Return the node of that name, or those with a label."""
        nodes = self.snapshot.nodes
        label, sign, value = text.partition("=")
        found = [node for node in nodes if node.name == text]
        found = found or [node for node in nodes if sign and node.labels.get(label) == value]
        if not found and sign:
            known = {f"{key}={value}" for node in nodes for key, value in node.labels.items()}
            raise UsageError(f"no node has the label {text}{did_you_mean(text, known)}")
        if not found:
            raise unknown("node", text, [node.name for node in nodes])
        return found

    def _queue_named(self, name: str) -> Queue:
        for queue in self.snapshot.queues:
            if queue.name == name:
                return queue
        raise unknown("queue", name, [queue.name for queue in self.snapshot.queues])

    # Jobs and tasks

    def _end(self, text: str) -> Iterator[Change]:
        try:
            job = self.snapshot.job(self._question.job(text))
        except (UnknownNameError, UsageError):
            # Pods of no job hold room too.
            pods = [p for p in self.snapshot.other_tasks if text in (p.uid, p.name, p.full_name)]
            held = self.snapshot.held
            claims = {pick.shared or pick.claim for pick in held}
            named = [each for each in claims if text in (each, each.partition("/")[2])]
            if not pods and len(named) == 1:
                still_held = [pick for pick in held if (pick.shared or pick.claim) not in named]
                yield live.DevicesChanged(held=still_held)
                return
            if len(pods) != 1:
                raise
            yield live.TaskSucceeded(pods[0].uid)
            return
        task = _task_named(job, text)
        left = [each for each in ([task] if task else job.tasks) if each.status not in _ENDED]
        if not left:
            raise UsageError(f"end {text}: it has ended already")
        is_needed = any(
            need.job == job.uid
            for each in self.snapshot.jobs
            if each.uid != job.uid
            for need in each.depends_on
        )
        if not task and not is_needed and not all(each.status.holds for each in left):
            yield live.JobRemoved(job.uid)
            return
        for each in sorted(left, key=lambda each: each.status.holds):
            gone = live.TaskSucceeded if each.status.holds else live.TaskRemoved
            yield gone(each.uid)

    def _move(self, text: str, fields: Sequence[str]) -> Iterator[Change]:
        values = {key: value for key, _, value in (field.partition("=") for field in fields)}
        if list(values) != ["to"]:
            raise UsageError(f"move {text}: expected to=NODE, got {' '.join(fields)}")
        job = self.snapshot.job(self._question.job(text))
        task = _task_named(job, text) or job.tasks[0]
        if len(job.tasks) > 1 and _task_named(job, text) is None:
            raise UsageError(f"move {text}: it has {len(job.tasks)} tasks; name one of them")
        if task.status is not TaskStatus.RUNNING:
            raise UsageError(f"move {text}: it is {task.status.value}, and only what runs can move")
        to = values["to"]
        node = next((each for each in self.snapshot.nodes if each.name == to), None)
        if node is None:
            raise unknown("node", to, [each.name for each in self.snapshot.nodes])
        here = [t for j in self.snapshot.jobs for t in j.tasks if t is not task]
        held = sum_resources(
            each.resreq
            for each in (*here, *self.snapshot.other_tasks)
            if each.node_name == to and each.status.holds
        )
        for name, amount in task.start_request.dimensions():
            free = node.allocatable.get(name) - held.get(name)
            if amount > free:
                needs, has = (amount_text(name, each) for each in (amount, max(free, 0)))
                raise UsageError(f"move {text}: it needs {needs}, and {to} has {has} free")
        yield live.TaskFound(task.uid, to)

    def _job(self, name: str, fields: Sequence[str]) -> Iterator[Change]:
        uid = self._question.job(name)
        values = {key: value for key, _, value in (field.partition("=") for field in fields)}
        for key in values:
            if key not in _JOB_FIELDS:
                hint = did_you_mean(key, _JOB_FIELDS)
                raise UsageError(f"job {name}: no field is called {key}{hint}; {JOB_FIELDS}")
        yield live.JobChanged(
            uid,
            priority=_whole(f"job {name} priority", values.get("priority")),
            min_available=_whole(f"job {name} min", values.get("min")),
            queue=self._queue_named(values["queue"]).name if "queue" in values else None,
            topology=self._request(uid, values),
        )

    def _request(
        self, uid: str, values: Mapping[str, str]
    ) -> TopologyRequest | live.NoLimit | None:
        """Return what a job asks of a topology with other levels; None: nothing is said of it."""
        if "required" not in values and "preferred" not in values:
            return None
        before = self.snapshot.job(uid).topology or TopologyRequest()
        known = [
            level
            for each in self.snapshot.topologies
            if before.topology in (None, each.name)
            for level in each.levels
        ]
        if before.topology is None:  # then the key of any label is one
            known += {key for node in self.snapshot.nodes for key in node.labels}
        levels = {"required": before.required, "preferred": before.preferred}
        for name, given in values.items():
            if name in levels:
                if given not in (*known, _NONE):
                    raise unknown("level", given, known)
                levels[name] = None if given == _NONE else given
        required, preferred = levels.values()
        level = required or preferred
        if level is None and not before.segments:
            return live.NO_LIMIT
        having = (each.name for each in self.snapshot.topologies if level in each.levels)
        return replaced(
            before,
            topology=before.topology or next(having, None),
            required=required,
            preferred=preferred,
            balanced=before.balanced and preferred is not None and required is None,
        )

    def _release(self, text: str) -> Iterator[Change]:
        job = self.snapshot.job(self._question.job(text))
        queues = {queue.name: queue for queue in self.snapshot.queues}
        for queue in path_of(job.queue, queues):
            if queue.state is not QueueStatus.OPEN:
                yield live.QueueChanged(replaced(queue, state=QueueStatus.OPEN))
        yield Released(job.uid)
        facts = self.facts.get(job.uid) or self._question.dump().facts.get(job.uid)
        lacks = any(hold.kind is HoldKind.NOT_ADMITTED for hold in job.holds)
        if lacks and job.min_available > 1 and facts is not None and facts.system == "kueue":
            asks = job.topology or any(group.topology for group in job.groups)
            if not asks:  # once admitted, its pods start one by one
                yield live.JobChanged(job.uid, min_available=1)

    def _submit(self, path: str) -> Iterator[Change]:
        before, after = self._question.submit(path)
        yield from _differences(
            before.snapshot, after.snapshot, {j.uid for j in self.snapshot.jobs}
        )
        self.submitted += (uid for uid in after.submitted if uid not in before.submitted)
        self.facts |= after.facts

    # Nodes

    def _add_node(self, text: str) -> Iterator[Change]:
        names = {node.name for node in self.snapshot.nodes}
        like, count = text, 1
        found = fullmatch(r"(.+)x([0-9]{1,9})", text)
        if found is not None and text not in names:
            like, count = found[1], int(found[2])
        if not 1 <= count <= _MOST_NODES:
            raise UsageError(f"add-node {text}: expected 1 to {_MOST_NODES} nodes, got {count}")
        node = self._nodes(like)[0]
        free = (new for n in itertools.count(1) if (new := f"{node.name}-new-{n}") not in names)
        running = [*self.snapshot.other_tasks, *(t for j in self.snapshot.jobs for t in j.tasks)]
        for name in itertools.islice(free, count):
            yield from node_like(node, name, running)

    def _remove_node(self, text: str) -> Iterator[Change]:
        snapshot = self.snapshot
        tasks = [*(task for job in snapshot.jobs for task in job.tasks), *snapshot.other_tasks]
        for node in self._nodes(text):
            for task in tasks:
                if task.node_name == node.name and task.status.holds:
                    yield live.TaskGone(task.uid)
            yield live.NodeRemoved(node.name)

    def _cordon(self, text: str, *, unschedulable: bool = True) -> Iterator[Change]:
        for node in self._nodes(text):
            yield live.NodeChanged(replaced(node, unschedulable=unschedulable))

    _uncordon = partialmethod(_cordon, unschedulable=False)

    # Queues

    def _queue(self, name: str, fields: Sequence[str]) -> Iterator[Change]:
        queue = self._queue_named(name)
        for field in fields:
            key, _, value = field.partition("=")
            what = f"queue {name} {key}"
            kind, dot, resource = key.partition(".")
            if dot and kind in _AMOUNTS:
                known = {"cpu", "memory"}
                known.update(*(node.allocatable.scalars for node in self.snapshot.nodes))
                dimension = dimension_named(resource, known, f"{what}: ")
                queue = _with_amount(queue, kind, dimension, _amount(what, dimension, value))
            elif key in ("weight", "priority"):
                queue = replaced(queue, **{key: _whole(what, value)})
            elif key == "state":
                queue = replaced(queue, state=_state(what, value))
            elif key == "reclaimable":
                queue = replaced(queue, reclaimable=_truth(what, value))
            else:
                hint = did_you_mean(key, (*_AMOUNTS, "weight", "state", "reclaimable"))
                raise UsageError(
                    f"queue {name}: no field is called {key}{hint}; fields: {QUEUE_FIELDS}"
                )
        yield live.QueueChanged(queue)

    # Budgets

    def _budget(self, name: str, fields: Sequence[str]) -> Iterator[Change]:
        budgets = self.snapshot.budgets
        found = [budget for budget in budgets if name in (budget.uid, budget.name)]
        if len(found) > 1:
            uids = " or ".join(budget.uid for budget in found)
            raise UsageError(f"budget {name}: there are several; give {uids}")
        if not found:
            raise unknown("budget", name, [each for b in budgets for each in (b.name, b.uid)])
        changed = found[0]
        for field in fields:
            key, _, value = field.partition("=")
            what = f"budget {name} {key}"
            if key in _AVAILABLE:
                number = _whole(what, value)
                if number is None or number < 0:
                    raise UsageError(f"{what}: expected 0 or more, got {value}")
                # A budget says one of them.
                changed = replaced(changed, **{**dict.fromkeys(_AVAILABLE), key: number})
            elif key == "hard":
                changed = replaced(changed, hard=_truth(what, value))
            else:
                hint = did_you_mean(key, (*_AVAILABLE, "hard"))
                raise UsageError(
                    f"budget {name}: no field is called {key}{hint}; fields: {BUDGET_FIELDS}"
                )
        yield live.BudgetsChanged([changed if b is found[0] else b for b in budgets])

    # The scheduler

    def _config(self, name: str) -> Iterator[Change]:
        yield self._question.noted_configuration(name).config

    def _cycle(self) -> Iterator[Change]:
        yield CycleRun()


def _differences(before: Snapshot, after: Snapshot, there: Container[str]) -> Iterator[live.Event]:
    """Yield what makes one cluster another, in which no node, queue or pod has gone.

    Args:
        before: the cluster.
        after: what it is to become.
        there: the UIDs of the jobs that are still there.

    """
    if after.now > before.now:
        yield live.TimePassed(after.now)
    nodes = {node.name: node for node in before.nodes}
    for node in after.nodes:
        if node.name not in nodes:
            yield live.NodeAdded(node)
        elif node != nodes[node.name]:
            yield live.NodeChanged(node)
    queues = {queue.name: queue for queue in before.queues}
    for queue in _from_the_top(after.queues):
        if queue.name not in queues:
            yield live.QueueAdded(queue)
        elif queue != queues[queue.name]:
            yield live.QueueChanged(queue)
    if after.budgets != before.budgets:
        yield live.BudgetsChanged(after.budgets)
    if after.topologies != before.topologies:
        yield live.TopologiesChanged(after.topologies)
    devices = live.DevicesChanged(
        devices=after.devices, counter_sets=after.counter_sets, held=after.held
    )
    if devices != live.DevicesChanged(
        devices=before.devices, counter_sets=before.counter_sets, held=before.held
    ):
        yield devices
    others = {task.uid for task in before.other_tasks}
    yield from (live.OtherTaskArrived(t) for t in after.other_tasks if t.uid not in others)
    jobs, later = {job.uid: job for job in before.jobs}, {job.uid: job for job in after.jobs}
    changed = [uid for uid, job in jobs.items() if uid in there and later.get(uid) != job]
    yield from (live.JobRemoved(uid) for uid in changed)
    new = (job for job in after.jobs if job.uid not in jobs or job.uid in changed)
    yield from (live.JobArrived(job) for job in new)


def _from_the_top(queues: Sequence[Queue]) -> Iterator[Queue]:
    """Yield queues, each after the one above it."""
    waiting, names = list(queues), {queue.name for queue in queues}
    done: set[str | None] = {None}
    while waiting:
        ready = [q for q in waiting if q.parent in done or q.parent not in names]
        done |= {queue.name for queue in ready}
        yield from ready
        waiting = [queue for queue in waiting if queue.name not in done]


def _task_named(job: JobInfo, text: str) -> TaskInfo | None:
    """Return the task that a name means, if it does not mean its job."""
    if text in (job.uid, job.name) or len(job.tasks) == 1:
        return None
    for task in job.tasks:
        if text in (task.uid, task.name, f"{task.namespace}/{task.name}"):
            return task
    return None


def _with_amount(queue: Queue, kind: str, dimension: str, amount: int | None) -> Queue:
    """Return a queue with another amount in its limit, guarantee, or what it deserves.

    None: no limit; of a guarantee or what it deserves, nothing.
    """
    before: Resource | ResourceLimit | None = getattr(queue, kind)
    amounts = {} if before is None else dict(before.dimensions())
    amounts.pop(dimension, None)
    if amount is not None:
        amounts[dimension] = amount
    cpu, memory = amounts.pop("cpu", None), amounts.pop("memory", None)
    value: Resource | ResourceLimit = ResourceLimit(milli_cpu=cpu, memory=memory, scalars=amounts)
    if isinstance(before, Resource):
        value = Resource(milli_cpu=cpu or 0, memory=memory or 0, scalars=amounts)
    return replaced(queue, **{kind: value})


def _amount(what: str, dimension: str, text: str) -> int | None:
    if text == _NONE:
        return None
    try:
        quantity = parse_quantity(text)
    except QuantityError as error:
        raise UsageError(f"{what}: {error}") from None
    if quantity < 0:
        raise UsageError(f"{what}: expected an amount of 0 or more, or {_NONE}, got {text}")
    return ceil(quantity if dimension == "memory" else quantity * 1000)


def _whole(what: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not fullmatch(r"-?[0-9]+", text) or len(text) > _MOST_DIGITS:
        raise UsageError(f"{what}: expected a whole number, got {text!r}")
    return int(text)


def _truth(what: str, text: str) -> bool:
    if text not in _YES_OR_NO:
        raise UsageError(f"{what}: expected {' or '.join(_YES_OR_NO)}, got {text!r}")
    return text == _YES_OR_NO[0]


def _state(what: str, text: str) -> QueueStatus:
    known = {status.value.lower(): status for status in QueueStatus}
    if text.lower() not in known:
        raise UsageError(f"{what}: expected {' or '.join(known)}, got {text!r}")
    return known[text.lower()]
