"""The result of a cycle: plain data that can be compared, kept, sent and read."""

from __future__ import annotations

import copy
import json
import pickle

import attrs
import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clusters import cluster, job, node

from batchsched import (
    Bind,
    ConditionReason,
    CycleResult,
    DroppedPromise,
    Eviction,
    JobCondition,
    JobOutcome,
    JobPhase,
    Move,
    NodeTally,
    Notice,
    NoticeCode,
    PendingReason,
    Plan,
    Promise,
    QueueOutcome,
    Resource,
    Scheduler,
    TakenBack,
    TaskOutcome,
    TaskStatus,
    Unfit,
    UnfitReason,
    UnknownNameError,
    WhyPending,
)

LACKS_CPU = Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail="cpu")
LACKS_CPU_AS_DICT = {
    "reason": "InsufficientResource",
    "plugin": "",
    "detail": "cpu",
    "queue": "",
    "excess": None,
    "beyond_deserved": None,
    "no_domain": None,
    "devices": None,
}
TALLY = NodeTally(total=5, available=0, unfit={LACKS_CPU: 5})
INVALID = JobCondition(ConditionReason.NOT_ENOUGH_TASKS, "1 of 2 tasks", plugin="gang")
UNSCHEDULABLE = JobCondition(ConditionReason.NOT_ENOUGH_RESOURCES, "1/2 tasks", plugin="gang")
NO_QUEUE = JobCondition(ConditionReason.QUEUE_UNKNOWN, "'x' is not a queue")

FULL = {
    "binds": (
        Bind(task_uid="u1", node_name="n2"),
        Bind(task_uid="u0", node_name="n1", is_backfill=True),
    ),
    "evictions": (Eviction(task_uid="u9", node_name="n3", action="preempt", for_task_uid="u2"),),
    "moves": (
        Move(task_uid="u10", from_node="n3", to_node="n4", action="pack", for_task_uid="u2"),
        Move(task_uid="u11", from_node="n4", to_node="n3", action="defrag"),
    ),
    "taken_back": (TakenBack(task_uid="u7", node_name="n3", action="preempt", for_task_uid="u2"),),
    "pipelined": (Promise(task_uid="u2", node_name="n3"),),
    "conditional": (Promise(task_uid="u3", node_name="n4"),),
    "reserved": (Promise(task_uid="u4", node_name="n5"),),
    "dropped_reservations": (DroppedPromise(task_uid="u5", node_name="n6", for_task_uid="u2"),),
    "kept_promises": (Promise(task_uid="u2", node_name="n3"),),
    "dropped_promises": (DroppedPromise(task_uid="u6", node_name="n7", reason=LACKS_CPU),),
    "tasks": {
        "u1": TaskOutcome(status=TaskStatus.BINDING, node_name="n2"),
        "u0": TaskOutcome(status=TaskStatus.BINDING, node_name="n1", is_backfill=True),
        "u7": TaskOutcome(status=TaskStatus.PENDING),
    },
    "jobs": {
        "a/k": JobOutcome(phase=JobPhase.PENDING, condition=UNSCHEDULABLE),
        "a/j": JobOutcome(phase=JobPhase.RUNNING),
    },
    "left_out": {"b/z": NO_QUEUE, "b/y": INVALID},
    "pending": {
        "u8": PendingReason(WhyPending.NOT_REACHED),
        "u7": PendingReason(WhyPending.NO_NODE, TALLY),
        "u6": PendingReason(WhyPending.NO_NODE, TALLY),
    },
    "queues": {"q": QueueOutcome(fair_share=Resource(milli_cpu=2), allocated=Resource())},
    "names": {"u1": "team/worker-1"},
    "planned": {"a/k": Plan(start=1410, nodes={"u8": "n1"}), "a/m": Plan(start=1400)},
    "late": ("a/k",),
    "refused_until": 1300.0,
    "notices": (
        Notice(
            code=NoticeCode.CLAIMS_IGNORED,
            kind="TaskInfo",
            field="claims",
            count=1,
            examples=("u1",),
            consequence="ignored",
        ),
    ),
}

NOTHING = {"milli_cpu": 0, "memory": 0, "scalars": {}}

