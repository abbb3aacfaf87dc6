"""The bound on waiting of docs/_bound.md, on random histories.

Each kind of history is also run without what the bound rests on. If as many jobs were in time
then, the histories would show nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from random import Random
from typing import Any

import pytest
from attrs import frozen, mutable
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clusters import Simulation, action, cluster, job, node, scheduler

from batchsched import JobInfo

pytestmark = pytest.mark.slow

Failed = pytest.fail.Exception
SIZES = (2, 3, 4, 6)


@frozen
class Switches:
    """What the bound rests on: all of it on, but for what a test turns off."""

    reserves: bool = True
    """Whether there is the action reserve."""
    carries_over: bool = True
    """Whether reservations are carried over from cycle to cycle."""
    in_order: bool = True
    """Whether starving jobs are served in order."""


ALL_ON = Switches()


@mutable
class Terms:
    """What the bound depends on."""

    random: Random
    switches: Switches
    threshold: int = 0
    longest: int = 0
    gap: int = 0
    percent: int = 0
    sizes: tuple[int, ...] = ()
    small: tuple[int, ...] = ()

    def __attrs_post_init__(self) -> None:
        random = self.random
        self.threshold = random.randint(0, 8)
        self.longest = random.randint(1, 6)
        self.gap = random.randint(1, 3)
        self.percent = random.choice((10, 25, 50, 75, 100))
        self.sizes = tuple(random.choice(SIZES) for _ in range(random.randint(1, 5)))
        self.small = random.choice(((1, 1, 1, 2), (2, 2, 2, 1), (3, 2, 2, 2, 1)))

    @property
    def limit(self) -> int:
        return ceil(self.percent * len(self.sizes) / 100)

    def holds(self, tasks: int, request: int) -> bool:
        """Whether any nodes that are large enough, as many as may be reserved, hold the job."""
        places = sorted(size // request for size in self.sizes if size >= request)
        return sum(places[: self.limit]) >= tasks

    def simulation(self, jobs: list[JobInfo]) -> Simulation:
        queues = ["q", "q0"]
        actions = [action("allocate", unready=self.random.choice(("hold", "discard")))]
        if self.switches.reserves:
            actions.append(
                action(
                    "reserve",
                    starvingJobTimeThreshold=self.threshold,
                    reservedNodePercent=self.percent,
                    inOrder=self.switches.in_order,
                )
            )
        nodes = [node(f"n{number}", f"{size}C{size}G") for number, size in enumerate(self.sizes)]
        return Simulation(
            scheduler(*actions, without=["proportion", "drf"]),
            cluster(nodes, *jobs, queues=queues),
            keep_reservations=self.switches.carries_over,
        )

    def run_cycle(self, simulation: Simulation) -> None:
        for bind in simulation.cycle().binds:
            uid = bind.task_uid
            simulation.ends[uid] = simulation.snapshot.now + self.random.randint(1, self.longest)

    def small_jobs(self, simulation: Simulation, serial: list[int], **more: Any) -> list[JobInfo]:
        jobs = []
        total = sum(self.sizes)
        for _ in range(self.random.randint(total // 2, total)):
            serial[0] += 1
            request = self.random.choice(self.small)
            jobs.append(
                job(
                    f"t{serial[0]:05}",
                    f"{request}C{request}G",
                    creation_time=simulation.snapshot.now + 0.5,
                    **more,
                )
            )
        return jobs


def check_one_starving_job(random: Random, switches: Switches) -> None:
    """All other jobs give up before they starve; they come later, some in a queue before."""
    terms = Terms(random, switches)
    requests = [
        request
        for request in (1, 2, 3, 4, 6)
        if request <= max(terms.sizes) and terms.holds(1, request)
    ]
    if not requests:
        return
    # The larger, the harder to place among small ones.
    request = random.choice((requests[-1], random.choice(requests)))
    most = max(tasks for tasks in range(1, 12) if terms.holds(tasks, request))
    tasks = random.choice((most, most, random.randint(1, most)))
    serial = [0]
    simulation = terms.simulation([])
    submitted: float | None = None
    deadline = 60.0
    while simulation.snapshot.now <= deadline:
        terms.run_cycle(simulation)
        if submitted is not None and any(uid.startswith("s-") for uid in simulation.started):
            return
        now = simulation.snapshot.now
        more = terms.small_jobs(simulation, serial)
        later = now + random.randint(1, terms.gap)
        if submitted is None and now > 5:
            submitted = now + 0.25
            more.append(
                job(
                    "s",
                    *[f"{request}C{request}G"] * tasks,
                    creation_time=submitted,
                    queue=random.choice(("q", "q0")),
                )
            )
            again = 0 if switches.in_order else terms.limit
            deadline = submitted + terms.threshold + terms.longest + (2 + again) * terms.gap
        given_up = [
            one.uid
            for one in simulation.snapshot.jobs
            if one.name != "s"
            and later - one.creation_time > terms.threshold
            and one.tasks[0].uid not in simulation.started
        ]
        done = [
            one.uid
            for one in simulation.snapshot.jobs
            if one.tasks[0].uid in simulation.started and one.tasks[0].uid not in simulation.ends
        ]
        more = [
            one for one in more if one.name == "s" or later - one.creation_time <= terms.threshold
        ]
        simulation.step(now=later, new_jobs=more, removed_jobs=given_up + done)
    pytest.fail(f"{tasks} x {request} waits at {simulation.snapshot.now} on {terms}")


def is_late(
    check: Callable[[Random, Switches], object], seeds: range, switches: Switches, *, least: int
) -> bool:
    """Whether a job is late in so many histories at least."""
    number = 0
    for seed in seeds:
        try:
            check(Random(seed), switches)
        except (AssertionError, Failed):
            number += 1
            if number == least:
                return True
    return False


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_only_starving_job_starts_within_the_bound(seed: int, in_order: bool) -> None:
    check_one_starving_job(Random(seed), Switches(in_order=in_order))


@pytest.mark.parametrize("without", ["reserves", "carries_over"])
def test_the_only_starving_job_starts_too_late_without(without: str) -> None:
    assert is_late(check_one_starving_job, range(20), Switches(**{without: False}), least=4)


@settings(max_examples=20, deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_the_only_starving_job_starts_within_the_bound_in_any_history(
    random: Random, in_order: bool
) -> None:
    check_one_starving_job(random, Switches(in_order=in_order))


def check_large_among_small(random: Random, switches: Switches) -> None:
    """A gang wants all nodes; jobs of one node each come later, starve as well, and never end."""
    terms = Terms(random, switches)
    terms.threshold, terms.percent, terms.gap = random.randint(0, 2), 100, 1
    terms.longest = random.randint(3, 6)
    terms.sizes = (4,) * random.randint(2, 3)
    simulation = terms.simulation([])
    serial, submitted, deadline = 0, random.randint(2, 5), 200.0
    while simulation.snapshot.now <= deadline:
        now = simulation.snapshot.now
        for bind in simulation.cycle().binds:
            # Most last as long as they may, so that nodes are hardly ever free at the same time.
            lasts = terms.longest - random.choice((0, 0, 0, 1))
            simulation.ends[bind.task_uid] = now + lasts
        if "s-1" in simulation.started:
            return
        waiting = [
            one for one in simulation.snapshot.jobs if one.tasks[0].uid not in simulation.started
        ]
        more: list[JobInfo] = []
        if now >= submitted and deadline == 200:
            more.append(job("s", *["4C4G"] * len(terms.sizes), creation_time=now + 0.1, queue="q0"))
            rounds = len(waiting) + 2
            deadline = now + 0.1 + terms.threshold + terms.gap
            deadline += rounds * (terms.longest + terms.gap)
        for _ in range(random.choice((1, 1, 2)) if len(waiting) < 12 else 0):
            serial += 1
            units = random.choice((4, 4, 4, 3))
            created = now + 0.25 + serial / 1e6
            more.append(job(f"t{serial:05}", f"{units}C{units}G", creation_time=created))
        done = [
            one.uid
            for one in simulation.snapshot.jobs
            if one.tasks[0].uid in simulation.started and one.tasks[0].uid not in simulation.ends
        ]
        simulation.step(now=now + terms.gap, new_jobs=more, removed_jobs=done)
    pytest.fail(f"{len(terms.sizes)} nodes are waited for at {simulation.snapshot.now} on {terms}")


@pytest.mark.parametrize("seed", range(20))
def test_in_order_small_starving_jobs_do_not_keep_a_large_one_waiting(seed: int) -> None:
    check_large_among_small(Random(seed), ALL_ON)


@pytest.mark.parametrize(
    ("without", "least"), [("reserves", 10), ("carries_over", 10), ("in_order", 2)]
)
def test_small_starving_jobs_do_keep_a_large_one_waiting_without(without: str, least: int) -> None:
    assert is_late(check_large_among_small, range(10), Switches(**{without: False}), least=least)


def check_all_starving_jobs(random: Random, switches: Switches) -> int:
    """Every job waits as long as it takes; each must start by its own deadline."""
    terms = Terms(random, switches)
    simulation = terms.simulation([])
    serial = 0
    deadlines: dict[str, float] = {}
    met = 0
    while simulation.snapshot.now < 120:
        terms.run_cycle(simulation)
        now = simulation.snapshot.now
        started = {uid.rsplit("-", 1)[0] for uid in simulation.started}
        for name in [name for name in deadlines if name in started]:
            assert now <= deadlines.pop(name)
            met += 1
        assert all(now <= deadline for deadline in deadlines.values()), (terms, deadlines)
        more: list[JobInfo] = []
        waiting = [one for one in simulation.snapshot.jobs if one.name not in started]
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            serial += 1
            largest, tasks = random.choice((1, 1, 2, 3, 4)), random.choice((1, 1, 1, 2, 3, 5))
            requests = [largest] * tasks
            if random.random() < 0.3:
                requests = [random.randint(1, largest) for _ in range(tasks)]
            needed = random.choice((tasks, tasks, random.randint(1, tasks)))
            name = f"j{serial:05}"
            created = now + 0.25 + serial / 1e6
            more.append(
                job(
                    name,
                    *(f"{request}C{request}G" for request in requests),
                    minimum=needed,
                    creation_time=created,
                    queue=random.choice(("q", "q0")),
                )
            )
            if terms.holds(needed, max(requests)):
                ahead = len(waiting) + len(more) - 1
                deadlines[name] = (
                    created
                    + terms.threshold
                    + terms.gap
                    + (ahead + 2) * (terms.longest + terms.gap)
                )
        done = [
            one.uid
            for one in simulation.snapshot.jobs
            if one.name in started and not any(task.uid in simulation.ends for task in one.tasks)
        ]
        later = now + random.randint(1, terms.gap)
        if len(waiting) > 25:
            more = []
            deadlines = {n: d for n, d in deadlines.items() if any(w.name == n for w in waiting)}
        simulation.step(now=later, new_jobs=more, removed_jobs=done)
    return met


@pytest.mark.parametrize("seed", range(10))
def test_in_order_every_job_that_the_nodes_hold_starts_within_its_bound(seed: int) -> None:
    check_all_starving_jobs(Random(seed), ALL_ON)


@settings(max_examples=3, deadline=None)
@given(st.randoms(use_true_random=False))
def test_in_order_every_job_that_the_nodes_hold_starts_within_its_bound_in_any_history(
    random: Random,
) -> None:
    check_all_starving_jobs(random, ALL_ON)


@pytest.mark.parametrize(
    ("without", "least"), [("reserves", 3), ("carries_over", 3), ("in_order", 1)]
)
def test_not_every_job_starts_within_its_bound_without(without: str, least: int) -> None:
    assert is_late(check_all_starving_jobs, range(10), Switches(**{without: False}), least=least)


def test_deadlines_are_met_not_avoided() -> None:
    assert sum(check_all_starving_jobs(Random(seed), ALL_ON) for seed in range(100, 102)) > 50
