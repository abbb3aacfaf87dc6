"""What happens to a machine and its jobs from outside: incidents, failures, reservations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import pairwise
from math import ceil, gamma, inf, log
from typing import get_args

from attrs import field, frozen

from batchsched.errors import Fault
from batchsched.model.cluster import Queue
from batchsched.model.immutable import kept_tuple
from batchsched.model.validation.arguments import checks_arguments
from batchsched.model.validation.values import is_of, is_text, shown
from batchsched.simulation.checks import (
    JobId,
    SimulationError,
    faults_of_seed,
    faults_unless,
    is_number,
    refuse,
)


@frozen(kw_only=True)
class NodeDown:
    """A node fails: every job with a task there is stopped entirely, and waits again."""

    at: float
    """The time in seconds, on the clock of the workload."""
    node: int | str
    """The number of the node, counted from 0, or its name."""


@frozen(kw_only=True)
class NodeDrained:
    """No task starts on a node any more; running tasks continue.

    Under `Scheduled` it needs the plugin `predicates`.
    """

    at: float
    node: int | str


@frozen(kw_only=True)
class NodeUp:
    """A node that was down or drained is available again."""

    at: float
    node: int | str


@frozen(kw_only=True)
class JobCancelled:
    """A job is cancelled, before or after its arrival. No effect if it has ended."""

    at: float
    job: JobId


@frozen(kw_only=True)
class JobFailed:
    """A running job fails; see `simulate`. No effect if it does not run."""

    at: float
    job: JobId


@frozen(kw_only=True)
class QueueSet:
    """A queue is replaced by the given one, or added if there is none of this name.

    Only `Scheduled` has queues.
    """

    at: float
    queue: Queue


Incident = NodeDown | NodeDrained | NodeUp | JobCancelled | JobFailed | QueueSet


def _nodes(items: Iterable[int | str], /) -> tuple[int | str, ...]:
    return kept_tuple(items, "nodes")


def _jobs(items: Iterable[JobId], /) -> tuple[JobId, ...]:
    return kept_tuple(items, "jobs")


@frozen(kw_only=True)
class Reservation:
    """Nodes that are for some jobs alone for a time; these jobs may run elsewhere, too.

    When it starts, other jobs that hold resources there are stopped.
    """

    name: str
    start: float
    """From when on, in seconds on the clock of the workload."""
    end: float
    """Until when; at that time it is over."""
    nodes: tuple[int | str, ...] = field(converter=_nodes)
    """The nodes by number or name."""
    jobs: tuple[JobId, ...] = field(converter=_jobs)


@checks_arguments(SimulationError)
def failures(
    nodes: Iterable[str], *, mtbf: float, repair: float, until: float, seed: int, shape: float = 1
) -> tuple[Incident, ...]:
    """Return incidents: nodes that fail and come back, drawn at random.

    The times of a node depend on its name, the seed and the other numbers alone. From 0, and from
    each repair, the time to the next failure follows a Weibull distribution, and each repair takes
    an exponentially distributed time; both in whole seconds, at least 1.

    Args:
        nodes: Their names.
        mtbf: The mean time from a repair to the next failure, in seconds.
        repair: The mean time of a repair, in seconds.
        until: Nodes fail before this time; repairs may end later.
        seed: The seed of all random choices.
        shape: The shape of the Weibull distribution: 1 is the exponential distribution; with less,
            failures come in bursts.

    Raises:
        SimulationError: Numbers out of range. All faults at once.

    >>> down, up = failures(["n1"], mtbf=1000, repair=100, until=500, seed=1)
    >>> down.at, up.at
    (337, 421)
    """
    faults = list(faults_of_seed(seed))
    for name, value in (("mtbf", mtbf), ("repair", repair), ("shape", shape)):
        is_right = is_number(value, least=0.01 if name == "shape" else 0, above=name != "shape")
        faults += faults_unless(is_right, name, "a number above 0", value)
    refuse(SimulationError, faults, _faults_of_time("until", until))
    found: list[Incident] = []
    for name in sorted(nodes):
        count = 0

        def draw(mean: float, shape: float, name: str = name) -> int:
            nonlocal count
            digest = sha256(f"{seed}/{name}/{count}".encode()).digest()
            count += 1
            share = (int.from_bytes(digest[:8], "big") + 0.5) / 2**64
            seconds: float = mean / gamma(1 + 1 / shape) * (-log(share)) ** (1 / shape)
            return max(1, ceil(seconds))

        time = draw(mtbf, shape)
        while time < until:
            found.append(NodeDown(at=time, node=name))
            time += draw(repair, 1)
            found.append(NodeUp(at=time, node=name))
            time += draw(mtbf, shape)
    return tuple(found)


def _faults_of_time(where: str, at: object) -> Iterator[Fault]:
    return faults_unless(is_number(at, least=0), where, "a time in seconds, 0 or later", at)


def faults_of_incidents(
    incidents: Iterable[Incident],
    reservations: Iterable[Reservation],
    places: Mapping[int | str, int],
    ids: Iterable[JobId],
) -> Iterator[Fault]:
    """Yield what is wrong with incidents and reservations.

    Args:
        incidents: The incidents.
        reservations: The reservations.
        places: The index of each node by number and by name.
        ids: The ids of all jobs.
    """
    known = set(ids)
    last = len(set(places.values())) - 1

    def faults_of_node(where: str, node: object) -> Iterator[Fault]:
        is_node = type(node) in (int, str) and node in places
        return faults_unless(is_node, where, f"the number of a node, 0 to {last}, or a name", node)

    def faults_of_job(where: str, job: object) -> Iterator[Fault]:
        is_job = type(job) in (int, str) and job in known
        return faults_unless(is_job, where, "the id of a job in this workload", job)

    for number, each in enumerate(incidents):
        where = f"incidents[{number}]"
        if not any(is_of(each, kind) for kind in get_args(Incident)):
            example = "an incident such as NodeDown(at=60, node=0)"
            yield Fault(where, f"expected {example}, got {shown(each)}")
            continue
        yield from _faults_of_time(f"{where}.at", each.at)
        if isinstance(each, NodeDown | NodeDrained | NodeUp):
            yield from faults_of_node(f"{where}.node", each.node)
        elif isinstance(each, QueueSet):
            is_queue = is_of(each.queue, Queue)
            yield from faults_unless(is_queue, f"{where}.queue", "a Queue", each.queue)
        else:
            yield from faults_of_job(f"{where}.job", each.job)
    spans: dict[int, list[tuple[float, float, int]]] = {}
    for number, one in enumerate(reservations):
        where = f"reservations[{number}]"
        if not is_of(one, Reservation):
            yield Fault(where, f"expected a Reservation, got {shown(one)}")
            continue
        is_name = is_text(one.name) and bool(one.name)
        yield from faults_unless(is_name, f"{where}.name", "a name", one.name)
        yield from _faults_of_time(f"{where}.start", one.start)
        is_time = is_number(one.start, least=0)
        ends = is_number(one.end, least=one.start if is_time else -inf, above=True)
        yield from faults_unless(ends, f"{where}.end", "a time after its start", one.end)
        for place, node in enumerate(one.nodes):
            yield from faults_of_node(f"{where}.nodes[{place}]", node)
            if is_time and ends and type(node) in (int, str) and node in places:
                spans.setdefault(places[node], []).append((one.start, one.end, number))
        for place, job in enumerate(one.jobs):
            yield from faults_of_job(f"{where}.jobs[{place}]", job)
    for found in spans.values():
        for (_, end, first), (start, _, second) in pairwise(sorted(found)):
            if start < end:
                message = f"expected no overlap with reservations[{first}] on a node"
                yield Fault(f"reservations[{second}]", message)
