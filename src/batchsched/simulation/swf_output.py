"""Write runs as logs in the Standard Workload Format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchsched.simulation.record import Record

__all__ = ["swf_line", "swf_lines"]

CANCELLED = 5
"""The status of jobs that never ended."""


def swf_lines(record: Record) -> Iterator[str]:
    """Yield the lines of the log of a run."""
    workload, machine = record.workload, record.machine
    header = {
        "Version": "2.2",
        "Computer": f"simulated: {record.policy}",
        "MaxJobs": len(workload),
        "MaxRecords": len(workload),
        "MaxNodes": machine.nodes,
        "MaxProcs": machine.processors,
        "Note": record.settings,
    }
    yield from (f"; {label}: {value}" for label, value in header.items())
    named = any(isinstance(each, str) for each in workload.ids)
    numbers = {each: place if named else each for place, each in enumerate(workload.ids, 1)}
    columns = [
        workload.column(name)
        for name in ("status", "user", "group", "application", "queue", "partition")
    ]
    after, think = workload.after, workload.think
    for index, each in enumerate(workload.ids):
        start, end = record.outcome.starts[index], record.outcome.ends[index]
        submit = record.submitted[index]
        wait = None
        if end is not None and start is not None and submit is not None:
            wait = start - submit
        status, *others = (
            value if isinstance(value, int) else None
            for value in (column[index] for column in columns)
        )
        size = workload.processors[index]
        preceding = after[index]
        values: list[object] = [
            numbers[each],
            workload.submits[index],
            wait,
            None if wait is None else record.runs[index],
            None if wait is None else size,
            *(None, None),  # processor time and memory used
            size,
            workload.requested[index],
            None,  # memory requested
            CANCELLED if wait is None else status,
            *others,
        ]
        values += [None, None] if preceding is None else [numbers[preceding], think[index]]
        yield swf_line(values)


def swf_line(values: Sequence[object]) -> str:
    """Format the 18 values of a job as a line; None becomes -1.

    >>> swf_line([1, 0, 5, 3600, 56, None, None, 56, 7200, *[None] * 9])
    '1 0 5 3600 56 -1 -1 56 7200 -1 -1 -1 -1 -1 -1 -1 -1 -1'
    """
    return " ".join(map(_text, values))


def _text(value: object) -> str:
    if value is None:
        return "-1"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
