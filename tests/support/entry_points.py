"""All public functions, constructors and methods, found by reflection, each with a right call."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    default_registry,
    schedule,
)
from batchsched.live import Cluster, NodeAdded, TaskSucceeded
from batchsched.simulation import Easy, Job, Workload, simulate
from batchsched.simulation.sweeps import sweep
from batchsched.tools import CycleRun, FreeNodes, Recorder, plan_moves

_PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

FOR_TESTS = "batchsched.testing"
"""Whose functions are given to Hypothesis, or call tests of the caller's."""
INSIDE_A_CYCLE = (
    "batchsched.action",
    "batchsched.fast",
    "batchsched.plugin",
    "batchsched.trace",
)
"""Modules whose objects exist only inside a cycle, which tells whose plugin or action failed."""
EXEMPT: Mapping[str, str] = {
    "Session": "exists only inside a cycle",
    "Statement": "exists only inside a cycle",
    "AttachedScheduler": "made by Scheduler.attach",
    "View": "made by the simulator",
    "Profile": "made by View.profile",
    "Metrics": "made by Run.metrics",
    "Run": "made by simulate",
    "SweepTable": "made by sweep",
    "QueueOutcomes": "a mapping, made by a cycle",
    "ClusterMachine": "Hypothesis runs it",
    "plugin_error": "makes the error of a plugin that raised",
    "problem_of": "describes an exception that was raised",
    **dict.fromkeys(
        ("Cheapest", "CycleComparison", "Explanation", "RunComparison", "WhatIf"),
        "an answer of a tool",
    ),
}
METHODS: Mapping[str, tuple[str, ...]] = {
    "Arguments": ("integer", "number", "boolean", "text", "choice", "ascending", "is_given"),
    "AttachedScheduler": ("schedule",),
    "Cluster": ("apply", "carry_out"),
    "CycleResult": ("from_dict", "outcome", "why"),
    "EventLog": ("from_dict",),
    "JobInfo": ("from_dict",),
    "MovePlan": ("apply", "from_dict"),
    "NodeAdded": ("from_dict",),
    "Record": ("from_dict",),
    "Recorder": ("apply",),
    "Registry": ("register_plugin", "register_action", "plugin_factory", "action_factory"),
    "Run": ("metrics", "series", "shares", "compare", "why", "tie_sensitivity"),
    "Scheduler": ("schedule", "open", "attach"),
    "SchedulerConfig": ("from_mapping", "from_dict"),
    "Snapshot": ("from_dict", "job", "task", "node", "queue"),
    "SweepTable": ("values", "paired"),
    "TaskInfo": ("from_dict",),
    "Workload": (
        "between", "column", "first", "from_columns", "on", "where", "with_load", "with_requests",
    ),
}  # fmt: skip
"""Methods that check what they are given. Those of plain data, in hot loops, do not."""


