"""PluginSet: what several plugins together say, and bad plugins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.books import Named, Opens, Saying, configured, opened
from tests.support.clusters import cluster, job, node

from batchsched import (
    ActionOption,
    ConditionReason,
    JobCondition,
    PluginError,
    PluginOption,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Tier,
    Unfit,
    UnfitReason,
    default_registry,
)
from batchsched.plugin import (
    JobState,
    NodeScore,
    Predicate,
    PredicateHints,
    ScoreHints,
    SessionView,
    TaskState,
    Verdict,
    Vote,
)
from batchsched.session.plugins import PluginSet
from batchsched.session.points import POINTS as ALL_POINTS
from batchsched.session.points import ConfiguredPlugin
from batchsched.state.ledger import Ledger

V, P, X = Verdict.VICTIM, Verdict.PASS, Verdict.PROTECTED


def tiers_of(*tiers: Sequence[Named], snapshot: Snapshot | None = None) -> tuple[Any, Any]:
    session = opened(snapshot or SMALL, *tiers)
    return session.plugins, session.ledger


SMALL = cluster([node("n1", "4C4G")], job("j", "1C1G", "1C1G@n1", "1C1G@n1", "1C1G@n1"))


def saying(**answers: object) -> Saying:
    """A plugin's object that always gives the same answers."""
    return Saying(**{name: (lambda *_, a=answer: a) for name, answer in answers.items()})


# Votes


def expected_election(tiers: Sequence[Sequence[Vote]]) -> bool:
    for tier in tiers:
        if Vote.REJECT in tier:
            return False
        if Vote.PERMIT in tier:
            return True
    return True


@pytest.mark.parametrize("point", ["job_ready", "job_pipelined", "job_condition_ready"])
def test_votes_count_tier_by_tier_a_rejection_before_a_permit(point: str) -> None:
    for votes in product(Vote, repeat=4):
        plugins = [(f"p{i}", saying(**{point: vote})) for i, vote in enumerate(votes)]
        for split in range(5):
            parts = [plugins[:split], plugins[split:]]
            tiers, ledger = tiers_of(*parts)
            ask: Callable[[JobState], bool] = getattr(tiers, point)
            expected = expected_election([votes[:split], votes[split:]])
            assert ask(ledger.jobs["default/j"]) is expected, (votes, split)


@pytest.mark.parametrize("point", ["job_ready", "job_pipelined", "job_condition_ready"])
def test_true_permits_and_false_rejects(point: str) -> None:
    for answer in (True, False):
        tiers, ledger = tiers_of([("a", saying(**{point: answer}))])
        assert getattr(tiers, point)(ledger.jobs["default/j"]) is answer


@pytest.mark.parametrize("point", ["job_ready", "job_pipelined", "job_condition_ready"])
def test_without_votes_the_answer_is_true(point: str) -> None:
    tiers, ledger = tiers_of([("a", saying(overused=False))])
    assert getattr(tiers, point)(ledger.jobs["default/j"]) is True


def test_after_a_permit_later_tiers_are_not_asked() -> None:
    def fail(_: object) -> bool:
        raise AssertionError("asked")

    tiers, ledger = tiers_of([("a", saying(job_ready=True))], [("b", Saying(job_ready=fail))])
    assert tiers.job_ready(ledger.jobs["default/j"])


@pytest.mark.parametrize("answer", [None, 1, 0, "permit"])
def test_what_is_no_vote_is_an_error(answer: object) -> None:
    tiers, ledger = tiers_of([("odd", saying(job_ready=answer))])
    with pytest.raises(PluginError, match="expected a Vote or a bool, got") as caught:
        tiers.job_ready(ledger.jobs["default/j"])
    assert (caught.value.plugin, caught.value.extension_point) == ("odd", "job_ready")


# Verdicts

VERDICTS = st.lists(
    st.lists(st.lists(st.sampled_from([V, P, X]), min_size=3, max_size=3), max_size=3),
    max_size=4,
)


