"""check_plain finds wrong declarations and hints by their decisions, and names them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import pytest
from tests.support.books import built_in, factory_of
from tests.support.opening import OpensA

from batchsched import ActionOption, PluginOption, SchedulerConfig, Tier, Unfit, UnfitReason
from batchsched.plugin import (
    Changes,
    EvictionHints,
    JobState,
    NodeKeys,
    NodeScore,
    NodeState,
    Predicate,
    PredicateHints,
    Reads,
    ScoreHints,
    SessionView,
    TaskState,
    Verdict,
)
from batchsched.testing import LawViolation, check_plain, snapshots

pytestmark = pytest.mark.slow

NO = Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="lying")


def alike(_task: TaskState) -> Hashable:
    return None


def accepts(_task: TaskState, _node: NodeState) -> Unfit | None:
    return None


def found(kind: Callable[[SessionView], object]) -> LawViolation:
    with pytest.raises(LawViolation) as caught:
        check_plain(OpensA(kind), name="lying", shrink=False)
    assert str(caught.value).startswith(f"plugin 'lying', {caught.value.extension_point}: ")
    return caught.value


class Lying:
    def __init__(self, view: SessionView) -> None:
        self.view = view


class PairsNames(Lying):
    """Which node a task may have depends on its name, which its signature lacks."""

    def predicates(self) -> Iterable[Predicate]:
        yield Predicate(check=self.check, reads=Reads.DESCRIPTION, signature=alike)

    def check(self, task: TaskState, node: NodeState) -> Unfit | None:
        return None if (task.uid[-1] == "1") == (node.name == "n1") else NO


class ScoresNames(Lying):
    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(score=self.score, reads=Reads.DESCRIPTION, signature=alike)

    def score(self, task: TaskState, node: NodeState) -> float:
        return 100.0 * ((task.uid[-1] == "1") == (node.name == "n1"))


class CountsEverywhere(Lying):
    """It reads all nodes, and says that it reads descriptions."""

    def predicates(self) -> Iterable[Predicate]:
        yield Predicate(check=self.check, reads=Reads.DESCRIPTION)

    def check(self, _task: TaskState, _node: NodeState) -> Unfit | None:
        return None if sum(len(node.tasks) for node in self.view.nodes) < 4 else NO


class WatchesNothing(CountsEverywhere):
    def predicates(self) -> Iterable[Predicate]:
        hints = PredicateHints(watch=lambda _task: [])
        yield Predicate(check=self.check, signature=alike, hints=hints)


class SpecialisesWrongly(Lying):
    def node_scores(self) -> Iterable[NodeScore]:
        hints = ScoreHints(specialise=lambda _task: lambda nodes: [0.0] * len(nodes))
        yield NodeScore(score=self.score, reads=Reads.DESCRIPTION, hints=hints)

    def score(self, _task: TaskState, node: NodeState) -> float:
        return 100.0 * (node.name == "n2")


class ScoresArraysWrongly(Lying):
    def node_scores(self) -> Iterable[NodeScore]:
        hints = ScoreHints(vectorise=lambda _task: lambda nodes: nodes.tasks * 0)
        yield NodeScore(score=self.score, reads=Reads.ACCOUNTS, signature=alike, hints=hints)

    def score(self, _task: TaskState, node: NodeState) -> float:
        return 100.0 * (node.name == "n2")


class SpecialCaseIsNotNothing(Lying):
    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(
            score=lambda _task, node: node.index,
            normalise=lambda raw, lowest, highest: raw - lowest,
            reads=Reads.DESCRIPTION,
            hints=ScoreHints(specialise=lambda _task: None),
        )


class ArraysCheckLess(Lying):
    def predicates(self) -> Iterable[Predicate]:
        yield Predicate(
            check=lambda _task, node: NO if len(node.tasks) > 1 else None,
            reads=Reads.ACCOUNTS,
            signature=lambda _task: None,
            hints=PredicateHints(vectorise=lambda _task: lambda nodes: nodes.tasks <= 2),
        )


class FindsOneNode(Lying):
    def predicates(self) -> Iterable[Predicate]:
        keys = NodeKeys(
            of_node=lambda node: [node.name], of_task=lambda _task: [["n1"]], otherwise=NO
        )
        hints = PredicateHints(node_keys=keys)
        yield Predicate(check=accepts, reads=Reads.DESCRIPTION, signature=alike, hints=hints)


class JudgesNames(Lying):
    """Whose tasks it names victims depends on the claimant's name; without hints that is fine."""

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState]
    ) -> Sequence[Verdict]:
        verdict = Verdict.VICTIM if claimant.uid.endswith("2") else Verdict.PROTECTED
        return [verdict for _ in candidates]