@attrs.frozen
class EntryPoint:
    """Something public that can be called, and what a right call gives it."""

    name: str
    make: Callable[[], tuple[Callable[..., object], dict[str, Any]]]
    """Makes what is called, and its arguments by name; anew, as a call may change things."""

    def call(self, function: Callable[..., object], arguments: Mapping[str, Any]) -> object:
        """Call it with arguments by name, whatever the kinds of its parameters."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        try:
            parameters = inspect.signature(function).parameters
        except ValueError:
            return function(**arguments)
        for name, value in arguments.items():
            kind = parameters[name].kind
            if (
                kind is inspect.Parameter.VAR_POSITIONAL
                or kind is inspect.Parameter.POSITIONAL_ONLY
            ):
                positional.append(value)
            else:
                named[name] = value
        if positional and any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
            first = [n for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
            positional = [named.pop(name) for name in first if name in named] + positional
        return function(*positional, **named)


def public_modules() -> Iterator[ModuleType]:
    """Yield the public modules, as `pyproject.toml` lists them."""
    project = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))
    for name in project["tool"]["batchsched"]["public-modules"]:
        yield importlib.import_module(name)


ONE = Resource(milli_cpu=1000)


def snapshot() -> Snapshot:
    """A cluster with two nodes, a job that runs and one that can start."""
    running = TaskInfo(uid="r", name="r", resreq=ONE, status=TaskStatus.RUNNING, node_name="n1")
    waiting = TaskInfo(uid="w", name="w", resreq=ONE)
    return Snapshot(
        nodes=[NodeInfo(name=name, allocatable=ONE) for name in ("n1", "n2")],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(name="running", queue="q", tasks=[running]),
            JobInfo(name="waiting", queue="q", tasks=[waiting]),
        ],
        now=5.0,
    )


def workload() -> Workload:
    """Three jobs on four processors."""
    jobs = [
        Job(id=1, submit=0, run=10, processors=3, requested=20, user=1, queue="q"),
        Job(id=2, submit=1, run=10, processors=4, requested=10, user=2, queue="q"),
        Job(id=3, submit=700_000, run=5, processors=1, requested=6, user=1, queue="q"),
    ]
    return Workload(jobs).on(nodes=4)


CONFIG: dict[str, Any] = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}


def _recorder() -> Recorder:
    recorder = Recorder(snapshot())
    recorder.apply(TaskSucceeded("r"))
    recorder.cycle()
    return recorder


def _evicting() -> Recorder:
    cluster = snapshot()
    jobs = [cluster.jobs[0], attrs.evolve(cluster.jobs[1], priority=9)]
    full = attrs.evolve(cluster, nodes=cluster.nodes[:1], jobs=jobs)
    recorder = Recorder(full, SchedulerConfig.from_mapping({"actions": "preempt"}))
    recorder.cycle()
    return recorder


def _row(**content: str) -> dict[str, str]:
    return content


def _arguments() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return functions that make the arguments of right calls, where types alone say too little."""

    def decided() -> dict[str, Any]:
        given = snapshot()
        return {"result": schedule(given), "snapshot": given}

    def objects() -> dict[str, Any]:
        node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}}
        queue = {"metadata": {"name": "q"}, "spec": {"weight": 1}}
        spec = {"schedulerName": "kube-batch", "containers": [{}]}
        pod = {"metadata": {"name": "p", "namespace": "team"}, "spec": spec}
        group = {"metadata": {"name": "g", "namespace": "team"}, "spec": {"minMember": 1}}
        return {
            "nodes": [node], "pods": [pod], "pod_groups": [group], "queues": [queue],
            "priority_classes": [{"metadata": {"name": "high"}, "value": 5}],
            "namespaces": [{"metadata": {"name": "team"}}],
            "jobs": [{"metadata": {"name": "j", "namespace": "team"}, "spec": {}}],
        }  # fmt: skip

    return {
        "ActionOption": lambda: {"name": "allocate", "arguments": {"unready": "hold"}},
        "Arguments": lambda: {"given": {"weight": "3"}},
        "Arguments.choice": lambda: {"name": "x", "choices": ("a",), "default": "a"},
        "Cluster": lambda: {"snapshot": snapshot()},
        "Cluster.apply": lambda: {"events": NodeAdded(NodeInfo(name="n9"))},
        "Cluster.carry_out": lambda: {
            "cycle": schedule(snapshot()), "not_started": ["w"], "at_once": True,
        },
        "CycleResult.from_dict": lambda: {"given": schedule(snapshot()).to_dict()},
        "CycleResult.outcome": lambda: {"task_uid": "w"},
        "EventLog.from_dict": lambda: {
            "given": {"format": "batchsched.EventLog", "version": 1, "events": []}
        },
        "Record.from_dict": lambda: {"given": _recorder().record.to_dict()},
        "DeviceRequest": lambda: {"name": "r"},
        "EvictionReport": lambda: {"action": "preempt", "nodes": 1, "candidates": 0},
        "Reconciler": lambda: {"cluster": Cluster(snapshot()), "give_up_after": 5.0},
        "Recorder": lambda: {"snapshot": snapshot()},
        "Recorder.apply": lambda: {"events": NodeAdded(NodeInfo(name="n9"))},
        "Registry.register_action": lambda: {"name": "mine", "factory": lambda _: None},
        "Registry.register_plugin": lambda: {"name": "mine", "factory": lambda _: None},
        "Run.compare": lambda: {"starts": {1: 0.0, 2: 10}},
        "Run.metrics": lambda: {"queue": "q"},
        "Run.tie_sensitivity": lambda: {"orders": 1, "seed": 1, "metrics": ["bsld"]},
        "Run.why": lambda: {"job": 1},
        "Scheduler": lambda: {"config": SchedulerConfig(), "registry": default_registry()},
        "Scheduler.attach": lambda: {"cluster": Cluster(snapshot())},
        "Scheduler.open": lambda: {"snapshot": snapshot()},
        "Scheduler.schedule": lambda: {"snapshot": snapshot()},
        "SchedulerConfig.from_dict": lambda: {"given": SchedulerConfig().to_dict()},
        "SchedulerConfig.from_mapping": lambda: {"mapping": dict(CONFIG)},
        "JobInfo.from_dict": lambda: {"given": snapshot().jobs[0].to_dict()},
        "NodeAdded.from_dict": lambda: {"given": NodeAdded(NodeInfo(name="n9")).to_dict()},
        "TaskInfo.from_dict": lambda: {"given": snapshot().jobs[0].tasks[0].to_dict()},
        "Snapshot.from_dict": lambda: {"given": snapshot().to_dict()},
        "Snapshot": lambda: {
            name: getattr(snapshot(), name) for name in ("nodes", "jobs", "queues", "now")
        },
        "Snapshot.job": lambda: {"uid": "default/waiting"},
        "Snapshot.task": lambda: {"uid": "w"},
        "Snapshot.node": lambda: {"name": "n1"},
        "Snapshot.queue": lambda: {"name": "q"},
        "SweepTable.paired": lambda: {"metric": "bsld", "baseline": "a"},
        "SweepTable.values": lambda: {"metric": "bsld", "policy": "a"},
        "Ties": lambda: {"seed": 1},
        "Version": lambda: {"text": "1.2.3"},
        "Workload": lambda: {"jobs": list(workload()), "machine": workload().machine},
        "Workload.between": lambda: {"start": 0, "end": 9},
        "Workload.column": lambda: {"name": "id"},
        "Workload.from_columns": lambda: {
            "columns": {"id": [1, 2], "submit": [0, 5], "run": [3, 6], "processors": [4, 1]},
        },
        "Workload.on": lambda: {"nodes": 4},
        "Workload.where": lambda: {"keeps": lambda job: job.run > 5},
        "Workload.with_requests": lambda: {"request": lambda job: job.run},
        "MovePlan.from_dict": lambda: {
            "given": plan_moves(snapshot(), FreeNodes(count=2)).to_dict()
        },
        "MovePlan.apply": lambda: {"snapshot": snapshot()},
        "as_new": lambda: {"task": snapshot().jobs[0].tasks[0]},
        "binding_objects": decided,
        "cheapest": lambda: {
            "snapshot": snapshot(), "goal": lambda result: len(result.binds) > 9,
            "candidates": [NodeAdded(NodeInfo(name="n9")), [CycleRun(1.0)]],
        },
        "check_config": lambda: {"config": SchedulerConfig.from_mapping(CONFIG)},
        "compare": lambda: {
            "before": schedule(snapshot()), "after": schedule(snapshot()), "snapshot": snapshot(),
        },
        "plan_moves": lambda: {
            "snapshot": snapshot(), "goal": FreeNodes(count=1), "cost": lambda _: 1,
        },
        "Fixed": lambda: {"seconds": 1.0},
        "decayed": lambda: {"usage": ONE, "held": ONE, "seconds": 1.0, "half_life": 10.0},
        "describe_changes": lambda: {
            "snapshot": snapshot(), "changes": [NodeAdded(NodeInfo(name="n9")), CycleRun(1.0)],
        },
        "eviction_objects": decided,
        "explain": lambda: {**decided(), "job_or_task": "default/waiting", "try_changes": False},
        "generate": lambda: {"jobs": 3, "nodes": 4, "seed": 1, "users": 2},
        "next_snapshot": lambda: {**decided(), "now": 6.0},
        "node_like": lambda: {
            "node": NodeInfo(name="n1"), "name": "n2", "running": [TaskInfo(uid="t", name="t")],
        },
        "nomination_patches": decided,
        "not_modelled": lambda: {"config": SchedulerConfig.from_mapping(CONFIG)},
        "parse_quantity": lambda: {"quantity": "250m"},
        "plan_patches": decided,
        "read_dump": lambda: {"objects": [{"kind": "Pod", **objects()["pods"][0]}]},
        "read_helios": lambda: {"rows": [_row(
            job_id="a", submit_time="2020-01-01 00:00:00", duration="5", gpu_num="1", vc="v",
            user="u", state="COMPLETED",
        )]},
        "read_muri": lambda: {"rows": [_row(
            duration="5", iteration_time="4", iterations="3", job_id="1", submit_time="0",
            num_gpu="1", model_name="bert",
        )]},
        "read_objects": objects,
        "read_openb": lambda: {"rows": [_row(
            creation_time="1", scheduled_time="", deletion_time="5", name="a", num_gpu="1",
            qos="LS", gpu_milli="1000",
        )]},
        "read_philly": lambda: {"rows": [_row(
            timestamp="2017-10-09 07:01:55", duration="66.0", num_gpus="1", cluster="c",
        )]},
        "read_selector": lambda: {"text": "device.driver == 'd'"},
        "read_swf": lambda: {"lines": ["1 0 -1 3600 56 -1 -1 56 7200 -1 1 7 1 -1 -1 -1 -1 -1"]},
        "explain_eviction": lambda: {"record": _evicting().record, "task_uid": "r"},
        "next_round": lambda: {**decided(), "now": 6.0},
        "replay": lambda: {"record": _recorder().record},
        "resampled_by_users": lambda: {"workload": workload(), "seed": 1, "users": 2},
        "resampled_by_weeks": lambda: {"workload": workload(), "seed": 1, "weeks": 2},
        "reservation_patches": decided,
        "reservations_to_keep": decided,
        "schedule": lambda: {"snapshot": snapshot()},
        "shrink": lambda: {"snapshot": snapshot(), "holds": lambda given: bool(given.jobs)},
        "Simulation": lambda: {"workload": workload(), "policy": Easy()},
        "simulate": lambda: {"workload": workload(), "policy": Easy()},
        "snapshot_from_objects": objects,
        "standings": decided,
        "starts": lambda: {"snapshot": snapshot(), "uid": "default/waiting"},
        "submitted_objects": lambda: {"objects": [{"kind": "Pod", **objects()["pods"][0]}]},
        "sum_resources": lambda: {"resources": [ONE, ONE]},
        "sweep": lambda: {"policies": {"a": Easy()}, "variants": {"x": workload()}},
        "what_if": lambda: {"snapshot": snapshot(), "changes": NodeAdded(NodeInfo(name="n9"))},
    }  # fmt: skip