def expected_victims(tiers: list[list[list[Verdict]]]) -> list[int]:
    safe = {
        position
        for tier in tiers
        for verdicts in tier
        for position in range(3)
        if verdicts[position] is X
    }
    for tier in tiers:
        if not tier:
            continue
        chosen = [
            position
            for position in range(3)
            if position not in safe and all(verdicts[position] is V for verdicts in tier)
        ]
        if chosen:
            return chosen
    return []


@given(VERDICTS, st.sampled_from(["preemptable", "reclaimable"]))
def test_protected_anywhere_is_out_and_the_first_tier_with_victims_decides(
    answers: list[list[list[Verdict]]], point: str
) -> None:
    asked: dict[str, list[list[str]]] = {}

    def answering(name: str, verdicts: list[Verdict]) -> Saying:
        def answer(claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
            assert claimant.uid == "j-1"
            uids = [candidate.uid for candidate in candidates]
            assert uids == sorted(uids)
            asked.setdefault(name, []).append(uids)
            return [verdicts[int(uid[-1]) - 2] for uid in uids]

        return Saying(**{point: answer})

    names = [[f"p{t}.{p}" for p in range(len(tier))] for t, tier in enumerate(answers)]
    tiers, ledger = tiers_of(
        *(
            [(name, answering(name, verdicts)) for name, verdicts in zip(of, tier, strict=True)]
            for of, tier in zip(names, answers, strict=True)
        )
    )
    candidates = [ledger.tasks[uid] for uid in ("j-2", "j-3", "j-4")]
    victims = tiers.judges[point].victims(ledger.tasks["j-1"], candidates)
    assert [candidates.index(victim) for victim in victims.alone] == expected_victims(answers)
    assert list(victims.alone) == sorted(victims.alone, key=candidates.index)
    assert not victims.whole_jobs
    # First about each alone, then about those together whom nobody protects.
    unprotected = [
        f"j-{position + 2}"
        for position in range(3)
        if not any(verdicts[position] is X for tier in answers for verdicts in tier)
    ]
    for questions in asked.values():
        alone = questions[:-1] if unprotected else questions
        assert all(len(uids) == 1 for uids in alone)
        if unprotected:
            assert questions[-1] == unprotected


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([[[V, V, V]]], [0, 1, 2]),
        ([[[P, V, V]], [[V, V, X]]], [1]),  # protected by the second tier
        ([[[P, P, P]], [[V, P, V]]], [0, 2]),  # nobody in the first
        ([[[V, P, P], [P, V, P]], [[P, P, V]]], [2]),  # a tier must agree
        ([[[X, X, X]], [[V, V, V]]], []),
        ([[[P, P, P]]], []),
        ([], []),
    ],
)
def test_verdicts_by_example(tiers: list[list[list[Verdict]]], expected: list[int]) -> None:
    assert expected_victims(tiers) == expected
    compiled, ledger = tiers_of(
        *([(f"p{t}.{p}", by_task(v)) for p, v in enumerate(tier)] for t, tier in enumerate(tiers))
    )
    candidates = [ledger.tasks[uid] for uid in ("j-2", "j-3", "j-4")]
    victims = compiled.judges["preemptable"].victims(ledger.tasks["j-1"], candidates)
    assert [candidates.index(victim) for victim in victims.alone] == expected


def by_task(verdicts: Sequence[Verdict]) -> Saying:
    """A plugin's object that has a verdict for each of the tasks j-2, j-3 and j-4."""
    return Saying(
        preemptable=lambda _, candidates: [verdicts[int(c.uid[-1]) - 2] for c in candidates]
    )


