"""Expecting an invariant to be broken, and what is said of it then."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from attrs import evolve

from batchsched import (
    CycleResult,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskStatus,
)
from batchsched.testing import InvariantViolation
from tests.support.clusters import cluster, job, node
from tests.support.doctoring import placed
from tests.support.invariants import check_cycle

S = TaskStatus
ALL = ("priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder")


Doctor = Callable[[CycleResult], CycleResult]


def policy(*actions: object, plugins: Sequence[object] = ALL) -> SchedulerConfig:
    return SchedulerConfig.from_mapping(
        {"actions": list(actions), "tiers": [{"plugins": list(plugins)}]}
    )


def expect(
    law: str, snapshot: Snapshot, config: SchedulerConfig, doctor: Doctor, said: str
) -> None:
    """The result passes as it is; doctored, it breaks this law, in these words."""
    result = Scheduler(config).schedule(snapshot)
    check_cycle(snapshot, result, config)
    wrong = doctor(result)
    with pytest.raises(InvariantViolation) as caught:
        check_cycle(snapshot, wrong, config, invariants=[law])
    violation = caught.value
    assert said in violation.problem
    assert violation.invariant == law
    first, second, *_ = str(violation).splitlines()
    assert first == f"{law}: {violation.problem}"
    assert second.startswith("  The cycle (")
    with pytest.raises(InvariantViolation):
        check_cycle(snapshot, wrong, config)


# Clusters

ONE_WAITS = cluster([node("n1", "1C1G")], job("a", "1C1G"), job("b", "1C1G"))
"""a-1 starts on n1, b-1 waits."""
RUNNING = cluster([node("n1", "2C2G")], job("r", "1C1G@n1", "1C1G@n1", minimum=1), job("w", "1C1G"))
"""r-1 and r-2 fill n1, w-1 waits."""
GANG = cluster([node("n1", "3C3G")], job("g", "1C1G", "1C1G", "1C1G", minimum=2))


def bind(uid: str, where: str = "n1") -> Doctor:
    return lambda result: placed(result, uid, S.BINDING, where)


def with_task(snapshot: Snapshot, uid: str, **changes: object) -> Snapshot:
    """The same snapshot with one task changed."""
    jobs = [
        evolve(
            one,
            tasks=[evolve(t, **changes) if t.uid == uid else t for t in one.tasks],
        )
        for one in snapshot.jobs
    ]
    return evolve(snapshot, jobs=jobs)
