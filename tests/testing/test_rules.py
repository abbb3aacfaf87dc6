"""What plugins and actions of one's own keep, if their author says so; broken ones are found.

Each of these was sown by hand: an action or a gang with one mistake, small enough to look right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pytest
from attrs import evolve
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from tests.support.clusters import amount, cluster, job, node
from tests.support.doctoring import placed
from tests.support.expecting import with_task
from tests.testing.test_invariants_and_ones_own import registry

from batchsched import (
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    TaskStatus,
)
from batchsched.plugin import JobState, NodeState, TaskState
from batchsched.state.records import Fit
from batchsched.state.vectors import fits
from batchsched.testing import (
    INVARIANTS,
    RULES,
    ClusterMachine,
    InvariantViolation,
    check_cycle,
    snapshots,
)

pytestmark = pytest.mark.slow

OFF = dict.fromkeys(
    (
        *("affinity", "constraints", "dependencies", "durations", "endings", "init_requests"),
        *("invalid_jobs", "overcommitted", "promises", "reservations", "scalars", "trees"),
        *("unknown_queues", "other_tasks", "backfill", "crowded"),
        *("devices", "holds", "protection", "topologies"),
    ),
    False,
)
"""Everything that the rules are not about, so that what they are about is frequent."""


def drawn(*always: str, **more: bool) -> SearchStrategy[Snapshot]:
    on = {"max_nodes": 1, "min_jobs": 2, "max_jobs": 3, "max_tasks": 3, "always": always}
    return snapshots(**{**OFF, **dict.fromkeys(always, True), **more}, **on)  # type: ignore[arg-type]


ONE_QUEUE = drawn("running", "priorities", "critical", queues=False)
RUNNING_GANGS = drawn("running", "gangs", queues=False)
QUEUES = drawn("running", "queues")
RESERVED = drawn("reservations")
GANGS = drawn("gangs", running=False)
PROMISED = st.just(
    cluster(
        [node("n1", "2C2G")],
        job("r", "1C1G@n1", minimum=0),
        job("g", "1C1G", "1C1G", priority=1),
    )
)
"""One of the gang's tasks can start, and one be promised the place of another."""
TOGETHER = with_task(
    cluster(
        [node("n1", "2C2G", labels={"zone": "a"})],
        job("r", "1C1G@n1", "1C1G@n1", minimum=0),
        job("w", "1C1G", priority=1),
    ),
    "w-1",
    pod_affinity=PodAffinity(
        required=[
            PodAffinityTerm(selector=LabelSelector(match_labels={"app": "r"}), topology_key="zone")
        ]
    ),
)
NEAR_ITS_VICTIM = st.just(with_task(TOGETHER, "r-1", labels={"app": "r"}))
"""A task that must be near the one that goes for it."""
HEAVY_TO_START = drawn("init_requests")
TIERS: Sequence[Mapping[str, Sequence[str]]] = ({"plugins": ["gang", "predicates"]},)


def found(
    run: Callable[[Session], None],
    examples: SearchStrategy[Snapshot],
    *rules: str,
    plugins: Mapping[str, object] | None = None,
    actions: str = "own",
    tiers: Sequence[Mapping[str, Sequence[str]]] = TIERS,
    most: int = 300,
) -> InvariantViolation | None:
    """Run an action of one's own in many examples; return the first violation, not shrunk."""
    own = registry(plugins, {"own": run})
    config = SchedulerConfig.from_mapping({"actions": actions, "tiers": list(tiers)}, registry=own)
    scheduler = Scheduler(config, own)

    @settings(max_examples=most, phases=[Phase.generate])
    @given(examples)
    def cycles(snapshot: Snapshot) -> None:
        check_cycle(
            snapshot,
            scheduler.schedule(snapshot),
            config,
            registry=own,
            invariants=[*INVARIANTS, *rules],
        )

    try:
        cycles()
    except InvariantViolation as violation:
        return violation
    return None


def waiting(session: Session) -> list[TaskState]:
    return [
        task
        for job in session.jobs.values()
        for task in session.in_task_order(job.having(TaskStatus.PENDING))
        if not task.is_best_effort
    ]


def victims(session: Session, node: NodeState, claimant: TaskState) -> list[TaskState]:
    """Whom a careful action may evict from a node: lesser jobs of the same queue, no criticals."""
    mine = claimant.job
    assert mine is not None
    return [
        task
        for task in list(node.tasks.values())
        if task.status is TaskStatus.RUNNING
        and task.job is not None
        and task.job.in_session
        and task.job.queue is mine.queue
        and task.job.info.priority < mine.info.priority
        and task.info.namespace != "kube-system"
        and not task.info.priority_class_name
    ]


