"""Readers of published traces of GPU clusters, from rows as `csv.DictReader` gives them.

The caller opens the files. Each reader documents how it uses the columns, and lists the lines that
it could not read. Fields that a trace does not have stay unknown in the workload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Final, Literal

from batchsched.errors import Fault
from batchsched.simulation.problems import Problem, WorkloadError
from batchsched.simulation.workload import Job, Workload

__all__ = ["MURI_START_COSTS", "read_helios", "read_muri", "read_openb", "read_philly"]

Row = Mapping[str, str]

_SIZES: Final = (1, 2, 4, 8, 16, 32)
MURI_START_COSTS: Final[Mapping[str, Mapping[int, float]]] = {
    model: dict(zip(_SIZES, seconds, strict=True))
    for model, seconds in {
        "vgg16": (7, 7, 8, 9, 9, 10),
        "vgg19": (7, 7, 8, 9, 10, 10),
        "resnet18": (4, 5, 5, 7, 7, 7),
        "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
        "bert": (10, 10, 10, 10, 10, 10),
        "gpt2": (10, 10, 10, 10, 10, 10),
        "a2c": (38, 39, 39, 46, 46, 46),
        "dqn": (5, 5, 6, 6, 8, 8),
    }.items()
}
"""The seconds that it takes to start a job, by model and number of GPUs, as measured for Muri (Zhao
et al., "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM 2022)."""
MURI_SLOWDOWN: Final = 1.015
"""The factor by which Muri's manager slows down an iteration."""


def read_philly(rows: Iterable[Row]) -> tuple[Workload, list[Problem]]:
    """Read Microsoft's Philly trace as extracted for Pollux (`philly.csv`).

    A row is a job: `timestamp` is its submission (times count from the first of all), `duration`
    its run time in seconds, `num_gpus` its processors, `cluster` (the virtual cluster) its queue.
    Ids are the numbers of the rows. Users and time limits are not in the file.

    Trace: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
    Workloads", USENIX ATC 2019; Qiao et al., "Pollux", OSDI 2021.

    >>> rows = [
    ...     {"timestamp": "2017-10-09 07:01:55", "duration": "66.0", "num_gpus": "1",
    ...      "gpu_time": "66.0", "cluster": "11cb48"},
    ... ]
    >>> list(read_philly(rows)[0])[0].queue
    '11cb48'
    """
    return _read(
        rows,
        lambda number, row: Job(
            id=number,
            submit=_seconds_of(row["timestamp"]),
            run=_number(row["duration"]),
            processors=_whole(row["num_gpus"]),
            queue=row["cluster"],
        ),
        from_first=True,
    )


def read_helios(rows: Iterable[Row]) -> tuple[Workload, list[Problem]]:
    """Read a trace of SenseTime's clusters (Helios, `cluster_log.csv`).

    A row is a job: `submit_time` (times count from the first of all), `duration` its run time,
    `gpu_num` its processors, `vc` its queue, `user` its user, `job_id` its id. Jobs without GPUs
    are left out, and listed. `state` is kept as a label.

    Trace: Hu, Sun, Yan, Wen, Zhang, "Characterization and Prediction of Deep Learning Workloads in
    Large-Scale GPU Datacenters", SC 2021.
    """
    return _read(
        rows,
        lambda _, row: Job(
            id=row["job_id"],
            submit=_seconds_of(row["submit_time"]),
            run=_number(row["duration"]),
            processors=_whole(row["gpu_num"]),
            queue=row["vc"],
            user=row["user"],
            labels={"state": row["state"]} if "state" in row else {},
        ),
        from_first=True,
    )


def read_muri(
    rows: Iterable[Row],
    *,
    run: Literal["iterations", "duration"] = "iterations",
    start: float = 0,
) -> tuple[Workload, list[Problem]]:
    """Read one of the four Philly virtual clusters as extracted for Muri (`trace1.csv` ...).

    A row is a job: `submit_time` in milliseconds from the first job, `num_gpu` its processors,
    `job_id` its id, `model_name` (invented by Muri's authors) the label `model`.

    Args:
        rows: The rows of the file.
        run: The run time to use: `iterations` x `iteration_time` x 1.015 as in Muri's simulator, or
            the `duration` of the trace.
        start: The submission time of the first job, in seconds.
    """

    def job(_: int, row: Row) -> Job:
        milliseconds = _number(row["duration"])
        if run == "iterations":
            # In Muri's order of operations, so that results are equal to the last bit.
            iteration = _whole(row["iteration_time"]) * MURI_SLOWDOWN / 1000
            seconds = _whole(row["iterations"]) * iteration
        else:
            seconds = _exact(milliseconds / 1000)
        return Job(
            id=_whole(row["job_id"]),
            submit=_exact(start + _number(row["submit_time"]) / 1000),
            run=seconds,
            processors=_whole(row["num_gpu"]),
            labels={"model": row["model_name"]},
        )

    return _read(rows, job)


def read_openb(rows: Iterable[Row]) -> tuple[Workload, list[Problem]]:
    """Read the pods of Alibaba's GPU cluster trace of 2023 (`openb_pod_list_default.csv` ...).

    A row is a job: `creation_time` to `deletion_time` is its run time from `scheduled_time` on (or
    from its creation, if it was never scheduled), `num_gpu` its processors, `qos` its queue, `name`
    its id. Pods without GPUs are left out, and listed; shares of a GPU count as a whole one (the
    label `gpu_milli` has the share).

    Trace: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
    Fragmentation Gradient Descent", USENIX ATC 2023.
    """

    def job(_: int, row: Row) -> Job:
        submit = _number(row["creation_time"])
        began = _number(row["scheduled_time"]) if row["scheduled_time"] else submit
        return Job(
            id=row["name"],
            submit=submit,
            run=_number(row["deletion_time"]) - began,
            processors=_whole(row["num_gpu"]),
            queue=row["qos"],
            labels={"gpu_milli": row["gpu_milli"]},
        )

    return _read(rows, job)


def _read(
    rows: Iterable[Row], make: Callable[[int, Row], Job], *, from_first: bool = False
) -> tuple[Workload, list[Problem]]:
    jobs: list[Job] = []
    problems: list[Problem] = []
    seen = set[object]()
    # The first line names the columns.
    if isinstance(rows, str):
        message = "expected rows, got one string; give csv.DictReader(file)"
        raise WorkloadError([Fault("rows", message)])
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            message = f"expected a mapping, as csv.DictReader gives it, got {row!r}"
            raise WorkloadError([Fault(f"rows[{number - 1}]", message)])
        try:
            job = make(number, row)
        except KeyError as missing:
            problems.append(
                Problem(number + 1, f"expected a column {missing}, got none", left_out=True)
            )
            continue
        except ValueError as error:
            problems.append(Problem(number + 1, str(error), left_out=True))
            continue
        faults = list(_faults(job, seen))
        problems += [
            Problem(number + 1, f"job {job.id}: {fault}", left_out=True) for fault in faults
        ]
        if not faults:
            seen.add(job.id)
            jobs.append(job)
    columns: dict[str, Sequence[object]] = {
        name: [getattr(job, name) for job in jobs]
        for name in ("id", "run", "processors", "queue", "user", "labels")
    }
    first = min((job.submit for job in jobs), default=0) if from_first else 0
    columns["submit"] = [job.submit - first for job in jobs]
    return Workload.from_columns(columns), problems


def _faults(job: Job, seen: set[object]) -> Iterable[str]:
    if job.id in seen:
        yield "an earlier job has the same id"
    if job.submit < 0:
        yield f"expected a submission at 0 or later, got {job.submit}"
    if job.run < 0:
        yield f"expected a run time of 0 s or more, got {job.run} s"
    if job.processors < 1:
        yield f"expected 1 GPU or more, got {job.processors}"


def _number(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"expected a finite number, got {text[:80]!r}")
    return _exact(value)


def _exact(value: float) -> float:
    return int(value) if value == int(value) else value


def _whole(text: str) -> int:
    return int(text)


def _seconds_of(text: str) -> float:
    moment = datetime.fromisoformat(text)
    # Times in traces are local and without a zone; only their differences matter.
    return _exact((moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds())
