"""What a snapshot says of what is no collection, and of errors on the way."""

from __future__ import annotations

import pytest
from tests.support.snapshot_content import (
    N1,
    Q,
    cut,
    faults_of,
    job,
    task,
)

from batchsched import Snapshot
from batchsched.errors import ArgumentError


class TestWrongCollections:
    @pytest.mark.parametrize(
        ("content", "fault"),
        [
            (
                {"nodes": None},
                "nodes: expected a collection of NodeInfo, got None; use a tuple or a list",
            ),
            (
                {"nodes": {"n1": 1}},
                "nodes: expected a collection of NodeInfo, got {'n1': 1}; use a tuple or a list",
            ),
            (
                {"queues": 5},
                ("queues: expected a collection of Queue, got 5; use a tuple or a list"),
            ),
            (
                {"jobs": "jobs"},
                ("jobs: expected a collection of JobInfo, got 'jobs'; use a tuple or a list"),
            ),
            (
                {"other_tasks": None},
                "other_tasks: expected a collection of TaskInfo, got None; use a tuple or a list",
            ),
            (
                {"jobs": [job("j", tasks=None)]},
                (
                    "jobs['default/j'].tasks: expected a collection of TaskInfo, got None; use a "
                    "tuple or a list"
                ),
            ),
            ({"nodes": ["n1"]}, "nodes[0]: expected a NodeInfo, got 'n1'"),
            ({"queues": [Q, None]}, "queues[1]: expected a Queue, got None"),
            ({"queues": [N1]}, f"queues[0]: expected a Queue, got {cut(N1)}"),
            ({"jobs": [{}, job()]}, "jobs[0]: expected a JobInfo, got {}"),
            ({"other_tasks": [None]}, "other_tasks[0]: expected a TaskInfo, got None"),
            (
                {"jobs": [job("j", task("t"), "u")]},
                "jobs['default/j'].tasks[1]: expected a TaskInfo, got 'u'",
            ),
        ],
    )
    def test_what_is_no_collection_or_the_wrong_one(
        self, content: dict[str, object], fault: str
    ) -> None:
        assert faults_of(content) == [fault]

    @pytest.mark.parametrize("name", ["nodes", "jobs", "queues", "other_tasks"])
    def test_an_error_inside_a_generator_is_not_swallowed(self, name: str) -> None:
        def failing():
            yield N1
            raise TypeError("from inside")

        with pytest.raises(ArgumentError, match=f"{name}: raised TypeError: from") as caught:
            Snapshot(**{name: failing()})
        assert isinstance(caught.value.__cause__, TypeError)
