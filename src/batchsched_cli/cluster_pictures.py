"""The commands that picture a cluster as it is: queues and nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, cast

from batchsched import (
    BatchschedError,
    HoldKind,
    NodeInfo,
    Promise,
    Queue,
    QueueOutcome,
    QueueStatus,
    Resource,
    Snapshot,
    TaskInfo,
    TaskStatus,
    sum_resources,
    what_if,
)
from batchsched.kubernetes import parse_quantity
from batchsched.tools import amount_text
from batchsched_cli.cluster_answers import JobNames, ShownJobs
from batchsched_cli.reading import Question, path_of
from batchsched_cli.text import (
    MOST_LINES,
    Answer,
    Bar,
    Block,
    Column,
    Line,
    Picture,
    Section,
    Table,
    amounts_text,
    counted,
    dimension_named,
    unknown,
)

_BAR = 20
"""Characters of a bar."""
_CELLS = 16
"""The most characters of a node whose resource has no devices."""
_DETAILED = 60
"""With more nodes than this, a row stands for a group of them."""
_MOST_GROUPS = 9
"""With more groups than this, it does so where all nodes would take more lines than there are."""
_MOST_DRAWN = 2000
"""With more nodes than this, it does so on a page too."""
_FEW = 9
"""With more different amounts of free devices than this, they are told in ranges."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The letters of the jobs that hold most."""
_OTHER_JOBS, _OTHER_PODS = "*", "#"
_FREE, _OUT, _KEPT = ".", "x", "r"
_MEANINGS = {
    _OTHER_JOBS: "other jobs",
    _OTHER_PODS: "pods of no job",
    _KEPT: "promised or reserved",
    _OUT: "out of service",
    _FREE: "free",
}
_KEEPS = (TaskStatus.PIPELINED, TaskStatus.RESERVED)
_WITH_ALLOCATED = ("scheduling.volcano.sh", "scheduling.run.ai")
"""The API groups whose queues tell what is allocated."""
_AMOUNTS = ("HOLDS", "SHARE", "GUARANTEE", "LIMIT", "FREE", "ON LOAN", "RESERVED")
_NAMED = 3
_SHAPES = 3
"""Of how many kinds of tasks it is told how many more fit."""
_MANY = 10**9
_TINY = 0.01
"""Differences from what a controller counts that are not told: 1 %."""


# Queues


class _Account(NamedTuple):
    """What a queue, with all queues below it, holds and wants."""

    held: Resource
    reserved: Resource
    """What Kueue's quota is reserved for; more than `held` while pods wait."""
    running: int
    waiting: int


def _lost(
    queues: Iterable[Queue], accounts: Mapping[str, _Account], dimension: str, total: float
) -> float:
    """Return what all queues hold above what there is: when nodes are lost, it is nobody's loan."""
    tops = (queue.name for queue in queues if queue.parent is None)
    return max(0, sum(accounts[name].held.get(dimension) for name in tops) - total)


