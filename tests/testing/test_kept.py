"""check_plugin finds plugins whose kept state is not what fresh state would be."""

import pytest
from attrs import frozen

from batchsched.plugin import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.plugins.drf import DrfPlugin
from batchsched.plugins.proportion import ProportionPlugin
from batchsched.state.records import JobState
from batchsched.testing import LawViolation, check_plugin, snapshots

CROWDED = snapshots(
    max_nodes=2,
    min_jobs=3,
    max_tasks=3,
    constraints=False,
    affinity=False,
    scalars=False,
    reservations=False,
    groups=False,
)
"""Several jobs that want more than there is, so that who comes first shows."""


class _Counts:
    def __init__(self, view: SessionView, *, is_stale: bool) -> None:
        self._ready = {job.uid: job.ready_count for job in view.jobs.values()}
        self._is_stale = is_stale

    def resume(self, changes: Changes) -> bool:
        for job in changes.jobs_gone:
            del self._ready[job.uid]
        for job in changes.jobs:
            if not self._is_stale or job.uid not in self._ready:
                self._ready[job.uid] = job.ready_count
        return True

    def job_order_key(self, job: JobState) -> int:
        return -self._ready[job.uid]


@frozen
class _Plugin:
    is_stale: bool

    def open(self, view: SessionView, /) -> object:
        return _Counts(view, is_stale=self.is_stale)


def test_kept_state_that_is_out_of_date_is_found() -> None:
    with pytest.raises(LawViolation, match="kept state answers like fresh state"):
        check_plugin(_Plugin(is_stale=True), max_examples=300, shrink=False, examples=CROWDED)


def test_kept_state_that_is_up_to_date_is_fine() -> None:
    check_plugin(_Plugin(is_stale=False), max_examples=12)
    check_plugin(DrfPlugin(), max_examples=12)
    check_plugin(ProportionPlugin(), max_examples=12)