@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([], "expected one verdict for each of 1 candidates, got 0"),
        ([V, V, V], "expected one verdict for each of 1 candidates, got 3"),
        ([True], "expected a Verdict, got True"),
        (["victim"], "expected a Verdict, got 'victim'"),
    ],
)
def test_wrong_verdicts_are_an_error(point: str, answer: list[object], problem: str) -> None:
    tiers, ledger = tiers_of(
        [("fine", saying(**{point: [V]}))], [("odd", saying(**{point: answer}))]
    )
    candidates = [ledger.tasks["j-2"]]
    with pytest.raises(PluginError) as caught:
        tiers.judges[point].victims(ledger.tasks["j-1"], candidates)
    assert caught.value.plugin == "odd"
    assert caught.value.extension_point == point
    assert caught.value.problem == problem


@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
def test_an_answer_that_is_no_list_of_verdicts_is_an_error(point: str) -> None:
    tiers, ledger = tiers_of([("odd", saying(**{point: None}))])
    with pytest.raises(PluginError, match=f"plugin 'odd', {point}: "):
        tiers.judges[point].victims(ledger.tasks["j-1"], [ledger.tasks["j-2"]])


# Orders


def test_orders_go_by_tier_and_plugin_then_creation_time_then_uid() -> None:
    snapshot = cluster([], job("a", "1C1G"), job("b", "1C1G"), job("c", "1C1G"))
    first = Saying(job_order_key=lambda of: 0, task_order_key=lambda of: 0)
    second = Saying(job_order_key=lambda of: -len(of.uid), task_order_key=lambda of: -1)
    tiers, ledger = tiers_of([("x", first)], [("y", second)], snapshot=snapshot)
    a = ledger.jobs["default/a"]
    assert tiers.job_order_key(a) == (0, -len("default/a"), a.info.creation_time, "default/a")
    task = ledger.tasks["a-1"]
    assert tiers.task_order_key(task) == (0, -1, 0.0, "a-1")


def test_equals_are_ordered_by_creation_time_then_uid_and_a_queues_uid_is_its_name() -> None:
    snapshot = Snapshot(
        queues=[
            Queue(name="b", creation_time=1),
            Queue(name="a", creation_time=2),
            Queue(name="c", creation_time=1),
        ],
        jobs=[
            job("z", "1C1G", queue="a", creation_time=1.0),
            job("y", "1C1G", queue="a", creation_time=2.0),
            job("x", "1C1G", queue="a", creation_time=1.0),
        ],
    )
    tiers, ledger = tiers_of([("x", saying(queue_order_key=0, job_order_key=0))], snapshot=snapshot)
    assert [q.name for q in sorted(ledger.queues.values(), key=tiers.queue_order_key)] == [
        "b",
        "c",
        "a",
    ]
    assert [j.uid for j in sorted(ledger.jobs.values(), key=tiers.job_order_key)] == [
        "default/x",
        "default/z",
        "default/y",
    ]


def test_a_tasks_key_is_made_once() -> None:
    made: list[str] = []
    own = Saying(task_order_key=lambda task: made.append(task.uid) or 0)
    tiers, ledger = tiers_of([("x", own)])
    for _ in range(3):
        tiers.task_order_key(ledger.tasks["j-1"])
    assert made == ["j-1"]


# Others


def test_overused_is_what_any_plugin_says() -> None:
    for answers in product([True, False], repeat=2):
        tiers, ledger = tiers_of(*([(f"p{i}", saying(overused=a))] for i, a in enumerate(answers)))
        assert tiers.overused(ledger.queues["q"]) is any(answers)


def test_the_first_refusal_of_a_job_decides() -> None:
    no = JobCondition(ConditionReason.REFUSED_BY_PLUGIN, "no", plugin="b")
    later = JobCondition(ConditionReason.REFUSED_BY_PLUGIN, "later", plugin="c")
    plugins = [
        [("a", saying(job_valid=None))],
        [("b", saying(job_valid=no)), ("c", saying(job_valid=later))],
    ]
    tiers, ledger = tiers_of(*plugins)
    assert tiers.job_valid(ledger.jobs["default/j"]) == no
    tiers, ledger = tiers_of(plugins[0])
    assert tiers.job_valid(ledger.jobs["default/j"]) is None