uids = st.sampled_from(["u1", "u2", "u3"])
nodes = st.sampled_from(["n1", "n2"])
promises = st.lists(st.builds(Promise, task_uid=uids, node_name=nodes), max_size=2).map(tuple)
results = st.builds(
    CycleResult,
    binds=st.lists(
        st.builds(Bind, task_uid=uids, node_name=nodes, is_backfill=st.booleans()), max_size=2
    ).map(tuple),
    evictions=st.lists(
        st.builds(
            Eviction,
            task_uid=uids,
            node_name=nodes,
            action=st.sampled_from(["preempt", "reclaim"]),
            for_task_uid=uids,
        ),
        max_size=2,
    ).map(tuple),
    pipelined=promises,
    reserved=promises,
    tasks=st.dictionaries(
        uids, st.builds(TaskOutcome, status=st.sampled_from(TaskStatus), node_name=nodes)
    ),
    jobs=st.dictionaries(
        st.sampled_from(["a/j", "a/k"]),
        st.builds(
            JobOutcome,
            phase=st.sampled_from(JobPhase),
            condition=st.sampled_from([None, UNSCHEDULABLE]),
        ),
    ),
    left_out=st.dictionaries(st.sampled_from(["b/y", "b/z"]), st.sampled_from([NO_QUEUE, INVALID])),
    pending=st.dictionaries(
        uids,
        st.sampled_from(
            [PendingReason(WhyPending.NO_NODE, TALLY), PendingReason(WhyPending.QUEUE_OVERUSED)]
        ),
    ),
)


def contents(result: CycleResult) -> dict[str, object]:
    """Every field as a plain tuple or dict."""
    return {
        field.name: dict(content) if isinstance(content, dict) else content
        for field in attrs.fields(CycleResult)
        for content in [getattr(result, field.name)]
    }


class TestValue:
    def test_the_example_here_gives_every_field(self) -> None:
        assert set(FULL) == {field.name for field in attrs.fields(CycleResult)}

    def test_the_next_start_is_the_earliest_that_is_planned(self) -> None:
        assert CycleResult(**FULL).next_start == 1400
        assert CycleResult().next_start is None is CycleResult().wake_at
        assert CycleResult(**FULL).wake_at == 1300

    def test_an_empty_result_decided_nothing(self) -> None:
        empty = CycleResult()
        assert all(not getattr(empty, field.name) for field in attrs.fields(CycleResult))

    @given(results)
    def test_it_can_be_pickled_copied_and_hashed(self, result: CycleResult) -> None:
        for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
            assert again == result
            assert hash(again) == hash(result)
            assert str(again) == str(result)

    @given(results, results)
    def test_two_are_equal_exactly_if_all_content_is(
        self, one: CycleResult, other: CycleResult
    ) -> None:
        assert (one == other) is (contents(one) == contents(other))

    @pytest.mark.parametrize("name", FULL)
    def test_a_difference_in_any_field_makes_a_difference(self, name: str) -> None:
        content = FULL[name]
        assert CycleResult(**{**FULL, name: type(content)()}) != CycleResult(**FULL)

    def test_the_order_of_mappings_does_not_matter(self) -> None:
        backwards = {
            name: dict(reversed(content.items())) if isinstance(content, dict) else content
            for name, content in FULL.items()
        }
        one, other = CycleResult(**FULL), CycleResult(**backwards)
        assert one == other
        assert hash(one) == hash(other)
        assert json.dumps(one.to_dict()) == json.dumps(other.to_dict())
        assert str(one) == str(other)

    def test_the_order_of_decisions_matters(self) -> None:
        backwards = CycleResult(**{**FULL, "binds": FULL["binds"][::-1]})
        assert backwards != CycleResult(**FULL)

    def test_it_cannot_be_changed(self) -> None:
        given_tasks = dict(FULL["tasks"])
        result = CycleResult(tasks=given_tasks)
        given_tasks.clear()
        assert result.tasks == FULL["tasks"]
        with pytest.raises(TypeError):
            result.tasks["u1"] = None
        for field in attrs.fields(CycleResult):
            with pytest.raises(FrozenInstanceError):
                setattr(result, field.name, ())


NO_CAUSE = {
    "held_by": [],
    "held_on": "",
    "share": None,
    "evictions": [],
    "behind_task": "",
    "behind_job": "",
    "too_large": False,
    "out_of_reach": None,
    "lacking": "",
    "refusal": None,
    "plan": None,
    "holds": [],
    "taken_for": "",
}
"""What a reason says that names nobody else."""
NO_COUNTS = {"counts": [], "undone": 0, "failure": None}
"""What a condition says that has only a message."""