def queues(question: Question) -> Answer:
    """Answer with the tree of queues: what they hold, may hold, and who waits in them.

    One cycle, plus O(size of the snapshot).
    """
    shown = ShownJobs(question)
    snapshot, result = shown.dump.snapshot, shown.result
    accounts = _accounts(snapshot, shown)
    wish = question.arguments.text("--resource")
    dimension = _scarcest(snapshot)
    if wish is not None:
        amounts = [node.allocatable for node in snapshot.nodes]
        amounts += [task.resreq for job in snapshot.jobs for task in job.tasks]
        known = {name for each in amounts for name, _ in each.dimensions()} | {"cpu", "memory"}
        dimension = dimension_named(wish, known)
    total = sum_resources(node.allocatable for node in snapshot.nodes).get(dimension)
    named = {queue.name: queue for queue in snapshot.queues}
    theirs = _counted_by_controllers(question, dimension)
    outcomes = result.queues
    idle = sum(free.get(dimension, 0) for free, _ in _idle(snapshot))
    left = {name: _left(name, named, accounts, dimension, idle) for name in named}
    if any(hold.kind is HoldKind.NOT_ADMITTED for job in snapshot.jobs for hold in job.holds):
        # What a controller keeps out wants its share too.
        outcomes = what_if(snapshot, config=question.configuration().config).result.queues
    rows: list[tuple[str, ...]] = []
    data: list[dict[str, object]] = []
    differences: list[str] = []
    lost = _lost(snapshot.queues, accounts, dimension, total)
    for name, depth in _in_tree(snapshot.queues):
        queue, account, outcome = named[name], accounts[name], outcomes.get(name)
        held, reserved = account.held.get(dimension), account.reserved.get(dimension)
        share = None if outcome is None else outcome.fair_share.get(dimension)
        limit = queue.limit.get(dimension) if queue.limit is not None else None
        loan = 0 if share is None else max(held - share - lost, 0)
        figures = (
            held if held or share else None,
            share,
            queue.guarantee.get(dimension) or None,
            limit,
            left[name],
            loan or None,
            reserved or None,
        )
        told = ("" if n is None else amount_text(dimension, n, unit=False) for n in figures)
        counts = (str(count or "") for count in (account.running, account.waiting))
        whole = limit if share is None else share
        bar = _bar(held, total if whole is None else whole)
        rows.append(("  " * depth + name, _state(queue, named), *counts, *told, bar))
        data.append(
            {
                "queue": name,
                "parent": queue.parent,
                "state": queue.state.value,
                "running": account.running,
                "waiting": account.waiting,
                "holds": _plain(account.held),
                "share": None if outcome is None else _plain(outcome.fair_share),
                "guarantee": _plain(queue.guarantee),
                "limit": None if queue.limit is None else dict(queue.limit.dimensions()),
                "free": left[name],
                "on_loan": loan,
                "reserved": _plain(account.reserved),
            }
        )
        count, what = theirs.get(name, (held, "held"))
        ours = reserved if what == "reserved" else held
        if abs(count - ours) > _TINY * max(abs(count), abs(ours)):
            differences.append(
                f"queue {name}: the controller counts {amount_text(dimension, count)} {what}, "
                f"its jobs in the dump {amount_text(dimension, ours)}"
            )
    columns = (
        Column("QUEUE", is_name=True),
        Column("STATE"),
        *(Column(title, right=True, share=0) for title in ("RUNS", "WAITS", *_AMOUNTS)),
        Column("", share=2, is_bar=True),
    )
    shares = _borrowers(outcomes, accounts, dimension)
    strangers = sorted({job.queue for job in snapshot.jobs} - named.keys())
    not_there = [f"queue {name} does not exist" for name in strangers]
    below = [Section("", tuple(lines)) for lines in (shares, differences, not_there) if lines]
    sentence = Line(_queues_sentence(snapshot, shown, dimension))
    answer: dict[str, object] = {"resource": dimension, "now": snapshot.now, "queues": data}
    tables = [Table(columns, tuple(rows))]
    if question.arguments.has("--users"):
        table, answer["users"] = _users(question, shown, dimension)
        tables.append(table)
    return Answer(0, (sentence, *tables, *below), answer)


def _users(
    question: Question, shown: ShownJobs, dimension: str
) -> tuple[Table, list[dict[str, object]]]:
    """Return what each user holds and waits for in each queue, the most first. O(tasks)."""
    users = question.users()
    held: dict[tuple[str, str], list[Resource]] = {}
    wanted: dict[tuple[str, str], list[Resource]] = {}
    running, waiting = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for job in shown.known:
        place = users.get(job.uid, ""), job.queue
        held.setdefault(place, []).extend(t.resreq for t in job.tasks if t.status.occupies)
        wanted.setdefault(place, []).extend(t.resreq for t in job.tasks if t.status.to_place)
        running[place] += any(task.status.occupies for task in job.tasks)
        waiting[place] += shown.standing(job.uid).waits
    holds = {place: sum_resources(each) for place, each in held.items()}
    wants = {place: sum_resources(each) for place, each in wanted.items()}

    def order(place: tuple[str, str]) -> tuple[float, float, tuple[str, str]]:
        return -holds[place].get(dimension), -wants[place].get(dimension), place

    places = [place for place in sorted(holds, key=order) if running[place] or waiting[place]]
    rows = tuple(
        (
            place[0] or "(unknown)",
            place[1],
            *(str(count or "") for count in (running[place], waiting[place])),
            *(
                amount_text(dimension, each[place].get(dimension), unit=False)
                for each in (holds, wants)
            ),
        )
        for place in places
    )
    columns = (
        Column("USER", is_name=True),
        Column("QUEUE", is_name=True),
        *(Column(each, right=True, share=0) for each in ("RUNS", "WAITS", "HOLDS", "WANTS")),
    )
    data: list[dict[str, object]] = [
        {
            "user": place[0],
            "queue": place[1],
            "running": running[place],
            "waiting": waiting[place],
            "holds": _plain(holds[place]),
            "wants": _plain(wants[place]),
        }
        for place in places
    ]
    return Table(columns, rows), data


