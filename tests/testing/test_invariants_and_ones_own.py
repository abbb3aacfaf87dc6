"""Plugins and actions of one's own: nothing is assumed of them, whatever their names are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from tests.reference import check_reference
from tests.support.clusters import action, cluster, job, node
from tests.support.doctoring import evicted, placed
from tests.support.invariants import check_cycle

from batchsched import (
    CycleResult,
    Registry,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    TaskStatus,
    default_registry,
)
from batchsched.plugin import JobState, SessionView, TaskState, Verdict, Vote
from batchsched.testing import InvariantViolation

S = TaskStatus


class Opens:
    """A plugin that opens the same object for every cycle."""

    def __init__(self, opened: object) -> None:
        self._opened = opened

    def open(self, _view: SessionView, /) -> object:
        return self._opened


class Runs:
    """An action that is a function."""

    def __init__(self, run: Callable[[Session], None]) -> None:
        self._run = run

    def execute(self, session: Session, /) -> None:
        self._run(session)


def registry(
    plugins: Mapping[str, object] | None = None,
    actions: Mapping[str, Callable[[Session], None]] | None = None,
) -> Registry:
    """The default registry with plugins and actions of one's own added or in their place."""
    made, default = Registry(), default_registry()
    for name, opened in (plugins or {}).items():
        made.register_plugin(name, lambda _, opened=opened: Opens(opened))
    for name, run in (actions or {}).items():
        made.register_action(name, lambda _, run=run: Runs(run))
    for name in set(default.plugin_names) - set(made.plugin_names):
        made.register_plugin(name, default.plugin_factory(name))
    for name in set(default.action_names) - set(made.action_names):
        made.register_action(name, default.action_factory(name))
    return made


def accepted(
    snapshot: Snapshot, using: Registry, actions: Sequence[object], *tiers: Sequence[str]
) -> CycleResult:
    """The result, which passes all invariants."""
    config = SchedulerConfig.from_mapping(
        {"actions": list(actions), "tiers": [{"plugins": list(tier)} for tier in tiers]},
        registry=using,
    )
    result = Scheduler(config, using).schedule(snapshot)
    check_cycle(snapshot, result, config, registry=using)
    check_reference(snapshot, result, config, registry=using)
    return result


class HoldsBack:
    """Calls jobs named "g" not ready, whatever they have."""

    def job_ready(self, job: JobState, /) -> Vote:
        return Vote.REJECT if job.info.name == "g" else Vote.ABSTAIN

    job_condition_ready = job_ready


def test_a_gang_that_is_held_back_gives_back_what_it_was_complete_with() -> None:
    snapshot = cluster(
        [node("n1", "1C1G"), node("n2", "2C2G")],
        job("g", "1C1G", "1C1G", "1C1G@n1", minimum=2),
        job("w", "1C1G", priority=1),
    )
    actions = ["allocate", "preempt", action("backfill", strategy="release")]
    own = registry({"hold": HoldsBack()})
    result = accepted(snapshot, own, actions, ["hold"], ["gang", "predicates"])
    assert [eviction.task_uid for eviction in result.evictions] == ["g-3"]
    assert result.tasks["g-1"].status is S.PENDING


def test_a_gang_that_is_held_back_loses_more_than_it_can_have_given_back() -> None:
    snapshot = cluster(
        [node("n1", "3C3G")],
        job("g", "1C1G@n1", "1C1G@n1", "1C1G@n1", minimum=3),
        job("w", "1C1G", priority=1),
    )
    own = registry({"hold": HoldsBack()})
    config = SchedulerConfig.from_mapping(
        {
            "actions": ["preempt", action("backfill", strategy="release")],
            "tiers": [{"plugins": ["hold"]}, {"plugins": ["gang", "predicates"]}],
        },
        registry=own,
    )
    result = Scheduler(config, own).schedule(snapshot)
    assert not result.evictions
    wrong = placed(evicted(result, "g-1", "w-1"), "w-1", S.PIPELINED, "n1")
    with pytest.raises(InvariantViolation, match="needs 3 tasks and has 2 ready after g-1 were"):
        check_cycle(snapshot, wrong, config, registry=own, invariants=["gangs"])