def test_scores_of_resources_are_added_up() -> None:
    tiers, ledger = tiers_of(
        [("a", saying(node_order_on_resource=1.5))], [("b", saying(node_order_on_resource=2))]
    )
    assert tiers.node_order_on_resource(ledger.tasks["j-1"], ledger.nodes[0]) == 3.5


def test_the_first_condition_of_a_job_counts_at_close() -> None:
    tiers, ledger = tiers_of([("a", Saying(job_ready=lambda _: True))])
    one = JobCondition(ConditionReason.REFUSED_BY_PLUGIN, "one")
    two = JobCondition(ConditionReason.REFUSED_BY_PLUGIN, "two")
    of = ledger.jobs["default/j"]
    tiers, _ = tiers_of(
        [("a", saying(close=[])), ("b", saying(close=[(of, one)]))],
        [("c", saying(close=[(of, two)]))],
    )
    assert tiers.close() == {"default/j": one}


def test_predicates_and_scores_come_in_configured_order_without_those_of_no_weight() -> None:
    def predicates(name: str) -> list[Predicate]:
        return [Predicate(check=lambda _t, _n: None, signature=lambda _: name)]

    def scores(weight: int) -> list[NodeScore]:
        return [NodeScore(score=lambda _t, _n: 0, weight=weight)]

    tiers, _ = tiers_of(
        [("a", saying(predicates=predicates("a"), node_scores=scores(0)))],
        [("b", saying(predicates=predicates("b"), node_scores=scores(2)))],
    )
    assert [name for name, _ in tiers.predicates] == ["a", "b"]
    assert [(name, score.weight) for name, score in tiers.node_scores] == [("b", 2)]


# Flags

SWITCHED = {
    "enableJobOrder": "job_order_key",
    "enableQueueOrder": "queue_order_key",
    "enableTaskOrder": "task_order_key",
    "enablePredicate": "predicates",
    "enableNodeOrder": "node_scores",
    "enablePreemptable": "preemptable",
    "enableReclaimable": "reclaimable",
    "enableJobReady": "job_ready",
    "enableJobPipelined": "job_pipelined",
}


def _fails(*_: object) -> object:
    raise KeyError("asked")


@pytest.mark.parametrize("flag", SWITCHED)
def test_a_point_that_is_off_is_never_asked(flag: str) -> None:
    registry = default_registry()
    own = Saying(**{SWITCHED[flag]: _fails}, job_valid=lambda _: None)
    registry.register_plugin("own", lambda _: Opens(own))
    results = []
    for is_on in (True, False):
        config = SchedulerConfig(
            actions=[ActionOption(name=name) for name in ("allocate", "preempt", "reclaim")],
            tiers=[Tier(plugins=[PluginOption(name="own", flags={flag: is_on})])],
        )
        snapshot = cluster(
            [node("n1", "2C2G")],
            job("a", "1C1G@n1", "1C1G@n1", minimum=1),
            job("b", "2C1G", minimum=1),
            job("c", "2C1G", queue="r"),
            queues=("q", "r"),
        )
        try:
            results.append(Scheduler(config, registry).schedule(snapshot))
        except PluginError as error:
            results.append((error.plugin, error.extension_point))
    asked, not_asked = results
    assert asked == ("own", SWITCHED[flag])
    assert not isinstance(not_asked, tuple)


# Bad plugins

ACTIVE = cluster(
    [node("n1", "2C2G"), node("n2", "1C1G")],
    job("a", "1C1G@n1", "1C1G@n1", minimum=1),
    job("b", "1C1G", "1C1G", minimum=1),
    job("s", "1C1G", minimum=1, queue="r"),
    queues=("q", "r"),
    now=10_000_000,
)
POINTS = (
    *("job_order_key", "queue_order_key", "task_order_key", "predicates", "node_scores"),
    *("node_order_on_resource", "preemptable", "reclaimable", "overused", "job_valid"),
    *("job_ready", "job_pipelined", "job_condition_ready", "on_allocate", "on_deallocate"),
    "close",
)