def _left(
    name: str,
    named: Mapping[str, Queue],
    accounts: Mapping[str, _Account],
    dimension: str,
    idle: float,
) -> float:
    """Return what a queue can still start: what nodes have left, and limits on its path."""
    for queue in path_of(name, named):
        account = accounts[queue.name]
        limit = None if queue.limit is None else queue.limit.get(dimension)
        if queue.state is not QueueStatus.OPEN:
            return 0
        if limit is not None:
            taken = max(account.held.get(dimension), account.reserved.get(dimension))
            idle = min(idle, limit - taken)
    return max(0, idle)


def _borrowers(
    outcomes: Mapping[str, QueueOutcome], accounts: Mapping[str, _Account], dimension: str
) -> list[str]:
    """Return which queues hold more than their shares, and which less, in a line if both do."""
    inner = {outcome.parent for outcome in outcomes.values()}
    more: list[str] = []
    less: list[str] = []
    for name, outcome in outcomes.items():
        beyond = accounts[name].held.get(dimension) - outcome.fair_share.get(dimension)
        if name not in inner and abs(beyond) >= 1:
            told = f"{name} ({amount_text(dimension, abs(beyond))})"
            (more if beyond > 0 else less).append(told)
    if not more or not less:
        return []
    above, below = ", ".join(more[:_NAMED]), ", ".join(less[:_NAMED])
    return [f"above their shares: {above}; below theirs: {below}"]


def _accounts(snapshot: Snapshot, shown: ShownJobs) -> dict[str, _Account]:
    """Return what each queue holds with those below it. O(tasks + queues x depth)."""
    held: dict[str, list[Resource]] = {queue.name: [] for queue in snapshot.queues}
    reserved: dict[str, list[Resource]] = {name: [] for name in held}
    running, waiting = Counter[str](), Counter[str]()
    named = {queue.name: queue for queue in snapshot.queues}
    for job in snapshot.jobs:
        holds = sum_resources(task.resreq for task in job.tasks if task.status.occupies)
        has_quota = shown.has_quota(job)
        wants = sum_resources(task.resreq for task in job.tasks if has_quota and _goes_on(task))
        runs = any(task.status.occupies for task in job.tasks)
        for queue in path_of(job.queue, named):
            held[queue.name].append(holds)
            reserved[queue.name].append(wants)
            running[queue.name] += runs
            waiting[queue.name] += shown.standing(job.uid).waits
    return {
        name: _Account(
            sum_resources(held[name]), sum_resources(reserved[name]), running[name], waiting[name]
        )
        for name in held
    }


def _goes_on(task: TaskInfo) -> bool:
    return task.status not in (TaskStatus.SUCCEEDED, TaskStatus.FAILED)


def _in_tree(queues: Iterable[Queue]) -> Iterator[tuple[str, int]]:
    """Yield queues with their depth, each after its parent, siblings by name."""
    names = {queue.name for queue in queues}
    children = defaultdict[str | None, list[str]](list)
    for queue in sorted(queues, key=lambda queue: queue.name, reverse=True):
        children[queue.parent if queue.parent in names else None].append(queue.name)
    waiting = [(name, 0) for name in children[None]]
    while waiting:
        name, depth = waiting.pop()
        yield name, depth
        waiting += [(child, depth + 1) for child in children[name]]


def _state(queue: Queue, named: Mapping[str, Queue]) -> str:
    """Return the state of a queue in words, if it takes no new work; empty if it does."""
    for each in path_of(queue.name, named):
        if each.state is not QueueStatus.OPEN:
            return f"{each.state.value}{'' if each is queue else ' above'}"
    return ""


