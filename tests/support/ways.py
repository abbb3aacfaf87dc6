"""Eight ways of reading a cluster, which all decide the same.

From scratch, plainly, as a living cluster, from JSON, pickled, in another order, through the
reconciler, and, where nothing runs yet, in a simulation.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping

from attrs import evolve

from batchsched import CycleResult, Scheduler, SchedulerConfig, Snapshot, TaskStatus
from batchsched.live import Cluster, Reconciler, TimePassed
from batchsched.simulation import Job, Machine, Scheduled, SimulationError, Workload, simulate
from batchsched.testing.invariants.permutation import permuted

Decided = Callable[[Snapshot, SchedulerConfig], CycleResult]


def _scheduled(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    return Scheduler(config).schedule(snapshot)


def _plainly(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    return Scheduler(config, plain=True).schedule(snapshot)


def _living(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    return Scheduler(config).attach(Cluster(snapshot)).schedule().full()


def _from_json(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    read = Snapshot.from_dict(json.loads(json.dumps(snapshot.to_dict())))
    return _scheduled(read, config)


def _pickled(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    return _scheduled(pickle.loads(pickle.dumps(snapshot)), config)


def _in_another_order(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    return _scheduled(permuted(snapshot), config)


def _reconciled(snapshot: Snapshot, config: SchedulerConfig) -> CycleResult:
    cluster = Cluster(Snapshot(now=snapshot.now))
    Reconciler(cluster).observe_all(snapshot)
    cluster.apply(TimePassed(snapshot.now))
    return Scheduler(config).attach(cluster).schedule().full()


WAYS: Mapping[str, Decided] = {
    "plainly": _plainly,
    "living": _living,
    "from JSON": _from_json,
    "pickled": _pickled,
    "in another order": _in_another_order,
    "reconciled": _reconciled,
}
"""Ways besides that from scratch, and that in a simulation, which tells only who starts."""


def differing(snapshot: Snapshot, config: SchedulerConfig) -> Iterator[str]:
    """Say which ways decide otherwise than that from scratch."""
    expected = _scheduled(snapshot, config).to_dict()
    for name, way in WAYS.items():
        got = way(snapshot, config).to_dict()
        for field, content in expected.items():
            if got[field] != content:
                yield f"{name}: {field} is {got[field]}; from scratch it is {content}"
                break
    yield from _differing_simulation(snapshot, config)


def _differing_simulation(snapshot: Snapshot, config: SchedulerConfig) -> Iterator[str]:
    """Say whether a simulation starts other tasks first, or elsewhere, when all jobs wait."""
    waiting = [
        job
        for job in snapshot.jobs
        if all(task.status is TaskStatus.PENDING for task in job.tasks) and not job.depends_on
    ]
    queues = [queue for queue in snapshot.queues if queue.usage_half_life is None]
    if not waiting or snapshot.other_tasks or snapshot.held or len(queues) < len(snapshot.queues):
        return
    idle = evolve(
        snapshot,
        now=0.0,
        jobs=[evolve(job, creation_time=0.0, eligible_time=None, estimate=60.0) for job in waiting],
    )
    try:
        yield from _differing_at_once(idle, config)
    except SimulationError as refused:
        # A simulation takes no job that no node could ever take: it is asked without them.
        if any(fault.message != NEVER_FITS for fault in refused.faults):
            raise
        names = {fault.path.split("'")[1] for fault in refused.faults}
        others = [job for job in idle.jobs if job.uid not in names]
        if others:
            yield from _differing_at_once(evolve(idle, jobs=others), config)


NEVER_FITS = "it needs something that no node offers"


def _differing_at_once(idle: Snapshot, config: SchedulerConfig) -> Iterator[str]:
    job_of = {task.uid: job.uid for job in idle.jobs for task in job.tasks}
    expected = {job_of[bind.task_uid] for bind in _scheduled(idle, config).binds}
    machine = Machine.of(
        idle.nodes,
        topologies=idle.topologies,
        devices=idle.devices,
        counter_sets=idle.counter_sets,
    )
    jobs = [
        Job(id=job.uid, submit=0.0, run=30.0, requested=60.0, queue=job.queue, info=job)
        for job in idle.jobs
    ]
    run = simulate(Workload(jobs, machine=machine), Scheduled(config, queues=idle.queues))
    starts = zip(run.jobs["id"], run.jobs["start"], strict=True)
    got = {str(job) for job, start in starts if start == 0}
    if got != expected:
        yield f"simulated: {sorted(got)} start first; from scratch {sorted(expected)}"