def all_actions(own: object) -> object:
    registry = default_registry()
    registry.register_plugin("own", lambda _: Opens(own))
    config = SchedulerConfig(
        actions=[
            ActionOption(name=name)
            for name in ("preempt", "reclaim", "reserve", "allocate", "backfill")
        ],
        tiers=[Tier(plugins=[PluginOption(name="own")])],
    )
    return Scheduler(config, registry).schedule(ACTIVE)


@pytest.mark.parametrize("point", POINTS)
def test_whatever_a_plugin_raises_says_which_plugin_and_where(point: str) -> None:
    own = Saying(**{"on_deallocate": lambda _: None, point: _fails})
    never = {"node_order_on_resource", "job_condition_ready"}
    if point in never:  # only asked where a job is not ready
        for other in {"job_ready", "job_pipelined", "job_condition_ready"} - {point}:
            setattr(own, other, lambda _: False)
    if point == "on_deallocate":
        own.preemptable = lambda _, candidates: [V] * len(candidates)
    with pytest.raises(PluginError) as caught:
        all_actions(own)
    assert caught.value.plugin == "own"
    assert caught.value.extension_point == point
    assert caught.value.problem == "KeyError: 'asked'"
    assert str(caught.value) == f"plugin 'own', {point}: KeyError: 'asked'"
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    "predicate",
    [
        Predicate(check=_fails),
        Predicate(
            check=lambda _t, _n: None,
            hints=PredicateHints(specialise=_fails),
            signature=lambda _: 0,
        ),
        pytest.param(Predicate(check=lambda _t, _n: None, signature=_fails)),
        pytest.param(
            Predicate(
                check=lambda _t, _n: None, hints=PredicateHints(watch=_fails), signature=lambda _: 0
            ),
        ),
    ],
    ids=["check", "specialise", "signature", "watch"],
)
def test_whatever_a_predicate_raises_says_so_too(predicate: Predicate) -> None:
    with pytest.raises(PluginError, match="plugin 'own', predicates: KeyError"):
        all_actions(saying(predicates=[predicate]))


@pytest.mark.parametrize(
    "score",
    [
        NodeScore(score=_fails),
        NodeScore(score=lambda _t, _n: 1, normalise=_fails),
        NodeScore(
            score=lambda _t, _n: 1,
            hints=ScoreHints(specialise=_fails, watch=list),
            signature=lambda _: 0,
        ),
        pytest.param(NodeScore(score=lambda _t, _n: 1, signature=_fails)),
        pytest.param(
            NodeScore(
                score=lambda _t, _n: 1, hints=ScoreHints(watch=_fails), signature=lambda _: 0
            ),
        ),
    ],
    ids=["score", "normalise", "specialise", "signature", "watch"],
)
def test_whatever_a_score_raises_says_so_too(score: NodeScore) -> None:
    with pytest.raises(PluginError, match="plugin 'own', node_scores: KeyError"):
        all_actions(saying(node_scores=[score]))


def test_a_plugin_that_raises_when_it_is_opened_says_so() -> None:
    with pytest.raises(PluginError, match="plugin 'own', open: KeyError: 'asked'"):
        opened(ACTIVE, [("own", _fails)])