def _bar(held: float, whole: float) -> str:
    """Return a bar of what may be held: ``#`` held, ``~`` held beyond it, ``.`` what is left."""
    most = max(whole, held)
    if not most:
        return ""
    upto, within = (int(_BAR * amount / most + 0.5) for amount in (held, min(held, whole)))
    return "#" * within + "~" * (upto - within) + "." * (_BAR - upto)


def _counted_by_controllers(question: Question, dimension: str) -> dict[str, tuple[float, str]]:
    """Return what the controllers of queues say that these hold, and in which sense."""
    found: dict[str, tuple[float, str]] = {}
    for given in question.objects():
        kind, group = given.get("kind"), str(given.get("apiVersion")).partition("/")[0]
        name, status = _at(given, "metadata", "name"), given.get("status")
        quantities: list[object] = []
        if kind == "Queue" and group in _WITH_ALLOCATED:
            quantities = [_at(status, "allocated", dimension)]
        elif kind == "ClusterQueue":
            flavors = _items(_at(status, "flavorsReservation"))
            resources = (each for flavor in flavors for each in _items(_at(flavor, "resources")))
            quantities = [
                _at(each, "total") for each in resources if _at(each, "name") == dimension
            ]
        amounts = [n for n in (_amount(dimension, each) for each in quantities) if n is not None]
        if amounts and isinstance(name, str):
            found[name] = sum(amounts), "held" if kind == "Queue" else "reserved"
    return found


def _at(given: object, *path: str) -> object:
    for key in path:
        given = cast("Mapping[str, object]", given).get(key) if isinstance(given, dict) else None
    return given


def _items(given: object) -> list[object]:
    return cast("list[object]", given) if isinstance(given, list) else []


def _amount(dimension: str, quantity: object) -> float | None:
    """Return a quantity in the library's unit; None: it is none."""
    if not isinstance(quantity, (str, int)):
        return None
    try:
        return float(parse_quantity(str(quantity))) * (1 if dimension == "memory" else 1000)
    except (BatchschedError, OverflowError):
        return None


def _plain(resource: Resource) -> dict[str, float]:
    return {name: amount for name, amount in resource.dimensions() if amount}


def _scarcest(snapshot: Snapshot) -> str:
    """Return the resource that most is short of: held or wanted, of all there is.

    What no node has is no such resource: nobody holds it, and what all wait for is not that.
    """
    total = sum_resources(node.allocatable for node in snapshot.nodes)
    tasks = [task for job in snapshot.jobs for task in job.tasks if _goes_on(task)]
    asked = sum_resources(task.resreq for task in [*tasks, *snapshot.other_tasks])

    def shortness(dimension: str) -> tuple[float, bool]:
        there = total.get(dimension)
        return asked.get(dimension) / there if there else 0, "/" in dimension

    names = {name for each in (total, asked) for name, _ in each.dimensions()}
    return max(sorted(names), key=shortness)


def _queues_sentence(snapshot: Snapshot, shown: ShownJobs, dimension: str) -> str:
    total = sum_resources(node.allocatable for node in snapshot.nodes).get(dimension)
    tasks = [task for job in snapshot.jobs for task in job.tasks]
    held = sum_resources(t.resreq for t in [*tasks, *snapshot.other_tasks] if t.status.holds)
    used = _part_text(dimension, held.get(dimension), total)
    waiting = sum(shown.standing(job.uid).waits for job in snapshot.jobs)
    who = "1 job waits" if waiting == 1 else f"{waiting or 'no'} jobs wait"
    return f"{counted(len(snapshot.queues), 'queue')}: {used} in use, {who}."


# Nodes


