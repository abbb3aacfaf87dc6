"""Finds the plugin at fault when keys of jobs, queues or tasks cannot be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import TypeVar

from batchsched.errors import PluginError, plugin_error, problem_of
from batchsched.model.validation.values import shown
from batchsched.session.session import Session
from batchsched.state.needs import Need
from batchsched.state.records import QueueState

__all__ = ["unordered_keys"]

ItemT = TypeVar("ItemT")


def unordered_keys(session: Session, /) -> PluginError | None:
    """Return an error for the first plugin whose keys cannot be compared, or None.

    Called only after a failure. It compares all pairs of keys of each plugin: O(n squared) for n
    jobs, queues or tasks.
    """
    plugins = session.plugin_set
    jobs = {f"job {uid!r}": job for uid, job in session.jobs.items()}
    queues = {f"queue {name!r}": queue for name, queue in session.queues.items()}
    tasks = {f"task {t.uid!r}": t for job in session.jobs.values() for t in job.tasks}
    by_need = [(name, partial(_without_need, function)) for name, function in plugins.queue_orders]
    return (
        _first_fault("job_order_key", plugins.job_orders, jobs)
        or _first_fault("queue_order_key", by_need, queues)
        or _first_fault("task_order_key", plugins.task_orders, tasks)
    )


def _without_need(
    function: Callable[[QueueState, Need | None], object], queue: QueueState
) -> object:
    return function(queue, None)


def _first_fault(
    point: str,
    functions: Sequence[tuple[str, Callable[[ItemT], object]]],
    items: Mapping[str, ItemT],
) -> PluginError | None:
    for name, function in functions:
        try:
            keys = [(about, function(item)) for about, item in items.items()]
        except Exception as error:
            return plugin_error(name, point, error)
        for (one, left), (other, right) in combinations(keys, 2):
            try:
                if left != right:  # equal keys are never ordered
                    bool(left < right or right < left)  # type: ignore[operator]
            except Exception as error:
                said = f"the keys of {one} and {other}, {shown(left)} and {shown(right)}"
                return PluginError(name, point, f"{said}, do not compare: {problem_of(error)}")
    return None
