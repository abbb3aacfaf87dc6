"""Jobs that say what they need by an `info`, and what else is said of them."""

import pytest

from batchsched import FaultsError, JobInfo, Resource, TaskInfo
from batchsched.simulation import Workload


def test_the_same_fault_of_many_items_is_one_line() -> None:
    """With how many there are, and the first three; all of them are in `faults`."""
    task = TaskInfo(uid="t", name="t", resreq=Resource(milli_cpu=1000))
    info = JobInfo(name="j", queue="q", labels={"team": "a"}, tasks=[task])
    count = 50
    with pytest.raises(FaultsError) as raised:
        Workload.from_columns(
            {
                "id": [f"j{n}" for n in range(count)],
                "submit": [0] * count,
                "run": [1] * count,
                "info": [info] * count,
                "labels": [{"team": f"b{n}"} for n in range(count)],
            }
        )
    (line,) = str(raised.value).splitlines()
    assert line.startswith("jobs['j0'].labels: expected that of info, ")
    assert line.endswith("(and 49 more: jobs['j1'].labels, jobs['j2'].labels, ...)")
    assert len(raised.value.faults) == count


def test_a_user_and_labels_may_stand_beside_an_info_that_says_none() -> None:
    task = TaskInfo(uid="t", name="t", resreq=Resource(milli_cpu=1000))
    workload = Workload.from_columns(
        {
            "id": ["a", "b"],
            "submit": [0, 0],
            "run": [1, 1],
            "info": [JobInfo(name="j", queue="q", tasks=[task])] * 2,
            "user": ["ann", None],
            "labels": [{"team": "x"}, None],
        }
    )
    first, second = workload.infos
    assert first is not None
    assert second is not None
    assert (first.user, dict(first.labels)) == ("ann", {"team": "x"})
    assert (second.user, dict(second.labels)) == ("", {})
