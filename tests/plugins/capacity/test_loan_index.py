"""What reclaim remembers of nodes between searches is what finding it out anew gives."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import (
    amount,
    capacity_config,
    capacity_scheduler,
    job,
    node,
)

from batchsched import (
    JobInfo,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Taint,
    TaintEffect,
    TaskStatus,
)
from batchsched.actions import claim_turns
from batchsched.actions.eviction.claim_shortage import ClaimSearch, NodeShortage
from batchsched.actions.eviction.claiming import make_room_by_claim
from batchsched.actions.eviction.open_nodes import OpenNodes
from batchsched.plugin import Claim, ClaimStage
from batchsched.plugins.capacity.claims import QueueClaim
from batchsched.plugins.capacity.projected_accounts import ProjectedAccounts
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.records import NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector

Known = dict[str, object]


def known_of(session: Session, claim: QueueClaim) -> Known:
    """Whom each leaf may lose on each node, and what that comes to at most."""
    found: Known = {}
    for where in session.nodes:
        leaves = sorted(claim.book.index.leaves_on(where.index))
        units = [(leaf, u.tasks, u.victims) for leaf in leaves for u in _units(claim, leaf, where)]
        found[where.name] = units, [claim.at_most(where, stage) for stage in ClaimStage]
    return found


def _units(claim: QueueClaim, leaf: int, where: NodeState) -> list[EvictionUnit]:
    return [
        EvictionUnit(u.job, list(u.tasks), list(u.victims), u.value)
        for u in claim.book.on_loan(leaf, where)
    ]


def holds_at_most(session: Session, claim: QueueClaim, where: NodeState) -> list[Vector]:
    """The same by plain loops, stage by stage."""
    book = claim.book
    there = [
        (unit, book.may_keep_share(leaf))
        for leaf in range(len(claim.accounts.tree.names))
        if claim.accounts.tree.is_leaf(leaf) and leaf in book.index.leaves_on(where.index)
        for unit in book.on_loan(leaf, where)
    ]
    stages = (
        [unit for unit, may_keep in there if may_keep and (unit.is_surplus or unit.is_backfill)],
        [unit for unit, may_keep in there if may_keep],
        [unit for unit, _ in there],
    )
    sums: list[Vector] = []
    for units in stages:
        victims = {v.uid: v for u in units for v in u.victims if v.node is where}
        zero = session.ledger.dimensions.zero
        sums.append(tuple(map(sum, zip(zero, *(v.resreq for v in victims.values()), strict=True))))
    return sums


def check_who_may_keep_its_share(session: Session, claim: QueueClaim) -> None:
    """No unit of a leaf that is left out could go without the leaf falling below its share."""
    after = ProjectedAccounts(claim.accounts)
    listed = {leaf for where in session.nodes for leaf in claim.book.index.leaves_on(where.index)}
    for leaf in sorted(listed):
        units = [unit for where in session.nodes for unit in claim.book.on_loan(leaf, where)]
        if not claim.book.may_keep_share(leaf):
            for unit in units:
                assert not unit.is_backfill
                assert not after.keeps_share(leaf, after.size_of(unit))


class Checked:
    """Checks, before each search, what earlier ones left."""

    def __init__(self) -> None:
        self.searches = 0
        self.closed = 0

    def make_room(
        self,
        session: Session,
        statement: Statement,
        task: TaskState,
        claim: Claim,
        *,
        curable: bool = False,
    ) -> bool:
        assert isinstance(claim, QueueClaim)
        self.searches += 1
        claim.nodes()
        before = known_of(session, claim)
        claim.book.index.units.clear()
        claim.book.index.sums.clear()
        assert str(known_of(session, claim)) == str(before)
        check_who_may_keep_its_share(session, claim)
        for stage in ClaimStage:
            claim.nodes_at(stage)
        search = ClaimSearch(session, task, claim)
        large_enough = session.node_room.large_enough(task.init_resreq)
        for where in session.nodes:
            expected = holds_at_most(session, claim, where)
            assert [claim.at_most(where, stage) for stage in ClaimStage] == expected
            for stage in ClaimStage:
                known = OpenNodes.known_to(session, task, claim, stage)
                if where.slot in large_enough and where.slot not in known.slots:
                    self.closed += 1
                    short = NodeShortage(search, where, is_refused=False)
                    assert not short.may_end_without(claim.at_most(where, stage))
        return make_room_by_claim(session, statement, task, claim, curable=curable)


def nearly_full(random: Random) -> Snapshot:
    """A nearly full cluster of jobs on several nodes; some gangs that wait find room in part."""
    nodes = [node(f"n{number}", random.randrange(4, 9)) for number in range(5)]
    places = []
    for where in nodes:
        left = where.allocatable.milli_cpu
        while left:
            size = min(left, random.choice((1000, 1000, 2000, 3000)))
            if random.random() < 0.9:
                places.append((where.name, size / 1000))
            left -= size
    random.shuffle(places)
    queues = [Queue(name=top, weight=random.randrange(1, 4)) for top in ("x", "y")]
    for top in ("x", "y"):
        queues += [
            Queue(name=f"{top}{number}", parent=top, deserved=amount(random.randrange(7)))
            for number in (1, 2, 3)
        ]
    lenders, claimants = ("x1", "x2", "y1"), ("x3", "y2", "y3")
    jobs: list[JobInfo] = []
    while places:
        mine = places[: random.choice((1, 2, 4))]
        places = places[len(mine) :]
        template = job(random.choice(lenders), f"r{len(jobs):02}", len(mine))
        tasks = [
            evolve(task, resreq=amount(size), status=TaskStatus.RUNNING, node_name=where)
            for task, (where, size) in zip(template.tasks, mine, strict=True)
        ]
        minimum = random.randrange(len(mine) + 1)
        jobs.append(evolve(template, tasks=tasks, min_available=minimum))
    for number in range(12):
        count = random.choice((1, 1, 2, 3))
        size = random.randrange(1, 5)
        name = f"w{number}"
        minimum = random.randrange(1, count + 1)
        jobs.append(job(random.choice(claimants), name, count, size=size, minimum=minimum))
    return Snapshot(nodes=nodes, queues=queues, jobs=jobs)


@given(
    st.integers(0, 2**32),
    st.sampled_from([["reclaim"], ["reclaim", "allocate"], ["allocate", "reclaim"]]),
    st.sampled_from(["whole-job", "protect"]),
)
@settings(max_examples=30)
def test_what_is_remembered_of_nodes_is_what_finding_it_out_anew_gives(
    seed: int, actions: list[str], at_minimum: str
) -> None:
    conf = capacity_config(*actions, at_minimum=at_minimum)
    checked = Checked()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claim_turns, "make_room_by_claim", checked.make_room)
        Scheduler(SchedulerConfig.from_mapping(conf)).schedule(nearly_full(Random(seed)))


def test_nodes_where_loans_are_too_little_are_not_visited_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On each of 20 nodes a task of 2 cpus may be on loan, and each claimant asks for 3 of the 4.
    nodes = [node(f"n{number:02}", 4) for number in range(20)]
    running: list[JobInfo] = []
    for where in nodes:
        running += [
            job("own", f"own-{where.name}", size=2, on=where.name),
            job("lender", f"loan-{where.name}", size=2, on=where.name),
        ]
    claimants = [f"claimant-{number}" for number in range(5)]
    waiting = [job(name, name, size=3) for name in claimants]
    queues = [
        Queue(name="own", deserved=amount(40)),
        Queue(name="lender"),
        *(Queue(name=name, deserved=amount(8)) for name in claimants),
    ]
    visited: list[str] = []
    original = QueueClaim.at_most

    def at_most(self: QueueClaim, where: NodeState, stage: ClaimStage) -> Vector:
        visited.append(where.name)
        return original(self, where, stage)

    monkeypatch.setattr(QueueClaim, "at_most", at_most)
    searches: list[str] = []
    nodes_of = QueueClaim.nodes

    def searched(self: QueueClaim) -> Collection[int]:
        searches.append(self.accounts.tree.names[self.leaf])
        return nodes_of(self)

    monkeypatch.setattr(QueueClaim, "nodes", searched)
    result = capacity_scheduler("reclaim").schedule(
        Snapshot(nodes=nodes, queues=queues, jobs=[*running, *waiting])
    )
    assert result.evictions == ()
    assert sorted(searches) == claimants
    # The lender's share covers 12 tasks. Where the others run it is looked at once at each stage,
    # and by later claimants never again.
    assert len(visited) == 3 * 8


def test_a_node_is_open_again_once_a_gang_has_given_its_place_back() -> None:
    # One cpu is idle and two are on loan. The gang's first task takes the idle one, and then its
    # second finds too little; once the first has left, a single task of that size does not.
    gang = job("first", "gang", 2, minimum=2)
    small, large = gang.tasks
    gang = evolve(gang, tasks=[evolve(small, priority=9), evolve(large, resreq=amount(3))])
    jobs = [
        job("own", "own", size=2, on="n1"),
        job("lender", "loan", size=2, on="n1"),
        gang,
        job("second", "single", size=3),
    ]
    queues = [
        Queue(name="own", deserved=amount(2)),
        Queue(name="lender", weight=0),
        Queue(name="first", deserved=amount(4), priority=2),
        Queue(name="second", deserved=amount(3), priority=1),
    ]
    # A second node, which takes nobody, makes room for all that is deserved.
    closed = Taint(key="closed", effect=TaintEffect.NO_SCHEDULE)
    nodes = [node("n1", 5), node("n2", 20, taints=[closed])]
    result = capacity_scheduler("reclaim").schedule(Snapshot(nodes=nodes, queues=queues, jobs=jobs))
    assert [eviction.task_uid for eviction in result.evictions] == ["loan-00"]
    assert [promise.task_uid for promise in result.pipelined] == ["single-00"]