class TestNamesThatAreTaken:
    """A registry may have something else under the names of the specification."""

    def test_a_priority_of_ones_own(self) -> None:
        class LetsAnybodyGo:
            def preemptable(
                self, _claimant: TaskState, candidates: Sequence[TaskState], /
            ) -> list[Verdict]:
                return [Verdict.VICTIM for _ in candidates]

        snapshot = cluster(
            [node("n1", "1C1G")],
            job("r", "1C1G@n1", minimum=0, priority=5),
            job("w", "1C1G", priority=1),
        )
        own = registry({"priority": LetsAnybodyGo()})
        assert accepted(snapshot, own, ["preempt"], ["priority"]).evictions

    def test_a_gang_of_ones_own(self) -> None:
        class StartsEverything:
            def job_ready(self, _job: JobState, /) -> bool:
                return True

        snapshot = cluster([node("n1", "1C1G")], job("g", "1C1G", "1C1G", "1C1G", "1C1G"))
        own = registry({"gang": StartsEverything()})
        assert accepted(snapshot, own, ["allocate"], ["gang"]).binds

    def test_a_preempt_of_ones_own(self) -> None:
        def swap_with_the_more_important(session: Session) -> None:
            with session.statement() as statement:
                victim, claimant = session.task("r-1"), session.task("w-1")
                node = victim.node
                assert node is not None
                statement.evict(victim, claimant=claimant)
                statement.pipeline(claimant, node)
                statement.commit()

        snapshot = cluster(
            [node("n1", "1C1G")],
            job("r", "1C1G@n1", priority=5),
            job("w", "1C1G", queue="q2", priority=1),
            queues=["q", "q2"],
        )
        own = registry(actions={"preempt": swap_with_the_more_important})
        assert accepted(snapshot, own, ["preempt"], ["priority", "gang", "predicates"]).evictions

    def test_those_of_the_default_registry_are_known_in_a_registry_of_ones_own(self) -> None:
        snapshot = cluster([node("n1", "1C1G")], job("g", "1C1G", "1C1G"))
        config = SchedulerConfig.from_mapping({"actions": "allocate"})
        result = Scheduler(config).schedule(snapshot)
        wrong = placed(result, "g-1", S.BINDING, "n1")
        with pytest.raises(InvariantViolation, match="needs 2 tasks and has 1 ready"):
            check_cycle(snapshot, wrong, config, registry=registry(), invariants=["gangs"])


class TestActions:
    SNAPSHOT = cluster([node("n1", "1C1G")], job("r", "1C1G@n1"), job("w", "1C1G"))

    def test_the_claimant_waits_for_the_next_cycle(self) -> None:
        def kick(session: Session) -> None:
            session.evict(session.task("r-1"), claimant=session.task("w-1"))

        own = registry(actions={"kick": kick})
        result = accepted(self.SNAPSHOT, own, ["kick"], ["priority"])
        assert result.tasks["w-1"].status is S.PENDING

    def test_what_is_evicted_for_the_actions_of_the_specification_is_placed_beside_it(self) -> None:
        own = registry(actions={"kick": lambda _: None})
        config = SchedulerConfig.from_mapping(
            {"actions": "kick, preempt", "tiers": [{"plugins": ["priority"]}]}, registry=own
        )
        result = evicted(Scheduler(config, own).schedule(self.SNAPSHOT), "r-1", "w-1")
        with pytest.raises(InvariantViolation, match="for 'w-1', which is Pending on None"):
            check_cycle(self.SNAPSHOT, result, config, registry=own, invariants=["claims"])

    def test_the_claimant_of_a_known_action_is_taken_back(self) -> None:
        def unallocate(session: Session) -> None:
            session.unallocate(session.task("w-1"))

        snapshot = cluster([node("n1", "1C1G")], job("r", "1C1G@n1"), job("w", "1C1G", priority=1))
        own = registry(actions={"take-back": unallocate})
        result = accepted(snapshot, own, ["preempt", "take-back"], ["priority"])
        assert result.evictions
        assert not result.pipelined

    def test_what_allocate_placed_is_taken_back(self) -> None:
        def unallocate(session: Session) -> None:
            session.unallocate(session.task("g-1"))

        snapshot = cluster([node("n1", "1C1G")], job("g", "1C1G", "9C9G"))
        own = registry(actions={"take-back": unallocate})
        hold = {"name": "allocate", "arguments": {"unready": "hold"}}
        result = accepted(snapshot, own, [hold, "take-back"], ["gang"])
        assert result.tasks["g-1"].status is S.PENDING

    def test_a_reservation_is_taken_back(self) -> None:
        def unallocate(session: Session) -> None:
            session.unallocate(session.task("k-1"))

        snapshot = cluster([node("n1", "1C1G")], job("r", "1C1G@n1"), job("k", "1C1G>n1"))
        own = registry(actions={"take-back": unallocate})
        result = accepted(snapshot, own, ["take-back"], ["gang"])
        assert result.tasks["k-1"].status is S.PENDING
