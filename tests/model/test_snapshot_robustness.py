"""Whatever is put in a snapshot, it is accepted or there is a list of faults; nothing else."""

from __future__ import annotations

import pickle
from fractions import Fraction

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.snapshot_content import HUGE, INF, N1, NAN, Q, job, task, with_task

from batchsched import (
    Fault,
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Queue,
    Requirement,
    Resource,
    ScoringRequest,
    Snapshot,
    SnapshotError,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    Toleration,
    TolerationOperator,
    WeightedPodTerm,
)
from batchsched.devices import (
    CapacityPolicy,
    CounterSet,
    Device,
    DeviceClaim,
    DeviceConstraint,
    DevicePick,
    DeviceRequest,
)
from batchsched.model.validation import snapshot as validation
from batchsched.model.validation.snapshot import task_problems


def faults_of(content: dict[str, object]) -> tuple[Fault, ...]:
    """The faults of a snapshot with this content, none if it is sound; any other error passes."""
    try:
        Snapshot(**content)
    except SnapshotError as error:
        return error.faults
    return ()


class Odd:
    """Something that is nothing in particular, and cannot be hashed."""

    __hash__ = None

    def __repr__(self) -> str:
        return "<odd>"


class Hostile:
    """Something that nobody may compare or look at, as arrays and tables do not like it."""

    def _refuse(self, *_args: object) -> bool:
        raise RuntimeError("ambiguous")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __len__ = __hash__ = _refuse

    def __repr__(self) -> str:
        return "<hostile>"


JUNK = [
    None,
    True,
    False,
    0,
    1,
    -1,
    1.5,
    NAN,
    INF,
    -INF,
    HUGE,
    -HUGE,
    1j,
    "",
    "text",
    b"bytes",
    [],
    [1],
    ["a"],
    (),
    (None,),
    ("a",),
    {},
    {"a": "b"},
    {1: 2},
    {1: "b"},
    {"a": None},
    {"a", "b"},
    set(),
    object(),
    Odd(),
    [Odd()],
    Hostile(),
    [Hostile()],
    {"a": Hostile()},
    HostPort(port=Hostile(), protocol=Hostile(), address=Hostile()),
    Toleration(key=Hostile(), value=Hostile()),
    {"a": Odd()},
    int,
    TaskStatus.PENDING,
    TaskStatus.RUNNING,
    TaskStatus.PIPELINED,
    "Running",
    Operator.IN,
    "In",
    TaintEffect.NO_EXECUTE,
    TolerationOperator.EQUAL,
    Resource(),
    Resource(milli_cpu=1),
    Resource(scalars=None),
    Resource(milli_cpu=Odd()),
    Resource(scalars={Operator.IN: Odd()}),
    NodeInfo(name="n1"),
    Q,
    task("x"),
    job("x"),
    HostPort(port=0),
    Toleration(),
    Taint(key=Hostile(), effect=Hostile()),
    NodeAffinity(required=3, preferred=3),
    PodAffinity(required=3, preferred=[3]),
    LabelSelector(match_labels=3, match_expressions=3),
    ScoringRequest(milli_cpu=Odd(), memory=None),
    ScoringRequest(milli_cpu=1, memory=1),
    Fraction(1, 2),
]