def test_an_error_without_words_is_told_by_its_type() -> None:
    def fail(_: object) -> bool:
        raise ZeroDivisionError

    tiers, ledger = tiers_of([("own", Saying(job_ready=fail))])
    with pytest.raises(PluginError) as caught:
        tiers.job_ready(ledger.jobs["default/j"])
    assert caught.value.problem == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("point", "answer", "problem"),
    [
        ("predicates", [lambda task, node: None], "expected a Predicate, got"),
        ("node_scores", [NodeScore(score=_fails), 5], "expected a NodeScore, got 5"),
        ("predicates", None, "TypeError"),
    ],
)
def test_what_is_no_predicate_or_score_is_an_error(
    point: str, answer: object, problem: str
) -> None:
    with pytest.raises(PluginError, match=problem) as caught:
        tiers_of([("own", saying(**{point: answer}))])
    assert (caught.value.plugin, caught.value.extension_point) == ("own", point)


def test_a_method_whose_name_is_nearly_an_extension_points_is_an_error() -> None:
    class Misspelled:
        def job_order_kye(self, job: JobState) -> int:
            return 0

        def job_ready(self, job: JobState) -> bool:
            return True

    with pytest.raises(PluginError) as caught:
        tiers_of([("own", Misspelled())])
    assert str(caught.value) == (
        "plugin 'own', open: unknown extension point 'job_order_kye'; did you mean 'job_order_key'?"
    )


def test_methods_of_other_names_are_nobodys_business() -> None:
    class Helpful:
        def job_ready(self, job: JobState) -> bool:
            return True

        def helper(self) -> None: ...

        def job_order(self) -> None: ...  # like job_order_key, and not like a slip

        def _job_order_kye(self) -> None: ...

    tiers_of([("own", Helpful())])


def test_an_object_without_extension_points_is_an_error() -> None:
    with pytest.raises(PluginError) as caught:
        tiers_of([("own", object())])
    problem = caught.value.problem
    known = problem.removeprefix("expected an object with extension points (").partition(")")[0]
    assert set(ALL_POINTS) == set(known.split(", "))
    assert (caught.value.plugin, caught.value.extension_point) == ("own", "open")
    with pytest.raises(PluginError, match="got NoneType"):
        tiers_of([("own", None)])


def test_plugins_open_in_configured_order_tier_by_tier_and_anew_each_time() -> None:
    order: list[str] = []

    def opens(name: str) -> Callable[[object], Saying]:
        def open_(_view: object) -> Saying:
            order.append(name)
            return Saying(job_ready=lambda _: True)

        return open_

    plugins: list[ConfiguredPlugin] = configured(
        [("b", opens("b")), ("a", opens("a"))], [("c", opens("c"))]
    )
    for _ in range(2):
        PluginSet(plugins, SessionView(Ledger(SMALL)))
    assert order == ["b", "a", "c"] * 2


def test_the_first_predicate_that_refuses_is_the_reason() -> None:
    def refusing(name: str) -> list[Predicate]:
        unfit = Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin=name, detail="no")
        return [Predicate(check=lambda _t, _n: unfit)]

    session = opened(
        SMALL,
        [("yes", saying(predicates=[Predicate(check=lambda _t, _n: None)]))],
        [("b", saying(predicates=refusing("b"))), ("a", saying(predicates=refusing("a")))],
    )
    refusal = session.placement.refusal(session.task("j-1"), session.nodes[0])
    assert refusal is not None
    assert refusal.text == "is refused by plugin b: no"


# Shields and keys


def shielding(point: str, *uids: str, key: object = None) -> Saying:
    """A plugin's object with verdicts that shields the tasks with these UIDs."""
    return Saying(
        **{point: lambda _claimant, candidates: [P] * len(candidates)},
        claimant_key=lambda _: key,
        shielded=lambda _claimant, candidates: [c.uid in uids for c in candidates],
    )


