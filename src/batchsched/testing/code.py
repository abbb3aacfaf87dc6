"""How examples are printed: as code, ready to paste into a test."""

from __future__ import annotations

from hypothesis.vendor.pretty import RepresentationPrinter, for_type_by_name

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult
from batchsched.model.snapshot import Snapshot
from batchsched.tools.code import as_code


def print_examples_as_code() -> None:
    """Make Hypothesis print batchsched's data as the code that creates it.

    Importing `batchsched.testing` does this.
    """
    kinds = (CycleResult, JobInfo, NodeInfo, Queue, Resource, SchedulerConfig, Snapshot, TaskInfo)
    for kind in kinds:
        for_type_by_name(kind.__module__, kind.__name__, _print)


def _print(value: object, printer: RepresentationPrinter, _cycle: bool) -> None:
    first, *rest = as_code(value).splitlines()
    printer.text(first)
    for line in rest:
        printer.break_()
        printer.text(line)