class _Drawn(NamedTuple):
    """A node as it is drawn."""

    node: NodeInfo
    group: str
    dimension: str
    total: float
    held: Mapping[str, float]
    """What each job holds of it, by UID; pods without a job under an empty name."""
    kept: float
    """What is promised or reserved."""
    trouble: str
    """Why it is out of service; empty if it is not."""
    devices: Mapping[str, Mapping[str, str]]
    """Its devices by name, and who has them, by UID of the job: all, or a part, as text. Empty:
    it is of nobody known who has which."""

    @property
    def used(self) -> float:
        """What is held of it."""
        return sum(self.held.values())

    @property
    def free(self) -> float:
        """What tasks could take of it."""
        return 0.0 if self.trouble else max(self.total - self.used - self.kept, 0)

    @property
    def text(self) -> str:
        """What stands beside its picture."""
        used = f"{_part_text(self.dimension, self.used, self.total)} used"
        return f"{used}, {self.trouble}" if self.trouble else used


def nodes(question: Question) -> Answer:
    """Answer with a picture of the nodes: what is used, by whom, what is out of service.

    One cycle, plus O(size of the snapshot).
    """
    shown = ShownJobs(question)
    snapshot = shown.dump.snapshot
    label = _group_label(snapshot.nodes, question.arguments.text("--by"))
    promises = (*shown.result.pipelined, *shown.result.reserved)
    drawn = sorted(_drawn(snapshot, label, promises), key=lambda each: (each.group, each.node.name))
    sentence = Line(_nodes_sentence(drawn))
    data = {"by": label, "now": snapshot.now, "nodes": [_node_data(each) for each in drawn]}
    groups = {group: [*members] for group, members in groupby(drawn, attrgetter("group"))}
    is_page, shows_all = map(question.arguments.has, ("--html", "--all"))
    is_long = len(groups) > _MOST_GROUPS and len(groups) + len(drawn) > MOST_LINES
    gangs = list(_largest_gangs(snapshot))
    data["gangs"] = [{"each": _plain(each), "fit": fit} for each, fit, _ in gangs]
    below: list[Block] = []
    if gangs:
        title = "Largest gangs that would fit now, by amounts alone"
        below = [Section(title, tuple(map(_gang_text, gangs)))]
    below += _topologies(snapshot, drawn)
    if len(drawn) > (_MOST_DRAWN if is_page else _DETAILED) or (
        is_long and not is_page and not shows_all
    ):
        return Answer(0, (sentence, _histograms(drawn, label), *below), data)
    largest = defaultdict[str, float](float)
    for each in drawn:
        for uid, amount in each.held.items():
            if uid and each.total:
                largest[uid] += amount / each.total
    ranked = sorted(largest, key=lambda uid: (-round(largest[uid], 9), uid))
    letters = dict(zip(ranked, _LETTERS, strict=False))
    cells = {each.node.name: _cells(each, letters) for each in drawn}
    for each in drawn:
        if each.devices:
            lines = tuple(_device_text(name, of, letters) for name, of in each.devices.items())
            below.append(Section(f"Devices of {each.node.name}", lines))
    meanings = {letter: shown.name(uid) for uid, letter in letters.items()} | _MEANINGS
    seen = set("".join(cells.values()))
    legend = {letter: text for letter, text in meanings.items() if letter in seen}
    pictures = [
        Picture(
            f"{label}: {group or 'without this label'}" if label else "",
            tuple(Bar(each.node.name, cells[each.node.name], each.text) for each in members),
        )
        for group, members in groups.items()
    ]
    return Answer(0, (sentence, *pictures, Picture("", (), legend), *below), data)


def before_and_after(
    before: Snapshot,
    after: Snapshot,
    names: JobNames,
    *,
    nodes: Collection[str],
    jobs: Iterable[str],
) -> list[Picture]:
    """Return pictures of some nodes before and after moves, and what the letters mean.

    `jobs`: those that have letters of their own, by UID; 26 at most.
    """
    letters = dict(zip(dict.fromkeys(jobs), _LETTERS, strict=False))
    first = [each for each in _drawn(before) if each.node.name in nodes]
    as_before = {each.node.name: each.dimension for each in first}
    then = [each for each in _drawn(after, dimensions=as_before) if each.node.name in nodes]
    pictures = [
        Picture(
            title,
            tuple(Bar(each.node.name, _cells(each, letters), each.text) for each in drawn),
        )
        for title, drawn in (("Before", first), ("After", then))
    ]
    meanings = {letter: names.name(uid) for uid, letter in letters.items()} | _MEANINGS
    seen = {cell for picture in pictures for bar in picture.bars for cell in bar.cells}
    legend = {letter: text for letter, text in meanings.items() if letter in seen}
    return [*pictures, Picture("", (), legend)]


