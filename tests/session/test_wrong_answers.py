"""Plugins and actions that fail or answer nonsense: who is named, and that nothing is decided."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from attrs import evolve, frozen

from batchsched import (
    ActionError,
    Arguments,
    ConfigError,
    InvariantError,
    JobInfo,
    NodeInfo,
    PluginError,
    Queue,
    Registry,
    Resource,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    TaskInfo,
    TaskStatus,
    default_registry,
)
from batchsched.plugin import NodeScore, Predicate, Reads, ScoreHints

CPU = Resource(milli_cpu=1000)


def snapshot() -> Snapshot:
    """One node, full of a job that can spare a task; a more important task waits."""
    running = [
        TaskInfo(uid=u, name=u, resreq=CPU, status=TaskStatus.RUNNING, node_name="n")
        for u in ("r1", "r2")
    ]
    return Snapshot(
        nodes=[NodeInfo(name="n", allocatable=Resource(milli_cpu=2000, memory=1))],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(name="r", queue="q", tasks=running),
            JobInfo(
                name="j", queue="q", priority=5, tasks=[TaskInfo(uid="a", name="a", resreq=CPU)]
            ),
        ],
    )


@frozen
class Opens:
    """A plugin that opens with an object made anew."""

    make: Callable[[], object]

    def open(self, _view: object, /) -> object:
        return self.make()


def registry_with(opened: Callable[[], object]) -> Registry:
    registry = default_registry()
    registry.register_plugin("mine", lambda _: Opens(opened))
    return registry


def schedule(opened: Callable[[], object], actions: str = "allocate", free: bool = True) -> None:
    registry = registry_with(opened)
    plugins = ["priority", "gang", "mine", "predicates", "nodeorder"]
    config = SchedulerConfig.from_mapping(
        {"actions": actions, "tiers": [{"plugins": plugins}]}, registry=registry
    )
    given = snapshot()
    if free:
        given = Snapshot(nodes=given.nodes, queues=given.queues, jobs=[given.jobs[0]])
    Scheduler(config, registry).schedule(given)


def test_a_listener_that_fails_within_a_statement_is_named() -> None:
    class Failing:
        def on_allocate(self, _task: object) -> None:
            raise ValueError("boom")

        def on_deallocate(self, _task: object) -> None:
            pass

    with pytest.raises(PluginError, match="'mine', on_allocate: ValueError: boom"):
        schedule(Failing, "preempt", free=False)


@pytest.mark.parametrize("reads", Reads)
@pytest.mark.parametrize("answer", [None, "5", float("nan"), float("inf")])
def test_a_score_that_is_no_number_is_refused_and_its_plugin_named(
    reads: Reads, answer: object
) -> None:
    class Scoring:
        def node_scores(self) -> list[NodeScore]:
            return [NodeScore(score=lambda _t, _n: answer, reads=reads)]  # type: ignore[arg-type, return-value]

    with pytest.raises(PluginError, match="'mine', node_scores"):
        schedule(Scoring)


def test_scores_of_too_few_nodes_are_refused_and_their_plugin_named() -> None:
    class Scoring:
        def node_scores(self) -> list[NodeScore]:
            return [
                NodeScore(
                    score=lambda _t, _n: 1,
                    reads=Reads.NODE,
                    hints=ScoreHints(specialise=lambda _t: lambda _n: []),
                )
            ]

    with pytest.raises(PluginError, match="'mine', node_scores: ValueError: expected 1 scores"):
        schedule(Scoring)


@pytest.mark.parametrize("reads", Reads)
@pytest.mark.parametrize("answer", [False, True, "no"])
def test_a_refusal_that_is_no_unfit_is_refused_and_its_plugin_named(
    reads: Reads, answer: object
) -> None:
    class Refusing:
        def predicates(self) -> list[Predicate]:
            return [Predicate(check=lambda _t, _n: answer, reads=reads)]  # type: ignore[arg-type, return-value]

    with pytest.raises(PluginError, match="'mine', predicates"):
        schedule(Refusing)


@pytest.mark.parametrize("answer", [False, "no"])
def test_a_job_condition_that_is_none_is_refused_and_its_plugin_named(answer: object) -> None:
    class Refusing:
        def job_valid(self, _job: object) -> object:
            return answer

    class Closing:
        def __init__(self, job: object = None) -> None:
            self.job = job

        def job_order_key(self, job: object) -> int:
            self.job = job
            return 0

        def close(self) -> list[tuple[object, object]]:
            return [(self.job, answer)]

    with pytest.raises(
        PluginError, match=(f"'mine', job_valid: expected a JobCondition, got {answer!r}$")
    ):
        schedule(Refusing)
    with pytest.raises(
        PluginError, match=(f"'mine', close: expected a JobCondition, got {answer!r}$")
    ):
        schedule(Closing)


def test_a_key_that_cannot_be_hashed_is_refused_and_its_plugin_named() -> None:
    class Refusing:
        def predicates(self) -> list[Predicate]:
            return [
                Predicate(
                    check=lambda _t, _n: None,
                    reads=Reads.NODE,
                    signature=lambda _t: [],  # type: ignore[arg-type, return-value]
                )
            ]

    with pytest.raises(PluginError, match="'mine', predicates: TypeError"):
        schedule(Refusing)


def test_a_factory_that_fails_is_a_fault_of_the_configuration_beside_all_others() -> None:
    def failing(arguments: Arguments) -> Opens:
        raise ValueError(arguments.text("x", default="boom"))

    registry = default_registry()
    registry.register_plugin("mine", failing)
    given = {"actions": "allocte", "tiers": [{"plugins": ["mine", "drff"]}]}
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_mapping(given, registry=registry)
    assert [fault.path for fault in caught.value.faults] == [
        "actions[0]",
        "tiers[0].plugins[0]",
        "tiers[0].plugins[1]",
    ]
    assert "plugin 'mine' cannot be created from its arguments: ValueError: boom" in str(
        caught.value
    )


def test_faults_keep_their_places_when_other_entries_are_left_out() -> None:
    given = {
        "actions": [{"nam": "x"}, {"name": "allocate", "arguments": {"unredy": 1}}],
        "tiers": [{"plugins": [{}, {"name": "gang", "arguments": {"x": 1}}]}],
    }
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_mapping(given)
    paths = [fault.path for fault in caught.value.faults]
    assert "actions[1].arguments['unredy']" in paths
    assert "tiers[0].plugins[1].arguments['x']" in paths


def test_unknown_names_are_told_together_with_other_faults() -> None:
    with pytest.raises(ConfigError) as caught:
        SchedulerConfig.from_mapping(
            {"actions": "allocte", "tiers": [{"plugins": [{"name": "gang", "enableX": 1}]}]}
        )
    assert len(caught.value.faults) == 2


@frozen
class Does:
    """An action that does what it is given."""

    what: Callable[[Session], None]

    def execute(self, session: Session, /) -> None:
        self.what(session)


def run(what: Callable[[Session], None]) -> None:
    registry = default_registry()
    registry.register_action("mine", lambda _: Does(what))
    config = SchedulerConfig.from_mapping({"actions": "mine, allocate"}, registry=registry)
    Scheduler(config, registry).schedule(snapshot())


def test_an_action_that_leaves_a_statement_open_is_named() -> None:
    with pytest.raises(
        ActionError, match="'mine': expected every statement to be committed or discarded"
    ):
        run(lambda session: len(session.statement()) and None)


def test_books_that_are_broken_decide_nothing_even_if_the_error_is_caught() -> None:
    def overfill(session: Session) -> None:
        with pytest.raises(InvariantError):
            session.allocate(session.task("a"), session.node("n"))

    with pytest.raises(InvariantError, match="overcommits <node n>: idle"):
        run(overfill)


@pytest.mark.parametrize("weight", ["2", None, float("nan"), float("inf"), True])
def test_a_weight_that_is_no_finite_number_is_refused_and_its_plugin_named(weight: object) -> None:
    class Weighing:
        def node_scores(self) -> list[NodeScore]:
            return [NodeScore(score=lambda _t, _n: 1.0, weight=weight)]  # type: ignore[arg-type]

    with pytest.raises(PluginError, match="'mine', node_scores: expected a finite number"):
        schedule(Weighing)


def test_a_score_of_another_kind_of_number_is_refused_and_its_plugin_named() -> None:
    class Scoring:
        def node_scores(self) -> list[NodeScore]:
            return [NodeScore(score=lambda _t, _n: Decimal(1))]  # type: ignore[arg-type, return-value]

    with pytest.raises(PluginError, match="'mine', node_scores: TypeError"):
        schedule(Scoring)


@pytest.mark.parametrize("answer", [Decimal(1), "1", None, float("nan")])
def test_a_resource_score_that_is_no_number_is_refused_and_its_plugin_named(answer: object) -> None:
    class Ranking:
        def node_order_on_resource(self, _task: object, _node: object) -> object:
            return answer

    registry = registry_with(Ranking)
    action = {"name": "reserve", "arguments": {"starvingJobTimeThreshold": 0}}
    config = SchedulerConfig.from_mapping(
        {"actions": [action], "tiers": [{"plugins": ["gang", "mine", "nodeorder"]}]},
        registry=registry,
    )
    with pytest.raises(PluginError, match="'mine', node_order_on_resource"):
        Scheduler(config, registry).schedule(evolve(snapshot(), now=100.0))


def test_an_engine_that_cannot_be_made_is_a_fault_of_the_configuration() -> None:
    def failing(_ledger: object, _evaluator: object) -> Any:
        raise ValueError("boom")

    with pytest.raises(
        ConfigError,
        match="placement: expected it to create a placement engine, but it raised ValueError: boom",
    ):
        Scheduler(placement=failing).schedule(snapshot())


def problem(name: str, function: Callable[..., object], *others: str) -> str:
    """Return the error of a cycle with a plugin that has one extension point."""
    plugin = type("Opened", (), {name: staticmethod(function)})
    registry = registry_with(plugin)
    plugins = ["priority", "gang", "mine", "predicates", "nodeorder", *others]
    config = SchedulerConfig.from_mapping(
        {"actions": "reclaim, allocate", "tiers": [{"plugins": plugins}]}, registry=registry
    )
    given = snapshot()
    given = evolve(
        given,
        queues=[*given.queues, Queue(name="p")],
        jobs=[given.jobs[0], evolve(given.jobs[1], queue="p")],
    )
    with pytest.raises(PluginError) as caught:
        Scheduler(config, registry).schedule(given)
    assert caught.value.extension_point == name
    start = f"plugin 'mine', {name}: "
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


@pytest.mark.parametrize("answer", [True, None])
def test_a_claim_that_is_none_is_refused(answer: object) -> None:
    expected = f"expected a Claim or Unfit, got {answer}"
    assert problem("claim", lambda _need, _terms: answer) == expected


def test_outcomes_of_queues_that_are_none_are_refused() -> None:
    expected = "expected a mapping of the names of queues to QueueOutcomes, got 3"
    assert problem("queue_outcomes", lambda _key: 3) == expected
    expected = "expected a QueueOutcome for queue 'q', got 3"
    assert problem("queue_outcomes", lambda _key: {"q": 3}) == expected
    assert problem("queue_outcomes", lambda _key: {3: 3}) == "expected the name of a queue, got 3"


@pytest.mark.parametrize("answer", ["no", None, 2])
def test_an_answer_on_overuse_that_is_no_bool_is_refused(answer: object) -> None:
    assert problem("overused", lambda _queue: answer) == f"expected a bool, got {answer!r}"


@pytest.mark.parametrize("answer", [4, [1], [1, -1], [1, "2"]])
def test_weights_that_are_none_are_those_of_the_plugin_that_gave_them(answer: object) -> None:
    expected = f"expected 2 integers, 0 or more, one for each queue, got {answer}"
    assert problem("surplus_weights", lambda _queues, _: answer, "capacity") == expected


@pytest.mark.parametrize("answer", ["much", None, float("nan")])
def test_past_use_that_is_no_number_is_that_of_the_plugin_that_gave_it(answer: object) -> None:
    expected = f"expected a number, got {answer!r}"
    assert problem("past_use_key", lambda _queue, _need: answer, "capacity") == expected


def test_an_exception_of_a_plugin_that_another_one_asks_is_told_once() -> None:
    failed = "ZeroDivisionError: division by zero"
    assert problem("past_use_key", lambda _queue, _need: 1 / 0, "capacity") == failed


@pytest.mark.parametrize("point", ["job_order_key", "queue_order_key", "task_order_key"])
def test_a_key_that_is_not_a_number_has_no_order(point: str) -> None:
    nan = float("nan")
    assert problem(point, lambda _item: nan) == "expected a key that can be ordered, got nan"


def test_a_need_key_that_is_not_a_number_has_no_order() -> None:
    answer = problem("need_order_key", lambda _need: float("nan"), "capacity")
    assert answer == "expected a key that can be ordered, got nan"


@pytest.mark.parametrize("answer", [(1,), 5])
def test_a_share_that_is_none_is_refused(answer: object) -> None:
    class Sharing:
        def overused(self, _queue: object) -> bool:
            return True

        def queue_share(self, _queue: object) -> object:
            return answer

    with pytest.raises(PluginError) as caught:
        schedule(Sharing, free=False)
    assert caught.value.problem == (
        f"expected what the queue deserves and what it has, or None, got {answer}"
    )


@pytest.mark.parametrize("reads", Reads)
def test_the_error_of_a_score_that_is_text_says_so(reads: Reads) -> None:
    class Scoring:
        def node_scores(self) -> list[NodeScore]:
            return [NodeScore(score=lambda _t, _n: "a", reads=reads)]  # type: ignore[arg-type, return-value]

    with pytest.raises(PluginError, match="node_scores: TypeError: expected a finite number, got"):
        schedule(Scoring)


def test_what_is_no_predicate_is_shown_by_its_name() -> None:
    def refuses(_task: object, _node: object) -> None:
        pass

    said = problem("predicates", lambda: [refuses])
    assert said.startswith("expected a Predicate, got <function ")
    assert said.endswith("refuses>")