class TestToDict:
    def test_it_holds_everything(self) -> None:
        no_node = {
            **NO_CAUSE,
            "why": "NoNode",
            "tally": {
                "total": 5,
                "available": 0,
                "unfit": [
                    [
                        LACKS_CPU_AS_DICT,
                        5,
                    ],
                ],
            },
            "detail": "",
            "text": "0/5 nodes are available: 5 lack free cpu",
        }
        assert CycleResult(**FULL).to_dict() == {
            "format": "batchsched.CycleResult",
            "version": 1,
            "binds": [
                {
                    "task_uid": "u1",
                    "node_name": "n2",
                    "is_backfill": False,
                    "devices": None,
                    "choices": {},
                },
                {
                    "task_uid": "u0",
                    "node_name": "n1",
                    "is_backfill": True,
                    "devices": None,
                    "choices": {},
                },
            ],
            "evictions": [
                {"task_uid": "u9", "node_name": "n3", "action": "preempt", "for_task_uid": "u2"}
            ],
            "moves": [
                {
                    "task_uid": "u10",
                    "from_node": "n3",
                    "to_node": "n4",
                    "action": "pack",
                    "for_task_uid": "u2",
                },
                {
                    "task_uid": "u11",
                    "from_node": "n4",
                    "to_node": "n3",
                    "action": "defrag",
                    "for_task_uid": None,
                },
            ],
            "taken_back": [
                {"task_uid": "u7", "node_name": "n3", "action": "preempt", "for_task_uid": "u2"}
            ],
            "pipelined": [{"task_uid": "u2", "node_name": "n3", "devices": None, "choices": {}}],
            "conditional": [{"task_uid": "u3", "node_name": "n4", "devices": None, "choices": {}}],
            "reserved": [{"task_uid": "u4", "node_name": "n5", "devices": None, "choices": {}}],
            "dropped_reservations": [
                {"task_uid": "u5", "node_name": "n6", "reason": None, "for_task_uid": "u2"}
            ],
            "kept_promises": [
                {"task_uid": "u2", "node_name": "n3", "devices": None, "choices": {}}
            ],
            "dropped_promises": [
                {
                    "task_uid": "u6",
                    "node_name": "n7",
                    "reason": LACKS_CPU_AS_DICT,
                    "for_task_uid": None,
                }
            ],
            "tasks": {
                "u0": {
                    "status": "Binding",
                    "node_name": "n1",
                    "is_backfill": True,
                    "devices": None,
                    "choices": {},
                },
                "u1": {
                    "status": "Binding",
                    "node_name": "n2",
                    "is_backfill": False,
                    "devices": None,
                    "choices": {},
                },
                "u7": {
                    "status": "Pending",
                    "node_name": None,
                    "is_backfill": False,
                    "devices": None,
                    "choices": {},
                },
            },
            "jobs": {
                "a/j": {"phase": "Running", "condition": None},
                "a/k": {
                    "phase": "Pending",
                    "condition": {
                        "reason": "NotEnoughResources",
                        "message": "1/2 tasks",
                        "plugin": "gang",
                        **NO_COUNTS,
                    },
                },
            },
            "left_out": {
                "b/y": {
                    "reason": "NotEnoughTasks",
                    "message": "1 of 2 tasks",
                    "plugin": "gang",
                    **NO_COUNTS,
                },
                "b/z": {
                    "reason": "QueueUnknown",
                    "message": "'x' is not a queue",
                    "plugin": "",
                    **NO_COUNTS,
                },
            },
            "pending": {
                "u6": no_node,
                "u7": no_node,
                "u8": {
                    **NO_CAUSE,
                    "why": "NotReached",
                    "tally": None,
                    "detail": "",
                    "text": "NotReached",
                },
            },
            "planned": {
                "a/k": {"start": 1410, "nodes": {"u8": "n1"}},
                "a/m": {"start": 1400, "nodes": {}},
            },
            "late": ["a/k"],
            "refused_until": 1300.0,
            "queues": {
                "q": {
                    "parent": None,
                    "fair_share": {"milli_cpu": 2, "memory": 0, "scalars": {}},
                    "limit": None,
                    **dict.fromkeys(("allocated", "guarantee", "covered", "on_loan"), NOTHING),
                }
            },
            "names": {"u1": "team/worker-1"},
            "notices": [
                {
                    "code": "ClaimsIgnored",
                    "kind": "TaskInfo",
                    "field": "claims",
                    "count": 1,
                    "examples": ["u1"],
                    "consequence": "ignored",
                    "objects": ["u1"],
                }
            ],
        }

    def test_it_names_every_field(self) -> None:
        names = {f.name for f in attrs.fields(CycleResult)}
        assert set(CycleResult().to_dict()) == {"format", "version", *names}

    @given(results)
    def test_json_gives_the_same_dicts_back(self, result: CycleResult) -> None:
        as_dict = result.to_dict()
        assert json.loads(json.dumps(as_dict)) == as_dict

    @given(results)
    def test_equal_results_give_the_same_json(self, result: CycleResult) -> None:
        again = pickle.loads(pickle.dumps(result))
        assert json.dumps(again.to_dict()) == json.dumps(result.to_dict())

    def test_the_dicts_are_the_callers_own(self) -> None:
        result = CycleResult(**FULL)
        result.to_dict()["binds"].clear()
        assert len(result.to_dict()["binds"]) == 2