GOOD = {
    "requirement": Requirement(key="a", operator=Operator.IN, values=["b"]),
    "field requirement": Requirement(key="metadata.name", operator=Operator.IN, values=["b"]),
    "toleration": Toleration(key="a"),
    "wide toleration": Toleration(operator=TolerationOperator.EXISTS),
    "taint": Taint(key="a", effect=TaintEffect.NO_EXECUTE),
    "port": HostPort(port=80),
    "term": NodeSelectorTerm(),
    "weighted node term": PreferredNodeTerm(weight=1, term=NodeSelectorTerm()),
    "node affinity": NodeAffinity(),
    "selector": LabelSelector(),
    "pod term": PodAffinityTerm(topology_key="zone"),
    "weighted pod term": WeightedPodTerm(weight=1, term=PodAffinityTerm(topology_key="zone")),
    "pod affinity": PodAffinity(),
    "scoring request": ScoringRequest(milli_cpu=1, memory=1),
    "resource": Resource(),
    "task": task("t", status=TaskStatus.RUNNING, node_name="n1"),
    "job": job("j"),
    "queue": Queue(name="q"),
    "node": NodeInfo(name="n1"),
    "device": Device(name="g0"),
    "capacity policy": CapacityPolicy(default=1),
    "counter set": CounterSet(name="c"),
    "claim": DeviceClaim(name="c", requests=[DeviceRequest(name="r")]),
    "device request": DeviceRequest(name="r"),
    "device constraint": DeviceConstraint(same="a"),
    "pick": DevicePick(claim="c", request="r", device=("", "", "g0")),
}


def placed(what: str, value: object) -> dict[str, object]:
    """A snapshot's content with one value in it, somewhere."""
    match what:
        case "requirement":
            return placed("term", NodeSelectorTerm(match_expressions=[value]))
        case "field requirement":
            return placed("term", NodeSelectorTerm(match_fields=[value]))
        case "toleration" | "wide toleration":
            return with_task(tolerations=[value])
        case "taint":
            return {"nodes": [NodeInfo(name="n", taints=[value])]}
        case "port":
            return with_task(host_ports=[value])
        case "term":
            return placed("node affinity", NodeAffinity(required=[value]))
        case "weighted node term":
            return placed("node affinity", NodeAffinity(preferred=[value]))
        case "node affinity":
            return with_task(node_affinity=value)
        case "selector":
            return placed("pod term", PodAffinityTerm(topology_key="zone", selector=value))
        case "pod term":
            return placed("pod affinity", PodAffinity(required=[value]))
        case "weighted pod term":
            return with_task(pod_anti_affinity=PodAffinity(preferred=[value]))
        case "pod affinity":
            return with_task(pod_affinity=value)
        case "scoring request":
            return with_task(scoring_request=value)
        case "resource":
            return with_task(resreq=value)
        case "device":
            return {"nodes": [NodeInfo(name="n", devices=[value])]}
        case "capacity policy":
            return placed("device", Device(name="g", capacity={"a": 1}, policies={"a": value}))
        case "counter set":
            return {"nodes": [NodeInfo(name="n", counter_sets=[value])]}
        case "claim":
            return with_task(claims=[value])
        case "device request":
            return with_task(claims=[DeviceClaim(name="c", requests=[value])])
        case "device constraint":
            claim = GOOD["claim"]
            return with_task(claims=[attrs.evolve(claim, constraints=[value])])
        case "pick":
            return {"held": [value]}
        case "task":
            # The task before it makes everything that they share known as sound.
            return {"nodes": [N1], "jobs": [job("j", task("a"), value)]}
        case "job":
            return {"jobs": [value]}
        case "queue":
            return {"queues": [value]}
        case "node":
            return {"nodes": [value]}
    raise AssertionError(what)


# A sound value may not go with another, which is blamed then.
ALSO_BLAMED = {
    "status": ("node_name",),
    "operator": ("key",),
    "count": ("requests",),
    "same": ("constraints",),
    "distinct": ("constraints",),
}

# Numbers may be integers or not; a collection may be given as any.
MOST_TYPES = (
    {"creation_time": 2, "milli_cpu": 2, "memory": 2, "tasks": 3}
    | dict.fromkeys(["start_time", "estimate", "attained_service", "usage_half_life"], 2)
    | dict.fromkeys(["deadline", "max_wait", "eligible_time", "claim_delay"], 2)
    | dict.fromkeys(["preempt_min_runtime", "reclaim_min_runtime"], 2)
    | dict.fromkeys(
        [
            "depends_on",
            "claims",
            "devices",
            "counter_sets",
            "closed_pools",
            "nodes",
            "conditions",
            "constraints",
            "requests",
            "select",
            "alternatives",
            "holds",
            "tolerations",
            "host_ports",
            "taints",
            "match_expressions",
            "match_fields",
            "required",
            "preferred",
        ],
        3,
    )
    | {"values": 4, "namespaces": 4, "groups": 2}  # no sets: the order of groups means something
)