@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
def test_unshielded_is_whom_no_plugin_with_a_say_shields(point: str) -> None:
    other = "reclaimable" if point == "preemptable" else "preemptable"
    asked: list[tuple[str, list[str]]] = []
    last = shielding(point)

    def recorded(claimant: TaskState, candidates: Sequence[TaskState]) -> list[bool]:
        asked.append((claimant.uid, [candidate.uid for candidate in candidates]))
        return [False] * len(candidates)

    last.shielded = recorded  # type: ignore[attr-defined]
    tiers, ledger = tiers_of(
        [("a", shielding(point, "j-2")), ("b", shielding(other, "j-4"))],
        [("c", shielding(point, "j-3")), ("d", saying(**{point: [V]})), ("e", last)],
    )
    claimant = ledger.tasks["j-1"]
    candidates = [ledger.tasks[uid] for uid in ("j-4", "j-3", "j-2")]
    assert [task.uid for task in tiers.judges[point].unshielded(claimant, candidates)] == ["j-4"]
    assert asked == [("j-1", ["j-4"])]  # those that are left
    assert tiers.judges[point].unshielded(claimant, candidates[1:]) == []
    assert asked == [("j-1", ["j-4"])]  # nobody is left to be asked about
    assert len(candidates) == 3


@pytest.mark.parametrize("answer", [[True], [False], [True, True, True], [False] * 3])
def test_shields_for_more_or_fewer_than_there_are_are_an_error(answer: list[bool]) -> None:
    odd = shielding("preemptable")
    odd.shielded = lambda _claimant, _candidates: answer  # type: ignore[attr-defined]
    tiers, ledger = tiers_of([("fine", shielding("preemptable")), ("odd", odd)])
    candidates = [ledger.tasks["j-2"], ledger.tasks["j-3"]]
    message = (
        f"^plugin 'odd', shielded: expected one answer for each of 2 candidates, got {len(answer)}$"
    )
    with pytest.raises(PluginError, match=message):
        tiers.judges["preemptable"].unshielded(ledger.tasks["j-1"], candidates)


def test_keys_of_claimants_are_those_of_all_plugins_with_a_say_in_order() -> None:
    plugins = [
        [("a", shielding("preemptable", key=1)), ("b", shielding("reclaimable", key=2))],
        [("c", Saying(preemptable=lambda _, of: [P] * len(of), claimant_key=lambda t: t.uid))],
        [("d", saying(claimant_key="unasked", job_ready=True))],
    ]
    tiers, ledger = tiers_of(*plugins)
    claimant = ledger.tasks["j-1"]
    assert tiers.judges["preemptable"].claimant_key(claimant) == (1, "j-1")
    assert tiers.judges["reclaimable"].claimant_key(claimant) == (2,)
    assert tiers.judges["preemptable"].shield_key((1, "j-1")) == (1,)  # c shields nobody
    assert tiers.judges["reclaimable"].shield_key((2,)) == (2,)
    tiers, _ = tiers_of(*plugins, [("e", saying(preemptable=[V]))])
    assert tiers.judges["preemptable"].claimant_key(claimant) is None  # e does not say
    assert tiers.judges["reclaimable"].claimant_key(claimant) == (2,)


@pytest.mark.parametrize(
    ("point", "ask"),
    [
        ("shielded", lambda tiers, task: tiers.judges["preemptable"].unshielded(task, [task])),
        ("claimant_key", lambda tiers, task: tiers.judges["preemptable"].claimant_key(task)),
    ],
)
def test_whoever_fails_when_asked_about_claimants_is_named(
    point: str, ask: Callable[[PluginSet, TaskState], object]
) -> None:
    own = shielding("preemptable")
    setattr(own, point, _fails)
    tiers, ledger = tiers_of([("fine", shielding("preemptable")), ("own", own)])
    with pytest.raises(PluginError) as caught:
        ask(tiers, ledger.tasks["j-1"])
    assert str(caught.value) == f"plugin 'own', {point}: KeyError: 'asked'"


def test_a_key_of_a_claimant_that_cannot_be_hashed_is_an_error() -> None:
    tiers, ledger = tiers_of([("odd", shielding("preemptable", key=[]))])
    with pytest.raises(PluginError, match="'odd', claimant_key: TypeError: unhashable"):
        tiers.judges["preemptable"].claimant_key(ledger.tasks["j-1"])