def _owner(kind: str) -> object:
    """Return an object whose methods are called."""
    if kind == "AttachedScheduler":
        return Scheduler().attach(Cluster(snapshot()))
    if kind == "Cluster":
        return Cluster(snapshot())
    if kind == "CycleResult":
        return schedule(snapshot())
    if kind == "MovePlan":
        return plan_moves(snapshot(), FreeNodes(count=1))
    if kind == "Recorder":
        return Recorder(snapshot())
    if kind == "Registry":
        return default_registry()
    if kind == "Run":
        return simulate(workload(), Easy())
    if kind == "Scheduler":
        return Scheduler()
    if kind == "Snapshot":
        return snapshot()
    if kind == "SweepTable":
        return sweep(workload(), policies={"a": Easy(), "b": Easy()})
    if kind == "Workload":
        return workload()
    raise LookupError(f"no object of {kind}")


def example(annotation: object) -> Any:
    """Return a right value of a declared type."""
    plain: dict[object, Any] = {str: "x", int: 1, float: 1.0, bool: False, object: "x"}
    if annotation in plain:
        return plain[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if type(None) in arguments or annotation is type(None):
        return None
    if origin is Literal:
        return arguments[0]
    if isinstance(origin, type):
        if issubclass(origin, Mapping):
            return {}
        if issubclass(origin, Callable):  # type: ignore[arg-type]
            return lambda *_: None
        if origin is tuple and Ellipsis not in arguments:
            return tuple(map(example, arguments))
        return ()
    if arguments:
        return example(arguments[0])
    if isinstance(annotation, type):
        if issubclass(annotation, Enum):
            return next(iter(annotation))
        if annotation is Workload:
            return workload()
        if annotation.__name__ == "Policy":
            return Easy()
        if annotation is Snapshot:
            return snapshot()
        if attrs.has(annotation):
            return annotation(**_by_type(annotation))
        if getattr(annotation, "_is_protocol", False):
            return Easy().predictor
    raise LookupError(f"no right value of {annotation}")


def _by_type(function: Callable[..., object]) -> dict[str, Any]:
    """Return right values for the parameters that need one."""
    of = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    hints = get_type_hints(of)
    return {
        name: example(hints.get(name, object))
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
    }


def _is_left_out(value: object) -> bool:
    if not callable(value) or get_origin(value) is not None:
        return True
    if not isinstance(value, type):
        return False
    return (
        issubclass(value, (BaseException, Enum))
        or getattr(value, "_is_protocol", False)
        or inspect.isabstract(value)
    )


def entry_points() -> Iterator[EntryPoint]:
    """Yield each public function, constructor and method once, with a right call."""
    arguments = _arguments()
    seen: set[int] = set()
    for module in public_modules():
        if module.__name__ in INSIDE_A_CYCLE or module.__name__ == FOR_TESTS:
            continue
        for name in module.__all__:
            value = getattr(module, name)
            if id(value) in seen:
                continue
            seen.add(id(value))
            for method in METHODS.get(name, ()):
                yield _method(f"{name}.{method}", value, method, arguments)
            if _is_left_out(value) or name in EXEMPT:
                continue
            make = arguments.get(name)
            yield EntryPoint(name, _made(value, make))


def _made(
    value: Callable[..., object], make: Callable[[], dict[str, Any]] | None
) -> Callable[[], tuple[Callable[..., object], dict[str, Any]]]:
    return lambda: (value, _by_type(value) if make is None else make())


def _method(
    name: str, kind: type, method: str, arguments: Mapping[str, Callable[[], dict[str, Any]]]
) -> EntryPoint:
    def made() -> tuple[Callable[..., object], dict[str, Any]]:
        if isinstance(inspect.getattr_static(kind, method), classmethod):
            function = getattr(kind, method)
        elif kind.__name__ == "Arguments":
            function = getattr(kind({"weight": "3"}), method)
        else:
            function = getattr(_owner(kind.__name__), method)
        make = arguments.get(name)
        return function, _by_type(function) if make is None else make()

    return EntryPoint(name, made)