SLOTS = [
    (what, field.name)
    for what, good in GOOD.items()
    for field in attrs.fields(type(good))
    if field.init
]


class TestRobustness:
    """Whatever stands in a field, there is a list of faults and no other error."""

    @pytest.mark.parametrize("what", GOOD)
    def test_the_examples_are_sound(self, what: str) -> None:
        Snapshot(**placed(what, GOOD[what]))

    @pytest.mark.parametrize(("what", "name"), SLOTS)
    def test_a_value_of_any_type_in_a_field(self, what: str, name: str) -> None:
        accepted = []
        for junk in JUNK:
            content = placed(what, attrs.evolve(GOOD[what], **{name: junk}))
            faults = faults_of(content)
            if faults:
                named = (name, *ALSO_BLAMED.get(name, ()))
                assert any(word in fault.path for word in named for fault in faults)
                assert all(len(str(fault).splitlines()) == 1 for fault in faults)
            else:
                accepted.append(junk)
                # Then it is of the kinds that the field declares, all the way down.
                snapshot = Snapshot(**content)
                assert hash(snapshot) == hash(Snapshot(**content))
                assert pickle.loads(pickle.dumps(snapshot)) == snapshot
        assert len({*map(type, accepted)} - {type(None)}) <= MOST_TYPES.get(name, 1)

    @pytest.mark.parametrize("what", GOOD)
    def test_a_value_of_any_type_in_the_place_of_a_whole_value(self, what: str) -> None:
        accepted = [junk for junk in JUNK if not faults_of(placed(what, junk))]
        kind = type(GOOD[what])
        assert all(isinstance(value, kind) or value is None for value in accepted)

    @pytest.mark.parametrize("name", ["nodes", "jobs", "queues", "other_tasks", "now"])
    def test_a_value_of_any_type_in_the_place_of_everything(self, name: str) -> None:
        accepted = []
        for junk in JUNK:
            try:
                Snapshot(**{name: junk})
            except SnapshotError:
                continue
            accepted.append(junk)
        if name == "now":
            assert accepted == [0, 1, -1, 1.5]
        else:
            assert all(
                not value and isinstance(value, str | list | tuple | dict | set)
                for value in accepted
            )


tasks_of_any_kind = st.builds(
    TaskInfo,
    uid=st.sampled_from(["t", "", None]),
    name=st.sampled_from(["w", "w", "w", ""]),
    namespace=st.sampled_from(["default", "default", 5]),
    status=st.sampled_from([*TaskStatus, "Running"]),
    node_name=st.sampled_from([None, None, "n1", "n1", "n2", "", 5]),
    resreq=st.sampled_from([Resource(), Resource(milli_cpu=1), Resource(memory=-1), None]),
    init_resreq=st.sampled_from([None, Resource(), Resource(milli_cpu=1), Resource(memory=NAN)]),
    scoring_request=st.sampled_from([None, None, ScoringRequest(0, 0), ScoringRequest(-1, 0), 3]),
    priority=st.sampled_from([1, 2, None]),
    priority_class_name=st.sampled_from(["", "high", None]),
    creation_time=st.sampled_from([0, 0.5, NAN, HUGE]),
    is_backfill=st.sampled_from([True, False, 0]),
    labels=st.sampled_from([{}, {"a": "b"}, {"a": 1}, None]),
    node_selector=st.sampled_from([{}, {"a": "b"}, {1: "b"}]),
    tolerations=st.sampled_from([(), (Toleration(key="a"),), (Toleration(),), None]),
    host_ports=st.sampled_from([(), (HostPort(port=1),), (HostPort(port=0),)]),
    pod_affinity=st.sampled_from([None, PodAffinity(), 3]),
)
plain_tasks = st.builds(
    TaskInfo,
    uid=st.just("t"),
    name=st.just("w"),
    status=st.sampled_from(TaskStatus),
    node_name=st.sampled_from([None, "n1"]),
    resreq=st.sampled_from([Resource(), Resource(milli_cpu=1), Resource(memory=-1)]),
    init_resreq=st.sampled_from([None, Resource(), Resource(milli_cpu=1)]),
    labels=st.sampled_from([{}, {"a": "b"}]),
    tolerations=st.sampled_from([(), (Toleration(key="a"),)]),
    host_ports=st.sampled_from([(), (HostPort(port=0),)]),
)