class HidesTheName(JudgesNames):
    def hints(self) -> EvictionHints:
        return EvictionHints(claimant_key=lambda _claimant: None)


class ShieldsAll(Lying):
    def hints(self) -> EvictionHints:
        return EvictionHints(
            claimant_key=lambda claimant: claimant.uid,
            shielded=lambda _claimant, candidates: [True for _ in candidates],
        )

    def preemptable(
        self, _claimant: TaskState, candidates: Sequence[TaskState]
    ) -> Sequence[Verdict]:
        return [Verdict.VICTIM for _ in candidates]


class RefusesByName(JudgesNames):
    """It refuses to one of two tasks of a job what it gives to the other."""

    refuses_alike = True


class RefusesByService(Lying):
    """What it refuses to a job depends on the service that the job attained before."""

    refuses_alike = True

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState]
    ) -> Sequence[Verdict]:
        assert claimant.job is not None
        served = min(task.info.attained_service for task in claimant.job.tasks)
        return [Verdict.VICTIM if served >= 2 else Verdict.PROTECTED for _ in candidates]


class KeepsOldCounts(Lying):
    def __init__(self, view: SessionView) -> None:
        self.ready = {uid: job.ready_count for uid, job in view.jobs.items()}

    def resume(self, _changes: Changes) -> bool:
        return True

    def job_order_key(self, job: JobState) -> int:
        return self.ready.get(job.uid, 0)


class RanksByOthers(Lying):
    """The key of a job depends on other jobs: no declaration to remove, but a shortcut tells."""

    def job_order_key(self, job: JobState) -> int:
        others = sum(other.ready_count for other in self.view.jobs.values() if other is not job)
        return others if job.uid[-1] < "3" else -others


@pytest.mark.parametrize(
    ("kind", "shortcut", "cause"),
    [
        (PairsNames, "engine", "predicates()[0].signature"),
        (ScoresNames, "engine", "node_scores()[0].signature"),
        (CountsEverywhere, "engine", "predicates()[0].reads"),
        (WatchesNothing, "engine", "predicates()[0].hints.watch"),
        (SpecialisesWrongly, "engine", "node_scores()[0].hints.specialise"),
        (ScoresArraysWrongly, "engine", "node_scores()[0].hints.vectorise"),
        (SpecialCaseIsNotNothing, "engine", "node_scores()[0].hints.specialise"),
        (ArraysCheckLess, "engine", "predicates()[0].hints.vectorise"),
        (FindsOneNode, "engine", "predicates()[0].hints.node_keys"),
        (HidesTheName, "room", "hints().claimant_key"),
        (ShieldsAll, "room", "hints().shielded"),
        (RefusesByName, "attempts", "refuses_alike"),
        (RefusesByService, "attempts", "refuses_alike"),
        (KeepsOldCounts, "cycles", "resume"),
        (RanksByOthers, "turns", "perhaps a key of a job or queue depends on more"),
    ],
)
def test_a_lie_is_found_and_named(
    kind: Callable[[SessionView], object], shortcut: str, cause: str
) -> None:
    violation = found(kind)
    assert repr(shortcut) in violation.seen.partition("without these shortcuts: ")[2]
    assert cause in violation.seen


@pytest.mark.parametrize("plugin", ["priority", "gang", "capacity", "predicates", "nodeorder"])
def test_the_librarys_own_plugins_tell_the_truth(plugin: str) -> None:
    check_plain(factory_of(plugin), max_examples=25)


def test_what_reads_anything_and_says_nothing_is_fine() -> None:
    check_plain(OpensA(JudgesNames), max_examples=100)


def test_examples_and_configuration_may_be_given() -> None:
    options = [ActionOption(name="allocate")]
    config = SchedulerConfig(actions=options, tiers=[Tier(plugins=[PluginOption(name="own")])])
    check_plain(built_in("gang"), name="own", config=config, max_examples=5)
    with pytest.raises(ValueError, match="expected the plugin 'mine' in a tier"):
        check_plain(built_in("gang"), name="mine", config=config)
    with pytest.raises(ValueError, match="expected labels or examples, got both"):
        check_plain(built_in("gang"), examples=snapshots(), labels={"a": ["b"]})


def test_the_code_of_a_violation_checks_the_plugin_again() -> None:
    code = found(PairsNames).as_code()
    assert "check_plain(plugin, name='lying', examples=st.just(snapshot))" in code