def _topologies(snapshot: Snapshot, drawn: Sequence[_Drawn]) -> Iterator[Section]:
    """Yield the domains of each topology, with what is free in each. O(levels x nodes)."""
    for topology in snapshot.topologies:
        lines = list(_divided(drawn, topology.levels))
        if topology.domains:
            lines = [
                line
                for domain in topology.domains
                for line in _free_in(
                    f"{domain.level} {domain.name}",
                    [each for each in drawn if each.node.name in domain.nodes],
                )
            ]
        if 0 < len(lines) <= _DETAILED:
            yield Section(f"Domains of {topology.name}", tuple(lines))


def _divided(nodes: Sequence[_Drawn], levels: Sequence[str]) -> Iterator[str]:
    """Yield a line for each domain of the first level, and below it those of the others."""
    if not levels:
        return
    values = defaultdict[str, list[_Drawn]](list)
    for each in nodes:
        if levels[0] in each.node.labels:
            values[each.node.labels[levels[0]]].append(each)
    for value, members in sorted(values.items()):
        if len(members) > 1 or len(levels) > 1 or len(nodes) == 1:
            yield from _free_in(f"{levels[0].rpartition('/')[2]} {value}", members)
            yield from (f"  {line}" for line in _divided(members, levels[1:]))


def _free_in(domain: str, members: Sequence[_Drawn]) -> Iterator[str]:
    """Yield how much is free in a domain of what most of its nodes are drawn by, if any is."""
    for resource, _ in Counter(each.dimension for each in members if each.total).most_common(1):
        of_it = [each for each in members if each.dimension == resource]
        yield f"{domain}: {_free_text(resource, of_it)}"