class TestSharedValues:
    """Checking values that tasks share only once must change nothing."""

    @given(st.lists(tasks_of_any_kind | plain_tasks, max_size=6))
    @example([task("t", labels={"a": "b"}), task("t", labels={"a": 1})])
    def test_a_task_has_the_same_faults_among_others_as_alone(
        self, several: list[TaskInfo]
    ) -> None:
        several = [
            attrs.evolve(one, uid=f"t{i}") if one.uid == "t" else one
            for i, one in enumerate(several)
        ]
        expected = []
        in_order = job("j", *several).tasks
        seen = set()
        for one in in_order:
            at = f"jobs['default/j'].tasks[{one.uid!r}]"
            for below, message in task_problems(one, {"n1"}):
                expected.append(Fault(f"{at}.{below}", message))
            if one.uid in seen and one.uid is not None:
                message = (
                    f"expected a unique UID, got {one.uid!r}, which is also in jobs['default/j']"
                )
                expected.append(Fault(f"{at}.uid", message))
            seen.add(one.uid)
        assert faults_of({"nodes": [N1], "jobs": [job("j", *several)]}) == tuple(expected)

    @pytest.mark.parametrize(
        "content",
        [
            {},
            {"status": TaskStatus.SUCCEEDED},
            {"status": TaskStatus.RUNNING, "node_name": "n1"},
            {"status": TaskStatus.BOUND, "node_name": "n1"},
            {"status": TaskStatus.BINDING, "node_name": "n1"},
            {"creation_time": 5},
            {"creation_time": 5.5},
            {"resreq": Resource(milli_cpu=5.0, memory=1, scalars={"x": 1})},
            {"init_resreq": Resource(milli_cpu=1)},
            {"scoring_request": ScoringRequest(milli_cpu=0, memory=1)},
            {"labels": {"a": "b"}},
            {"node_selector": {"a": "b"}},
            {"tolerations": [Toleration(key="a"), Toleration(operator=TolerationOperator.EXISTS)]},
            {"tolerations": [Toleration(key="a", effect=TaintEffect.NO_EXECUTE)]},
        ],
    )
    def test_usual_tasks_are_checked_fast(
        self, content: dict[str, object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They do not take the long way, which finds words for what is wrong."""
        Snapshot(**with_task(**content))
        monkeypatch.setattr(validation, "task_problems", None)
        Snapshot(**with_task(**content))
        constraints = {"host_ports": (HostPort(port=1),), "pod_affinity": PodAffinity()}
        tasks = [task(f"{i}", **constraints, **content) for i in range(3)]
        others = [task(f"o{i}", **content) for i in range(3)]
        calls = []

        def counted(one: TaskInfo) -> list[object]:
            calls.append(one)
            return []

        monkeypatch.setattr(validation, "constraint_problems", counted)
        jobs = [
            job(f"j{i}", one, other)
            for i, (one, other) in enumerate(zip(tasks, others, strict=True))
        ]
        Snapshot(nodes=[N1], jobs=jobs)
        assert len(calls) == 1  # who asks for none of it is not asked about