Choose = Callable[[Session, NodeState, TaskState], list[TaskState]]


def swap(
    session: Session,
    choose: Choose = victims,
    *,
    promises: bool = True,
    wastes: bool = False,
    keeps_gangs: bool = True,
) -> None:
    """Evict for each waiting job of one task what makes room for it on the first node that can."""
    for claimant in waiting(session):
        owner = claimant.job
        assert owner is not None
        if owner.min_available > 1:
            continue
        for place in session.nodes:
            if place.reserved and any(place.reserved):
                continue
            with session.statement() as statement:
                for victim in choose(session, place, claimant):
                    assert victim.job is not None
                    if keeps_gangs and victim.job.ready_count <= victim.job.min_available:
                        continue
                    if not wastes and place.fits(claimant, Fit.LATER):
                        break
                    statement.evict(victim, claimant=claimant)
                if not statement.evictions or not place.fits(claimant, Fit.LATER):
                    continue
                if promises:
                    statement.pipeline(claimant, place)
                statement.commit()
                break


EVICTING = (
    "promises_can_be_kept",
    "gangs_stay_whole",
    "claimants_come_whole",
    "places_are_promised",
    "evictions_are_needed",
    "critical_tasks_stay",
    "higher_priorities_stay",
    "queues_keep_apart",
)


def test_a_careful_action_is_not_blamed() -> None:
    evictions = 0

    def careful(session: Session) -> None:
        nonlocal evictions
        swap(session)
        evictions += sum(
            t.status is TaskStatus.RELEASING for j in session.jobs.values() for t in j.tasks
        )

    assert found(careful, ONE_QUEUE, *EVICTING, "closed_nodes_stay_closed", most=120) is None
    assert evictions


def anybody(session: Session, node: NodeState, claimant: TaskState) -> list[TaskState]:
    return [
        task
        for task in list(node.tasks.values())
        if task.status is TaskStatus.RUNNING
        and task.job is not None
        and task.job.in_session
        and task.job is not claimant.job
    ]


