"""A plugin that saw nothing vary is told of: the laws say nothing of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from tests.support.books import built_in
from tests.support.clusters import cluster, job, node
from tests.support.opening import Opened, OpensA

from batchsched import Arguments, Unfit, UnfitReason
from batchsched.plugin import JobState, NodeScore, NodeState, Predicate, Reads, TaskState, Verdict
from batchsched.testing import LawViolation, VacuityWarning, check_plugin, snapshots

pytestmark = pytest.mark.slow

NO = Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="under-test", detail="other team")
TEAMS = {"team": ["red", "blue"]}


def other_team(task: TaskState, node: NodeState) -> Unfit | None:
    return NO if task.info.labels.get("team") != node.info.labels.get("team") else None


class TeamsApart(Opened):
    """Keeps each team on its nodes; correct, and vacuous where there are no teams."""

    def predicates(self) -> Iterable[Predicate]:
        yield Predicate(check=other_team, reads=Reads.DESCRIPTION)


class TeamsTogether(Opened):
    """Reads the labels of the tasks on a node, and says that it reads accounts only."""

    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(
            score=lambda task, node: sum(
                other.info.labels.get("team") == "red" for other in node.tasks.values()
            ),
            reads=Reads.ACCOUNTS,
        )


class Declares(OpensA):
    reads_labels: ClassVar[Mapping[str, Sequence[str]]] = TEAMS

    def __init__(self) -> None:
        super().__init__(TeamsApart)


def make_one(_arguments: Arguments, /) -> OpensA:
    return Declares()


def texts(check: Callable[[], None]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check()
    assert all(each.category is VacuityWarning and each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


def test_a_predicate_that_reads_labels_that_nothing_has() -> None:
    (text,) = texts(lambda: check_plugin(OpensA(TeamsApart), name="teams", max_examples=40))
    assert text.startswith("plugin 'teams', predicates: it answered None everywhere (")
    assert "labels={...}" in text
    assert "reads_labels" in text
    assert "always" in text


@pytest.mark.parametrize("plugin", [Declares(), Declares, make_one])
def test_labels_that_the_plugin_declares(plugin: Callable[[Arguments], OpensA]) -> None:
    assert not texts(lambda: check_plugin(plugin, max_examples=40))


def test_labels_that_are_passed() -> None:
    assert not texts(lambda: check_plugin(OpensA(TeamsApart), labels=TEAMS, max_examples=40))


def test_labels_of_tasks_are_no_accounts() -> None:
    with pytest.raises(LawViolation, match=r"no more than Reads\.ACCOUNTS"):
        check_plugin(OpensA(TeamsTogether), labels=TEAMS, max_examples=300, shrink=False)
    assert texts(lambda: check_plugin(OpensA(TeamsTogether), max_examples=40))


def test_plugins_of_which_nothing_can_be_said_but_that_they_are_fine() -> None:
    assert not texts(lambda: check_plugin(built_in("drf"), max_examples=40))


class AllAlike(Opened):
    def job_order_key(self, job: JobState, /) -> str:
        return "x" * 500

    def preemptable(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> list[Verdict]:
        return [Verdict.PASS for _ in candidates]

    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(score=lambda task, node: node.index)
        yield NodeScore(score=lambda task, node: 7)


def test_keys_scores_and_verdicts_that_do_not_vary() -> None:
    found = texts(lambda: check_plugin(OpensA(AllAlike), max_examples=50))
    assert len(found) == 3
    assert "node_scores[1]: it answered 7 everywhere" in found[0]
    assert "job_order_key: it answered 'xxx" in found[1]
    assert "x" * 100 not in found[1]
    assert "preemptable: it answered <Verdict.PASS" in found[2]


def test_what_is_never_asked() -> None:
    nothing_runs = snapshots(running=False, max_nodes=2, max_jobs=2)
    found = texts(lambda: check_plugin(built_in("drf"), examples=nothing_runs, max_examples=40))
    assert [text for text in found if "preemptable: it was never called" in text]


def test_nothing_is_said_of_few_examples() -> None:
    pinned = cluster([node("n1", "1C1G")], job("g", "1C1G", "1C1G"))
    check_plugin(OpensA(TeamsApart), examples=st.just(pinned), max_examples=10)


def test_labels_are_for_the_default_examples() -> None:
    with pytest.raises(ValueError, match=r"examples=snapshots\(labels="):
        check_plugin(OpensA(TeamsApart), examples=snapshots(), labels=TEAMS)