class TestPrinting:
    def test_it_reads_as_a_summary_and_the_decisions(self) -> None:
        assert str(CycleResult(**FULL)).splitlines() == [
            "2 bound, 1 evicted, 2 moved, 1 pipelined, 1 conditional, 1 reserved, 3 pending",
            "  bind: team/worker-1 -> n2",
            "  bind: u0 -> n1",
            "  evict: u9 from n3 (preempt for u2)",
            "  move: u10 from n3 -> n4 (pack for u2)",
            "  move: u11 from n4 -> n3 (defrag)",
            "  take back: u7 from n3 (preempt for u2)",
            "  pipeline: u2 -> n3",
            "  promise: u3 -> n4",
            "  reserve: u4 -> n5",
            "  give up: u5 -> n6 (for u2)",
            "  give up: u6 -> n7 (which lacks free cpu)",
            "  plan: a/m at 1400",
            "  plan: a/k at 1410",
            "  pending: 2 x 0/5 nodes are available: 5 lack free cpu",
            "  pending: 1 x NotReached",
            "  left out: b/y: NotEnoughTasks: 1 of 2 tasks",
            "  left out: b/z: QueueUnknown: 'x' is not a queue",
            "  notice: 1 x TaskInfo claims: ignored (u1)",
        ]

    def test_the_most_frequent_reason_comes_first_then_the_alphabet(self) -> None:
        pending = {
            f"u{i}": PendingReason(WhyPending.NO_NODE, detail=detail)
            for i, detail in enumerate(["b", "c", "a", "c"])
        }
        lines = str(CycleResult(pending=pending)).splitlines()[1:]
        assert lines == ["  pending: 2 x c", "  pending: 1 x a", "  pending: 1 x b"]

    def test_an_empty_one_is_one_line(self) -> None:
        expected = "0 bound, 0 evicted, 0 pipelined, 0 conditional, 0 reserved, 0 pending"
        assert str(CycleResult()) == expected

    @pytest.mark.parametrize(
        ("count", "last"), [(10, "  bind: u9 -> n"), (11, "  bind: ... and 1 more")]
    )
    def test_what_is_long_is_cut_short(self, count: int, last: str) -> None:
        binds = tuple(Bind(task_uid=f"u{i}", node_name="n") for i in range(count))
        lines = str(CycleResult(binds=binds)).splitlines()
        assert len(lines) == 1 + count
        assert lines[-1] == last
        assert lines[0].startswith(f"{count} bound, ")

    def test_a_large_one_stays_short(self) -> None:
        many = range(5000)
        result = CycleResult(
            binds=tuple(Bind(task_uid=f"u{i}", node_name="n") for i in many),
            pending={f"p{i}": PendingReason(WhyPending.NO_NODE, detail=f"{i}") for i in many},
            left_out={f"j{i}": NO_QUEUE for i in many},
        )
        lines = str(result).splitlines()
        assert len(lines) == 1 + 3 * 11
        assert lines[-1] == "  left out: ... and 4990 more"


def test_a_name_that_is_not_there_is_answered_with_the_one_that_may_be_meant() -> None:
    small = cluster([node("n1", "4C4G")], job("train", "1C1G"))
    result = Scheduler().schedule(small)
    for found, wrong, right in (
        (result.jobs, "default/trian", "default/train"),
        (result.jobs, "train", "default/train"),
        (result.tasks, "trian-1", "train-1"),
    ):
        with pytest.raises(KeyError) as caught:
            found[wrong]
        assert str(caught.value) == f"the mapping has no {wrong!r}; did you mean {right!r}?"
        assert isinstance(caught.value, UnknownNameError)
        assert repr(wrong) in str(pickle.loads(pickle.dumps(caught.value)))
        assert found.get(wrong) is None
    with pytest.raises(UnknownNameError, match="no task 'trian-1'; did you mean"):
        result.outcome("trian-1")


def test_a_name_is_not_compared_with_more_names_than_anyone_would_wait_for() -> None:
    many = CycleResult(left_out={f"job-{number}": NO_QUEUE for number in range(20_000)})
    with pytest.raises(KeyError) as caught:
        many.left_out["jop-1"]
    assert str(caught.value) == "the mapping has no 'jop-1'"