@pytest.mark.parametrize(
    ("run", "rule"),
    [
        (partial(swap, promises=False), "places_are_promised"),
        (partial(swap, promises=False), "evictions_are_needed"),
        (partial(swap, wastes=True), "evictions_are_needed"),
        (swap, "promises_can_be_kept"),
        (partial(swap, choose=anybody), "critical_tasks_stay"),
        (partial(swap, choose=anybody, keeps_gangs=False), "queues_keep_apart"),
        (partial(swap, choose=anybody), "higher_priorities_stay"),
        (partial(swap, choose=anybody, keeps_gangs=False), "gangs_stay_whole"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_evictions_that_break_a_rule(run: Callable[[Session], None], rule: str) -> None:
    special = {
        "queues_keep_apart": QUEUES,
        "gangs_stay_whole": RUNNING_GANGS,
        "promises_can_be_kept": NEAR_ITS_VICTIM,
    }
    examples = special.get(rule, ONE_QUEUE)
    violation = found(run, examples, rule, most=2000)
    assert violation is not None
    assert violation.invariant == rule


def test_nothing_is_assumed_without_rules() -> None:
    assert found(partial(swap, choose=anybody, promises=False), ONE_QUEUE, most=30) is None


def start(session: Session, task: TaskState, node: NodeState) -> None:
    with session.statement() as statement:
        statement.allocate(task, node)
        statement.commit()


def first_node(session: Session, *, by_start: bool = True, open_only: bool = True) -> None:
    """Place each waiting task of jobs that need no others on the first node with room."""
    for task in waiting(session):
        for place in session.nodes:
            need = task.init_resreq if by_start else task.resreq
            is_closed = any(place.reserved) and open_only
            assert task.job is not None
            if fits(need, place.room(Fit.NOW)) and not is_closed and task.job.min_available <= 1:
                if session.placement.refusal(task, place) is None:
                    start(session, task, place)
                break


def test_placements_that_fit_only_what_they_hold() -> None:
    violation = found(partial(first_node, by_start=False), HEAVY_TO_START)
    assert violation is not None
    assert violation.invariant == "starts"


def test_placements_on_closed_nodes() -> None:
    violation = found(
        partial(first_node, open_only=False),
        RESERVED,
        "closed_nodes_stay_closed",
    )
    assert violation is not None
    assert violation.invariant == "closed_nodes_stay_closed"
    assert found(first_node, RESERVED, *(rule.__name__ for rule in RULES), most=40) is None


class OwnGang:
    """A gang of one's own, that decides when a job is ready."""

    def __init__(self, off: int = 0, *, counts_promises: bool = False) -> None:
        self._off = off
        self._counts_promises = counts_promises

    def job_ready(self, job: JobState, /) -> bool:
        promised = job.count(TaskStatus.PIPELINED) if self._counts_promises else 0
        return job.ready_count + promised + self._off >= job.min_available

    def job_pipelined(self, job: JobState, /) -> bool:
        coming = job.ready_count + job.count(TaskStatus.PIPELINED)
        return coming + self._off >= job.min_available


def of_gang(
    gang: OwnGang, examples: SearchStrategy[Snapshot], *, most: int = 300
) -> InvariantViolation | None:
    return found(
        lambda _: None,
        examples,
        "gangs_start_whole",
        plugins={"own-gang": gang},
        actions="allocate, preempt, own",
        tiers=[{"plugins": ["own-gang", "priority", "predicates"]}],
        most=most,
    )


def test_gangs_of_ones_own() -> None:
    assert of_gang(OwnGang(), GANGS, most=40) is None
    for gang, examples in ((OwnGang(1), GANGS), (OwnGang(counts_promises=True), PROMISED)):
        violation = of_gang(gang, examples)
        assert violation is not None
        assert violation.invariant == "gangs_start_whole"


def test_claimants_that_never_come_whole() -> None:
    def whatever(session: Session) -> None:
        for task in waiting(session):
            for place in session.nodes:
                for victim in anybody(session, place, task):
                    session.evict(victim, claimant=task)
                    return

    violation = found(whatever, ONE_QUEUE, "claimants_come_whole")
    assert violation is not None


def test_a_violation_of_a_rule_is_shown_as_code() -> None:
    violation = found(partial(swap, choose=anybody, keeps_gangs=False), QUEUES, "queues_keep_apart")
    assert violation is not None
    code = violation.as_code().rstrip()
    assert code.endswith('config, invariants=["queues_keep_apart"], registry=registry)')


def test_the_machine_checks_rules() -> None:
    own = registry(actions={"own": partial(swap, choose=anybody, keeps_gangs=False)})

    class Machine(ClusterMachine):
        config = SchedulerConfig.from_mapping(
            {"actions": "own", "tiers": [{"plugins": ["predicates"]}]}, registry=own
        )
        cycle_invariants = (*INVARIANTS, "queues_keep_apart")
        registry = own

    machine = Machine()
    machine.change(
        cluster(
            [node("n1", "1C1G")],
            job("r", "1C1G@n1"),
            job("w", "1C1G", queue="q2"),
            queues=["q", "q2"],
        )
    )
    with pytest.raises(InvariantViolation, match="queues_keep_apart: task 'r-1' is evicted by own"):
        machine.run_cycle()


class TestStarts:
    """By hand: what fits in some order, and what in none."""

    NODE = node("n1", "4C4G")

    @staticmethod
    def checked(*tasks: tuple[str, str]) -> None:
        jobs = [job(f"j{number}", held) for number, (held, _) in enumerate(tasks, start=1)]
        heavy = [
            evolve(each, tasks=[evolve(each.tasks[0], init_resreq=amount(start))])
            for each, (_, start) in zip(jobs, tasks, strict=True)
        ]
        snapshot = cluster([TestStarts.NODE], *heavy)
        result = Scheduler().schedule(snapshot)
        for each in heavy:
            result = placed(result, each.tasks[0].uid, TaskStatus.BINDING, "n1")
        check_cycle(snapshot, result, invariants=["starts"])

    def test_the_heavy_one_first(self) -> None:
        self.checked(("1C1G", "4C4G"), ("3C3G", "3C3G"))

    def test_each_needs_what_the_others_leave(self) -> None:
        self.checked(("1C1G", "2C2G"), ("1C1G", "3C3G"), ("1C1G", "4C4G"))

    def test_two_that_need_everything(self) -> None:
        with pytest.raises(InvariantViolation, match="in any order, by what they need to start"):
            self.checked(("1C1G", "4C4G"), ("1C1G", "4C4G"))

    def test_one_that_never_fits(self) -> None:
        with pytest.raises(InvariantViolation, match="'j1-1': 5000 cpu"):
            self.checked(("1C1G", "5C4G"))