def _largest_gangs(snapshot: Snapshot) -> Iterator[tuple[Resource, int, int]]:
    """Yield what tasks request most often, how many such tasks fit now, and on one node at most.

    Of tasks that wait, if any do. O(tasks + nodes).
    """
    tasks = [task for _, task in _tasks(snapshot) if task.status.to_place]
    tasks = tasks or [task for job in snapshot.jobs for task in job.tasks if _goes_on(task)]
    shapes = Counter(task.start_request for task in tasks if not task.is_best_effort)
    idle = _idle(snapshot)
    for shape, _ in sorted(shapes.items(), key=lambda each: (-each[1], str(each[0])))[:_SHAPES]:
        asked = [(name, amount) for name, amount in shape.dimensions() if amount]
        fits = [
            max(0, min(slots, *(int(free.get(name, 0) // amount) for name, amount in asked)))
            for free, slots in idle
        ]
        yield shape, sum(fits), max(fits, default=0)


def _idle(snapshot: Snapshot) -> list[tuple[dict[str, float], int]]:
    """Return what each node in service has left, and for how many tasks it has slots."""
    held: dict[str, list[Resource]] = {}
    for _, task in _tasks(snapshot):
        if task.node_name is not None and (task.status.holds or task.status in _KEEPS):
            held.setdefault(task.node_name, []).append(task.resreq)
    found: list[tuple[dict[str, float], int]] = []
    for node in snapshot.nodes:
        if not _trouble(node):
            there = held.get(node.name, [])
            used = sum_resources(there)
            slots = _MANY if node.max_tasks is None else node.max_tasks - len(there)
            free = {name: most - used.get(name) for name, most in node.allocatable.dimensions()}
            found.append((free, slots))
    return found


def _gang_text(gang: tuple[Resource, int, int]) -> str:
    each, fit, on_one = gang
    more = f" ({on_one} on one node)" if fit > on_one else ""
    return f"{counted(fit, 'task')} of {amounts_text(each.dimensions())}{more}"


def _drawn(
    snapshot: Snapshot,
    label: str = "",
    promises: Iterable[Promise] = (),
    dimensions: Mapping[str, str] = {},
) -> Iterator[_Drawn]:
    """Yield all nodes, each as its scarcest resource unless `dimensions` names another one."""
    on = defaultdict[str | None, list[tuple[str, TaskInfo]]](list)
    for uid, task in _tasks(snapshot):
        on[task.node_name].append((uid, task))
    promised = defaultdict[str, list[TaskInfo]](list)
    for promise in promises:
        promised[promise.node_name].append(snapshot.task(promise.task_uid))
    for node in snapshot.nodes:
        here = on[node.name]
        holders = [(uid, task) for uid, task in here if task.status.holds]
        keepers = {task.uid: task for _, task in here if task.status in _KEEPS}
        keepers |= {task.uid: task for task in promised[node.name]}
        used = sum_resources(task.resreq for _, task in holders)
        dimension = dimensions.get(node.name) or _of_node(node.allocatable, used)
        held: dict[str, float] = {}
        for uid, task in holders:
            amount = task.resreq.get(dimension)
            if amount:
                held[uid] = held.get(uid, 0) + amount
        total = node.allocatable.get(dimension)
        kept = sum(task.start_request.get(dimension) for task in keepers.values())
        yield _Drawn(
            node=node,
            group=node.labels.get(label, "") if label else "",
            dimension=dimension,
            total=total,
            held=held,
            kept=min(kept, max(total - sum(held.values()), 0)),
            trouble=_trouble(node),
            devices=_devices(node, holders),
        )


def _devices(node: NodeInfo, holders: Iterable[tuple[str, TaskInfo]]) -> dict[str, dict[str, str]]:
    there = {device.key: device for device in node.devices}
    devices: dict[str, dict[str, str]] = {device.name: {} for device in node.devices}
    unknown: dict[str, str] = {}
    for uid, task in holders:
        if task.claims and task.devices is None:
            unknown[uid] = "it, or another"
        for pick in task.devices or ():
            device = there.get(pick.device)
            if device is not None and not pick.admin:
                parts = [
                    f"{amount:,} of {device.capacity[name]:,}"
                    for name, amount in (pick.amounts or {}).items()
                    if amount < device.capacity.get(name, 0)
                ]
                devices[device.name][uid] = ", ".join(parts) or "all"
    if unknown and not any(devices.values()):
        return {}
    return {name: of or dict(unknown) for name, of in devices.items()}


def _tasks(snapshot: Snapshot) -> Iterator[tuple[str, TaskInfo]]:
    """Yield all tasks with the UIDs of their jobs; empty for those of no job."""
    for job in snapshot.jobs:
        for task in job.tasks:
            yield job.uid, task
    for task in snapshot.other_tasks:
        yield "", task


def _of_node(total: Resource, used: Resource) -> str:
    """Return a node's scarcest resource: of devices if it has any, else of cpu and memory."""
    devices = [name for name, amount in total.dimensions() if "/" in name and amount]

    def part(name: str) -> float:
        return used.get(name) / total.get(name) if total.get(name) else 0

    return max(devices or ["cpu", "memory"], key=part)


def _trouble(node: NodeInfo) -> str:
    parts = ["cordoned"] if node.unschedulable else []
    if node.conditions.get("Ready", "True") != "True":
        parts.append("not ready")
    return ", ".join(parts)


def _group_label(nodes: Sequence[NodeInfo], wish: str | None) -> str:
    """Return the label by which nodes are grouped; empty: by none."""
    values = defaultdict[str, set[str]](set)
    for node in nodes:
        for key, value in node.labels.items():
            values[key].add(value)
    if wish is not None:
        if wish not in values:
            raise unknown("label", wish, values)
        return wish
    able = [
        key
        for key, found in values.items()
        if "topology" in key.partition("/")[0] and 1 < len(found) < len(nodes)
    ]
    return min(able, key=lambda key: (len(values[key]), key), default="")


def _cells(each: _Drawn, letters: Mapping[str, str]) -> str:
    """Return one character a device; of other resources, the parts of at most 16 characters."""
    size = 1000 if each.dimension != "memory" else 1 << 30
    count = int(each.total // size)
    if "/" not in each.dimension or count > _CELLS:
        count = min(count, _CELLS) or int(bool(each.total))
    if not count:
        return ""
    parts = [
        (letters.get(uid, _OTHER_JOBS) if uid else _OTHER_PODS, amount)
        for uid, amount in sorted(each.held.items(), key=lambda item: (-item[1], item[0]))
    ]
    parts.append((_KEPT, each.kept))
    drawn = ""
    so_far = 0.0
    for letter, amount in parts:
        so_far += amount
        # What is not free must not look free: parts are rounded up.
        upto = min(-int(-(so_far * count / each.total - 1e-9) // 1), count)
        drawn += letter * (upto - len(drawn))
    return drawn + (_OUT if each.trouble else _FREE) * (count - len(drawn))


def _device_text(name: str, holders: Mapping[str, str], letters: Mapping[str, str]) -> str:
    """Return a device and who has it, or which part of it, by the letters of the picture."""
    parts = [
        f"{letters.get(uid, _OTHER_JOBS) if uid else _OTHER_PODS} has {part}"
        for uid, part in holders.items()
    ]
    return f"{name}: {'; '.join(parts) or 'free'}"


def _part_text(dimension: str, part: float, total: float) -> str:
    return f"{amount_text(dimension, part, unit=False)} of {amount_text(dimension, total)}"


def _free_text(dimension: str, nodes: Sequence[_Drawn]) -> str:
    free, total = sum(each.free for each in nodes), sum(each.total for each in nodes)
    return f"{_part_text(dimension, free, total)} free"


def _node_data(each: _Drawn) -> dict[str, object]:
    return {
        "node": each.node.name,
        "group": each.group,
        "resource": each.dimension,
        "total": each.total,
        "free": each.free,
        "promised": each.kept,
        "out_of_service": each.trouble,
        "held": dict(sorted(each.held.items())),
        "devices": {name: dict(of) for name, of in each.devices.items()},
    }


def _nodes_sentence(drawn: Sequence[_Drawn]) -> str:
    dimension = Counter(each.dimension for each in drawn if each.total).most_common()
    parts: list[str] = []
    for name, _ in sorted(dimension, key=lambda item: ("/" not in item[0], item)):
        parts.append(_free_text(name, [each for each in drawn if each.dimension == name]))
    text = f"{counted(len(drawn), 'node')}: {', '.join(parts) or 'nothing on them'}"
    out = Counter(each.trouble for each in drawn if each.trouble)
    told = "".join(f"; {count} {trouble}" for trouble, count in sorted(out.items()))
    return f"{text}{told}."


def _histograms(drawn: Sequence[_Drawn], label: str) -> Table:
    """Return a row for each group and resource: how many nodes have how much free."""
    rows: list[tuple[str, ...]] = []
    for (group, dimension), found in groupby(
        sorted(drawn, key=attrgetter("group", "dimension")), attrgetter("group", "dimension")
    ):
        members = list(found)
        used, total = sum(each.used for each in members), sum(each.total for each in members)
        unit = "GPUs" if dimension.rpartition("/")[2] == "gpu" else dimension
        row = (
            group or ("without this label" if label else "all nodes"),
            str(len(members)),
            _part_text(dimension, used, total),
            str(sum(bool(each.trouble) for each in members) or ""),
            f"{unit} free: {_histogram(dimension, members)}",
        )
        rows.append(row)
    columns = (
        Column(label or "GROUP", is_name=True),
        *(Column(title, right=True, share=0) for title in ("NODES", "IN USE", "OUT")),
        Column("FREE NODE BY NODE", share=0),
    )
    return Table(columns, tuple(rows))


def _histogram(dimension: str, members: Sequence[_Drawn]) -> str:
    size = 1000 if dimension != "memory" else 1 << 30

    def told(number: int) -> str:
        return amount_text(dimension, number * size, unit=False)

    counts = Counter(int(each.free // size) for each in members)
    amounts = {free: told(free) for free in counts}
    if len(counts) > _FEW:
        counts = Counter(free.bit_length() for free in counts.elements())
        amounts = {
            bits: told(bits) if bits <= 1 else f"{told(1 << (bits - 1))}-{told((1 << bits) - 1)}"
            for bits in counts
        }
    first, *others = sorted(counts)
    parts = [f"{amounts[first]}: {counted(counts[first], 'node')}"]
    return "  ".join([*parts, *(f"{amounts[each]}: {counts[each]}" for each in others)])
