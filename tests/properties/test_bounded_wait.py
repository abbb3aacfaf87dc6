"""The bound on waiting of docs/_bound.md, on random histories."""

from __future__ import annotations

from math import ceil
from random import Random
from typing import Any

import pytest
from attrs import mutable
from clusters import Simulation, action, cluster, job, node, scheduler
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import JobInfo

SIZES = (2, 3, 4, 6)


@mutable
class Terms:
    """What the bound depends on."""

    random: Random
    in_order: bool
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
        using = scheduler(
            action("allocate", unready=self.random.choice(("hold", "discard"))),
            action(
                "reserve",
                starvingJobTimeThreshold=self.threshold,
                reservedNodePercent=self.percent,
                inOrder=self.in_order,
            ),
            without=["proportion", "drf"],
        )
        nodes = [node(f"n{number}", f"{size}C{size}G") for number, size in enumerate(self.sizes)]
        return Simulation(using, cluster(nodes, *jobs, queues=queues))

    def run_cycle(self, simulation: Simulation) -> None:
        for bind in simulation.cycle().binds:
            uid = bind.task_uid
            simulation.ends[uid] = simulation.snapshot.now + self.random.randint(1, self.longest)

    def small_jobs(self, simulation: Simulation, serial: list[int], **more: Any) -> list[JobInfo]:
        jobs = []
        for _ in range(self.random.randint(1, sum(self.sizes))):
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


def check_one_starving_job(random: Random, *, in_order: bool) -> None:
    """All other jobs give up before they starve; they come later, some in a queue before."""
    terms = Terms(random, in_order)
    request = random.choice([size for size in (1, 2, 3, 4, 6) if size <= max(terms.sizes)])
    most = max((tasks for tasks in range(1, 12) if terms.holds(tasks, request)), default=0)
    if not most:
        return
    tasks = random.choice((most, random.randint(1, most)))
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
            again = 0 if in_order else terms.limit
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


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("seed", range(60))
def test_the_only_starving_job_starts_within_the_bound(seed: int, in_order: bool) -> None:
    check_one_starving_job(Random(seed), in_order=in_order)


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_the_only_starving_job_starts_within_the_bound_in_any_history(
    random: Random, in_order: bool
) -> None:
    check_one_starving_job(random, in_order=in_order)


def check_large_among_small(random: Random) -> None:
    """Whole nodes are asked for again and again, by jobs that come later and starve as well."""
    terms = Terms(random, in_order=True)
    terms.threshold, terms.percent = random.randint(0, 2), 100
    terms.sizes = (4,) * random.randint(2, 3)
    request = 4
    most = len(terms.sizes)
    simulation = terms.simulation([])
    serial, submitted, deadline = 0, random.randint(3, 8), 200.0
    while simulation.snapshot.now <= deadline:
        terms.run_cycle(simulation)
        if "s-1" in simulation.started:
            return
        now = simulation.snapshot.now
        waiting = [
            one for one in simulation.snapshot.jobs if one.tasks[0].uid not in simulation.started
        ]
        more: list[JobInfo] = []
        if now >= submitted and deadline == 200:
            more.append(
                job("s", *[f"{request}C{request}G"] * most, creation_time=now + 0.1, queue="q0")
            )
            rounds = len(waiting) + 2
            deadline = now + 0.1 + terms.threshold + terms.gap
            deadline += rounds * (terms.longest + terms.gap)
        for _ in range(random.randint(1, 2) if len(waiting) < 20 else 0):
            serial += 1
            units = random.choice((4, 4, 4, 2))
            created = now + 0.25 + serial / 1e6
            more.append(job(f"t{serial:05}", f"{units}C{units}G", creation_time=created))
        gone = [
            one.uid
            for one in simulation.snapshot.jobs
            if one.name != "s"
            and one.tasks[0].uid not in simulation.ends
            and (
                one.tasks[0].uid in simulation.started
                or now - one.creation_time > terms.threshold + 15
            )
        ]
        simulation.step(now=now + random.randint(1, terms.gap), new_jobs=more, removed_jobs=gone)
    pytest.fail(f"{most} x {request} waits at {simulation.snapshot.now} on {terms}")


@pytest.mark.parametrize("seed", range(60))
def test_in_order_small_starving_jobs_do_not_keep_a_large_one_waiting(seed: int) -> None:
    check_large_among_small(Random(seed))


def check_all_starving_jobs(random: Random) -> int:
    """Every job waits as long as it takes; each must start by its own deadline."""
    terms = Terms(random, in_order=True)
    simulation = terms.simulation([])
    serial = 0
    deadlines: dict[str, float] = {}
    met = 0
    while simulation.snapshot.now < 120:
        terms.run_cycle(simulation)
        now = simulation.snapshot.now
        for name in [name for name in deadlines if f"{name}-1" in simulation.started]:
            assert now <= deadlines.pop(name)
            met += 1
        assert all(now <= deadline for deadline in deadlines.values()), (terms, deadlines)
        more: list[JobInfo] = []
        waiting = [
            one for one in simulation.snapshot.jobs if one.tasks[0].uid not in simulation.started
        ]
        for _ in range(random.choice((0, 1, 1, 2, 3))):
            serial += 1
            request, tasks = random.choice((1, 1, 2, 3, 4)), random.choice((1, 1, 1, 2, 3, 5))
            name = f"j{serial:05}"
            created = now + 0.25 + serial / 1e6
            more.append(
                job(
                    name,
                    *[f"{request}C{request}G"] * tasks,
                    creation_time=created,
                    queue=random.choice(("q", "q0")),
                )
            )
            if terms.holds(tasks, request):
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
            if one.tasks[0].uid in simulation.started
            and not any(task.uid in simulation.ends for task in one.tasks)
        ]
        later = now + random.randint(1, terms.gap)
        if len(waiting) > 25:
            more = []
            deadlines = {n: d for n, d in deadlines.items() if any(w.name == n for w in waiting)}
        simulation.step(now=later, new_jobs=more, removed_jobs=done)
    return met


@pytest.mark.parametrize("seed", range(25))
def test_in_order_every_job_that_the_nodes_hold_starts_within_its_bound(seed: int) -> None:
    check_all_starving_jobs(Random(seed))


def test_deadlines_are_met_not_avoided() -> None:
    assert sum(check_all_starving_jobs(Random(seed)) for seed in range(100, 104)) > 50
