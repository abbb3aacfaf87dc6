"""`check_plugin` passes the plugins of the library, and catches broken ones."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import strategies as st
from tests.support.books import built_in, factory_of
from tests.support.clusters import cluster, job, node
from tests.support.opening import Opened, OpensA, violation_of

import batchsched
from batchsched import (
    ActionOption,
    Arguments,
    PluginOption,
    SchedulerConfig,
    TaskStatus,
    Tier,
    Unfit,
    UnfitReason,
)
from batchsched.plugin import (
    JobState,
    NodeScore,
    NodeState,
    Plugin,
    Predicate,
    QueueState,
    Reads,
    SessionView,
    TaskState,
    Verdict,
)
from batchsched.testing import LawViolation, check_plugin

pytestmark = pytest.mark.slow

NO = Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="broken", detail="no")


class CountsItsCalls(Opened):
    calls = 0

    def job_order_key(self, job: JobState, /) -> int:
        self.calls += 1
        return self.calls


class LooksAtOtherJobs(Opened):
    def job_order_key(self, job: JobState, /) -> int:
        return sum(other.ready_count for other in self.view.jobs.values())


class LooksAtOtherQueues(Opened):
    def queue_order_key(self, queue: QueueState, /) -> int:
        return sum(job.ready_count for job in self.view.jobs.values())


class TaskKeyChanges(Opened):
    def task_order_key(self, task: TaskState, /) -> str:
        return task.status.value


class KeysOfDifferentTypes(Opened):
    def job_order_key(self, job: JobState, /) -> object:
        return job.uid if job.uid.endswith("1") else 1


class ReadsMoreThanTheDescription(Opened):
    def predicates(self) -> Iterable[Predicate]:
        yield Predicate(
            check=lambda task, node: None if node.fits(task) else NO,
            reads=Reads.DESCRIPTION,
        )


class ReadsMoreThanAccounts(Opened):
    def predicates(self) -> Iterable[Predicate]:
        yield Predicate(check=self.check, reads=Reads.ACCOUNTS)

    def check(self, task: TaskState, node: NodeState) -> Unfit | None:
        return NO if any(t.info.priority > 1 for t in node.tasks.values()) else None


class ReadsOtherNodes(Opened):
    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(score=self.score, reads=Reads.NODE)

    def score(self, task: TaskState, node: NodeState) -> float:
        return sum(len(other.tasks) for other in self.view.nodes)


class TaskKeyTooCoarse(Opened):
    def predicates(self) -> Iterable[Predicate]:
        yield Predicate(
            check=lambda task, node: NO if task.info.priority > 1 else None,
            reads=Reads.DESCRIPTION,
            signature=lambda task: None,
        )


class TaskKeyNotHashable(Opened):
    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(score=lambda task, node: 0, signature=lambda task: [task.uid])  # type: ignore[arg-type, return-value]


class NormaliseRemembers(Opened):
    seen = 0

    def node_scores(self) -> Iterable[NodeScore]:
        yield NodeScore(score=lambda task, node: node.index, normalise=self.normalise)

    def normalise(self, raw: float, lowest: float, highest: float) -> float:
        self.seen += 1
        return raw / self.seen


class ShareIsNotGivenBack(Opened):
    def __init__(self, view: SessionView) -> None:
        super().__init__(view)
        self.share: dict[str, int] = {}

    def job_order_key(self, job: JobState, /) -> int:
        return self.share.get(job.uid, 0)

    def on_allocate(self, task: TaskState, /) -> None:
        assert task.job is not None
        self.share[task.job.uid] = self.share.get(task.job.uid, 0) + 1

    def on_deallocate(self, task: TaskState, /) -> None:
        pass


class VerdictsAreTooFew(Opened):
    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [Verdict.VICTIM for task in candidates if task.info.priority < 2]


class VerdictsAreTruths(Opened):
    def reclaimable(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> list[bool]:
        return [True for _ in candidates]


class VerdictsChangeTheShare(Opened):
    evicted = 0

    def job_order_key(self, job: JobState, /) -> int:
        return self.evicted

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        self.evicted += len(candidates)
        return [Verdict.VICTIM for _ in candidates]


class ClaimantKeyTooCoarse(Opened):
    def claimant_key(self, claimant: TaskState, /) -> None:
        return None

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        yes = claimant.info.priority > 1
        return [Verdict.VICTIM if yes else Verdict.PASS for _ in candidates]


class VotesNone(Opened):
    def job_ready(self, job: JobState, /) -> None:
        return None


class Raises(Opened):
    def overused(self, queue: QueueState, /) -> bool:
        return 1 / len(queue.jobs) < 0


class ChangesTheBooks(Opened):
    def job_valid(self, job: JobState, /) -> None:
        job.min_available += 1


class ShieldsWhomItGives(Opened):
    def claimant_key(self, claimant: TaskState, /) -> None:
        return None

    def shielded(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[bool]:
        return [position == 0 for position in range(len(candidates))]

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        return [Verdict.VICTIM for _ in candidates]


class ShieldsFewerWhenThereIsLess(Opened):
    def __init__(self, view: SessionView) -> None:
        super().__init__(view)
        self.at_first = self.running()

    def running(self) -> int:
        return sum(job.ready_count for job in self.view.jobs.values())

    def claimant_key(self, claimant: TaskState, /) -> None:
        return None

    def shielded(self, claimant: TaskState, candidates: Sequence[TaskState], /) -> Sequence[bool]:
        return [verdict is Verdict.PROTECTED for verdict in self.reclaimable(claimant, candidates)]

    def reclaimable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        is_full = self.running() >= self.at_first
        return [Verdict.PROTECTED if is_full else Verdict.VICTIM for _ in candidates]


BROKEN: list[tuple[type[Opened], str, str]] = [
    (CountsItsCalls, "job_order_key", "called twice"),
    (LooksAtOtherJobs, "job_order_key", "nothing but the job"),
    (LooksAtOtherQueues, "queue_order_key", "nothing but the queue"),
    (TaskKeyChanges, "task_order_key", "stays the same during a cycle"),
    (KeysOfDifferentTypes, "job_order_key", "compare"),
    (ReadsMoreThanTheDescription, "predicates", "Reads.DESCRIPTION"),
    (ReadsMoreThanAccounts, "predicates", "Reads.ACCOUNTS"),
    (ReadsOtherNodes, "node_scores", "Reads.NODE"),
    (TaskKeyTooCoarse, "predicates", "equal signature"),
    (TaskKeyNotHashable, "node_scores", "can be hashed"),
    (NormaliseRemembers, "node_scores", "raw, lowest and highest only"),
    (ShareIsNotGivenBack, "job_order_key", "after a statement is discarded"),
    (VerdictsAreTooFew, "preemptable", "what its extension point requires"),
    (VerdictsAreTruths, "reclaimable", "what its extension point requires"),
    (VerdictsChangeTheShare, "job_order_key", "called twice"),
    (ClaimantKeyTooCoarse, "preemptable", "equal claimant_key"),
    (VotesNone, "job_ready", "what its extension point requires"),
    (Raises, "overused", "never raises"),
    (ChangesTheBooks, "open", "calls change nothing"),
    (ShieldsWhomItGives, "shielded", "alone and with any others"),
    (ShieldsFewerWhenThereIsLess, "shielded", "while no more is charged"),
]


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # it is not shrunk
@pytest.mark.parametrize(
    ("kind", "point", "law"), BROKEN, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_broken_plugin_is_caught(kind: type[Opened], point: str, law: str) -> None:
    violation = violation_of(OpensA(kind))
    assert violation.extension_point == point
    assert law in violation.law


def test_the_example_is_the_smallest() -> None:
    with pytest.raises(LawViolation) as caught:
        check_plugin(OpensA(VotesNone), name="broken")
    snapshot = caught.value.snapshot
    assert len(snapshot.nodes) == 1
    assert [len(job.tasks) for job in snapshot.jobs] == [1]
    # Where the variable CI is set, Hypothesis adds a note of its own: how to run the example again.
    (note,) = [note for note in caught.value.__notes__ if "Snapshot(" in note]
    assert len(note.splitlines()) < 40
    assert "    snapshot=Snapshot(\n        nodes=[NodeInfo(name='n1'," in note


@pytest.mark.parametrize(
    "factory",
    [
        factory_of("conformance"),
        factory_of("drf"),
        factory_of("gang"),
        factory_of("nodeorder"),
        factory_of("predicates"),
        factory_of("priority"),
        factory_of("proportion"),
    ],
)
def test_the_plugins_of_the_library_keep_the_laws(
    factory: Callable[[Arguments], object],
) -> None:
    check_plugin(factory, max_examples=25)  # type: ignore[arg-type]


def test_a_class_will_do_as_in_the_registry() -> None:
    made: list[str] = []

    class NeedsNoArguments:
        def __init__(self) -> None:
            made.append("")

        def open(self, view: SessionView, /) -> object:
            return VotesNone(view)

    class HasFromArguments:
        def __init__(self, mode: str) -> None:
            made.append(mode)

        @classmethod
        def from_arguments(cls, arguments: Arguments) -> HasFromArguments:
            return cls(arguments.text("mode", default="loose"))

        def open(self, view: SessionView, /) -> object:
            return VotesNone(view)

    for kind, arguments, given in (
        (NeedsNoArguments, {}, ""),
        (HasFromArguments, {"mode": "strict"}, "strict"),
    ):
        with pytest.raises(LawViolation, match="job_ready"):
            check_plugin(kind, arguments=arguments, max_examples=50, shrink=False)
        assert set(made) == {given}
        made.clear()


def test_a_plugin_may_be_given_arguments() -> None:
    seen: list[int] = []

    def factory(arguments: Arguments) -> Plugin:
        seen.append(arguments.integer("strength", default=0))
        return built_in("priority")

    check_plugin(factory, arguments={"strength": "3"}, max_examples=3)
    assert set(itertools.islice(seen, 1, None)) <= {0, 3}
    assert 3 in seen


def test_tasks_that_run_or_that_the_cycle_bound_are_asked_about() -> None:
    asked: list[TaskStatus] = []

    class Asks(Opened):
        def preemptable(
            self, claimant: TaskState, candidates: Sequence[TaskState], /
        ) -> Sequence[Verdict]:
            asked.extend(candidate.status for candidate in candidates)
            return [Verdict.PASS for _ in candidates]

    full = cluster([node("n1", "2C2G")], job("r", "1C1G@n1"), job("a", "1C1G"), job("b", "1C1G"))
    check_plugin(OpensA(Asks), examples=st.just(full), max_examples=5)
    assert set(asked) == {TaskStatus.RUNNING, TaskStatus.BINDING}


def test_a_configuration_that_does_not_name_the_plugin_is_refused_at_once() -> None:
    made: list[Arguments] = []

    def factory(arguments: Arguments) -> Plugin:
        made.append(arguments)
        return built_in("priority")

    with pytest.raises(ValueError, match=r"expected the plugin 'mine' .*, got pri.* name=\.\.\."):
        check_plugin(factory, name="mine", config=SchedulerConfig())
    assert not made


def test_a_plugin_may_be_given_a_configuration() -> None:
    tier = Tier(plugins=(PluginOption(name="mine"), PluginOption(name="gang")))
    config = SchedulerConfig(actions=[ActionOption(name="allocate")], tiers=[tier])
    check_plugin(built_in("priority"), name="mine", config=config, max_examples=3)


class LeaksTheNamesOfJobs:
    """Shows it only after a cycle on another snapshot."""

    def __init__(self) -> None:
        self.before: list[str] = []

    def open(self, view: SessionView, /) -> object:
        names = list(view.jobs)
        differs = self.before not in ([], names)
        self.before = self.before or names

        class Ready(Opened):
            def job_ready(self, job: JobState, /) -> bool:
                return not differs

        return Ready(view)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize(
    "make",
    [
        lambda: OpensA(VotesNone),
        lambda: OpensA(LooksAtOtherJobs),
        lambda: OpensA(ShareIsNotGivenBack),
        LeaksTheNamesOfJobs,
    ],
)
def test_a_violation_is_told_as_code(make: Callable[[], Plugin]) -> None:
    violation = violation_of(make())
    code = violation.as_code()
    assert f"# 'broken' broke a law of {violation.extension_point}:\n# {violation.law}\n" in code
    names: dict[str, object] = {
        **{name: getattr(batchsched, name) for name in batchsched.__all__},
        "check_plugin": check_plugin,
    }
    to_fill_in = "plugin = ...  # fill in the argument"
    assert to_fill_in in code
    names["mine"] = make()
    with pytest.raises(LawViolation) as caught:
        exec(code.replace(to_fill_in, "plugin = mine  #"), names)
    again = caught.value
    assert names["snapshot"] == violation.snapshot
    assert (again.extension_point, again.law) == (violation.extension_point, violation.law)


def test_a_violation_goes_from_process_to_process() -> None:
    violation = violation_of(OpensA(VotesNone))
    copy = pickle.loads(pickle.dumps(violation))
    assert (str(copy), copy.snapshot, copy.other) == (str(violation), violation.snapshot, None)
