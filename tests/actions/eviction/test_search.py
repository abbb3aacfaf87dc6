"""Searches for room by example: who goes, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.support.books import Saying, opened
from tests.support.clusters import cluster, job, node
from tests.support.eviction import (
    WHOLE_GANG,
    anybody,
    made_for,
    whole,
)

from batchsched import Scheduler, SchedulerConfig, Session
from batchsched.action import EvictionScope, make_room
from batchsched.actions.eviction.choosing import choose_units, members_of
from batchsched.plugin import TaskState, Verdict

# By example


def session_of(*jobs, size: str = "4C9G") -> Session:
    nodes = [node("n1", size), node("n2", size)]
    return opened(cluster(nodes, *jobs), [("own", Saying(preemptable=anybody))])


def whom(session: Session, uid: str, *, may_use_idle: bool = True) -> list[str]:
    with session.statement() as statement:
        make_room(
            session,
            statement,
            session.task(uid),
            scope=EvictionScope.OTHER_JOBS,
            may_use_idle=may_use_idle,
        )
        statement.commit()
    return [eviction.task_uid for eviction in session.evictions]


def test_the_least_valuable_go_first_and_only_as_many_as_needed() -> None:
    running = job("a", "1C1G@n1", "1C1G@n1", "1C1G@n1", minimum=1)
    assert whom(session_of(running, job("b", "3C1G")), "b-1") == ["a-3", "a-2"]


def test_one_large_victim_spares_the_small_ones_before_it() -> None:
    running = job("a", "2C1G@n1", "1C1G@n1", "1C1G@n1", minimum=1)
    assert whom(session_of(running, job("b", "2C1G")), "b-1") == ["a-3", "a-2"]
    running = job("a", "3C1G@n1", "1C1G@n1", minimum=1)
    assert whom(session_of(running, job("b", "3C1G")), "b-1") == ["a-1"]


def test_evictions_come_in_victim_order() -> None:
    running = job("a", *["1C1G@n1"] * 4, minimum=1)
    assert whom(session_of(running, job("b", "4C1G")), "b-1") == ["a-4", "a-3", "a-2", "a-1"]


def test_a_claimant_that_may_not_grow_lives_on_what_its_victims_held() -> None:
    running = job("a", "1C1G@n1", "1C1G@n1", minimum=1)
    assert whom(session_of(running, job("b", "3C1G")), "b-1") == ["a-2"]
    assert whom(session_of(running, job("b", "2C1G")), "b-1", may_use_idle=False) == ["a-2", "a-1"]
    assert whom(session_of(running, job("b", "3C1G")), "b-1", may_use_idle=False) == []


def test_nobody_takes_what_another_was_promised() -> None:
    running = job("a", "2C1G@n1", "2C1G@n1", minimum=1)
    session = session_of(running, job("b", "2C1G"), job("c", "2C1G"), size="4C9G")
    assert whom(session, "b-1") == ["a-2"]
    assert whom(session, "c-1") == ["a-2", "a-1"]
    session.check()


def test_what_the_share_does_not_reach_any_more_can_be_reclaimed() -> None:
    """r deserves 3 of 6 cpu: its gang of 3 is covered, until a job of more value takes it over."""
    snapshot = cluster(
        [node("n1", "4C0G"), node("n2", "2C0G")],
        job("gang", *["1C0G@n1"] * 3, priority=1, queue="r"),
        job("x", "1C0G@n1", queue="r"),
        job("y", "1C0G", priority=9, queue="r"),
        job("b", *["1C0G"] * 9, minimum=1),
        queues=("q", "r"),
    )
    session = opened(snapshot, [WHOLE_GANG, "proportion"])
    assert made_for(session, "b-1", EvictionScope.OTHER_QUEUES) == ["x-1"]
    assert made_for(session, "b-2", EvictionScope.OTHER_QUEUES) is None
    session.allocate(session.task("y-1"), session.node("n2"))
    assert made_for(session, "b-2", EvictionScope.OTHER_QUEUES) == ["gang-3", "gang-2", "gang-1"]


def test_making_room_says_whether_it_was_made_and_goes_from_node_to_node() -> None:
    """On n1 and n2 nobody is let go; n3 is the first that is enough."""
    safe = ("a-1", "a-2")

    def verdicts(_: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        return [Verdict.PROTECTED if c.uid in safe else Verdict.VICTIM for c in candidates]

    session = opened(
        cluster(
            [node(f"n{n}", "4C9G") for n in (1, 2, 3, 4)],
            job("a", "1C1G@n1", "1C1G@n2", "1C1G@n3", "1C1G@n4", minimum=1),
            job("b", "4C1G", "5C1G"),
        ),
        [("own", Saying(preemptable=verdicts))],
    )
    for uid, expected in (("b-1", ["a-3"]), ("b-2", None)):
        with session.statement() as statement:
            task = session.task(uid)
            made = make_room(
                session, statement, task, scope=EvictionScope.OTHER_JOBS, may_use_idle=True
            )
            assert made is (len(statement) > 0)
            evicted = [one.uid for one in statement.nodes_given_up()]
        assert (evicted if made else None) == expected


IMPORTANT = job("b", "2C0G", priority=9)


@pytest.mark.parametrize(("priority", "gone"), [(0, ["two-2"]), (5, ["one-1"])])
def test_surplus_goes_before_any_whole_job_that_is_as_important_on_whichever_node(
    priority: int, gone: list[str]
) -> None:
    session = whole(
        job("one", "2C0G@n1"),
        job("two", "2C0G@n2", "2C0G@n2", minimum=1, priority=priority),
        IMPORTANT,
        nodes=["2C0G", "4C0G"],
    )
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == gone


def test_the_fewest_tasks_go_and_the_first_node_wins_among_equals() -> None:
    session = whole(
        job("g", "2C0G@n1", "2C0G@n2", "2C0G@n4"),
        job("h", "1C0G@n2", "1C0G@n3"),
        job("k", "2C0G@n3", "2C0G@n4"),
        IMPORTANT,
        nodes=["2C0G", "3C0G", "3C0G", "4C0G"],
    )
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["k-2", "k-1"]
    session = whole(job("k", "2C0G@n2"), job("g", "2C0G@n1"), IMPORTANT, nodes=["2C0G", "2C0G"])
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["g-1"]
    pairs = job("k", "1C0G@n2", "1C0G@n2"), job("g", "1C0G@n1", "1C0G@n1")
    session = whole(*pairs, IMPORTANT, nodes=["2C0G", "2C0G"])
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["g-2", "g-1"]


def test_a_job_is_spared_as_one_and_surplus_that_goes_with_it_anyway_is_counted_once() -> None:
    # The surplus task of g goes first and is not enough; then all of g is, which has it.
    session = whole(
        job("g", "1C0G@n1", "1C0G@n1", "1C0G@n2", minimum=2),
        IMPORTANT,
        nodes=["2C0G", "1C0G"],
    )
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["g-3", "g-2", "g-1"]
    # Both jobs are taken for 4 cpu; the last alone is enough, so the first is spared.
    session = whole(
        job("small", "1C0G@n1"),
        job("large", "4C0G@n1", priority=1),
        job("b", "4C0G", priority=9),
        nodes=["5C0G"],
    )
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["large-1"]


def test_what_is_found_for_one_is_found_anew_for_the_next() -> None:
    """Among many searches of one sort each takes the first of the nodes that are left."""
    count = 6
    session = whole(
        *(job(f"r{n}", f"2C0G@n{n}") for n in range(1, count + 1)),
        job("b", *["2C0G"] * (count + 1), minimum=1, priority=9),
        nodes=["2C0G"] * count,
    )
    found = [made_for(session, f"b-{n}", EvictionScope.OTHER_JOBS) for n in range(1, count + 2)]
    assert found == [*([f"r{n}-1"] for n in range(1, count + 1)), None]


def test_units_are_taken_in_order_and_spared_from_the_last() -> None:
    session = session_of(job("a", "1C0G@n1", "1C0G@n1", "2C0G@n1", "1C0G@n2", minimum=1))
    a1, a2, a3, a4 = (session.task(f"a-{n}") for n in (1, 2, 3, 4))
    on = session.nodes[0]

    def chosen(cpu: int, *units: list[TaskState]) -> list[str] | None:
        found = choose_units(units, on, lambda freed: freed.covers((cpu * 1000, 0)))
        return None if found is None else [task.uid for task in members_of(found)]

    assert chosen(2, [a1], [a2], [a3]) == ["a-1", "a-2"]
    assert chosen(3, [a1], [a2], [a3]) == ["a-1", "a-3"]  # a-2 is spared before a-1
    assert chosen(2, [a1], [a4, a2]) == ["a-1", "a-4", "a-2"]
    assert chosen(2, [a1], [a1, a2, a4]) == ["a-1", "a-2", "a-4"]  # it goes with the rest
    assert chosen(3, [a1], [a4, a2]) is None  # what is elsewhere does not count
    assert chosen(0, [a1]) == []


@pytest.mark.parametrize("scope", [EvictionScope.OTHER_JOBS, EvictionScope.OTHER_QUEUES])
def test_room_that_is_there_without_victims_is_not_its_business(scope: EvictionScope) -> None:
    other = "q" if scope is EvictionScope.OTHER_JOBS else "r"
    say = Saying(**{scope.point: lambda _, candidates: [Verdict.PASS] * len(candidates)})
    session = opened(
        cluster(
            [node("n1", "2C2G")],
            job("a", "1C1G@n1", minimum=1, queue=other),
            job("b", "1C1G"),
            queues=("q", "r"),
        ),
        [("own", say)],
    )
    with session.statement() as statement:
        task = session.task("b-1")
        assert not make_room(session, statement, task, scope=scope, may_use_idle=True)
        assert len(statement) == 0


def test_a_node_without_enough_for_one_may_have_enough_for_the_next() -> None:
    """The gang f gives nothing; a-1 is too little for the first claimant."""
    session = opened(
        cluster(
            [node("n1", "4C4G")],
            job("f", "3C3G@n1", priority=-1),
            job("a", "1C1G@n1", minimum=0, priority=-1),
            job("large", "2C2G"),
            job("small", "1C1G"),
        ),
        ["priority", "gang"],
    )

    def made(uid: str) -> bool:
        with session.statement() as statement:
            task = session.task(uid)
            return make_room(
                session, statement, task, scope=EvictionScope.OTHER_JOBS, may_use_idle=True
            )

    for _ in range(2):
        assert [made(uid) for uid in ("large-1", "small-1")] == [False, True]


def test_the_search_for_the_fewest_goes_on_until_a_single_task_is_enough() -> None:
    session = whole(
        job("two", "1C0G@n1", "1C0G@n1"),
        job("one", "2C0G@n2"),
        job("b", "2C0G", priority=9),
        nodes=["2C0G", "2C0G"],
    )
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["one-1"]


def test_a_claim_too_goes_on_until_a_single_task_is_enough() -> None:
    snapshot = cluster(
        [node("n1", "2C0G"), node("n2", "2C0G"), node("n3", "2C0G")],
        job("covered", "2C0G@n3", queue="r", priority=9),
        job("two", "1C0G@n1", "1C0G@n1", queue="r"),
        job("one", "2C0G@n2", queue="r"),
        job("b", "2C0G"),
        job("c", "2C0G"),
        queues=("q", "r"),
    )
    config = SchedulerConfig.from_mapping(
        {
            "actions": "reclaim",
            "tiers": [
                {
                    "plugins": [
                        {"name": "priority"},
                        {"name": "gang", "arguments": {"atMinimum": "whole-job"}},
                    ]
                },
                {"plugins": [{"name": "capacity"}]},
            ],
        }
    )
    result = Scheduler(config).schedule(snapshot)
    assert [eviction.task_uid for eviction in result.evictions] == ["one-1"]


def test_a_claim_spares_the_last_taken_first() -> None:
    # Of one, one and two cpus three are enough: the second is spared, and not the first.
    snapshot = cluster(
        [node("n1", "4C0G"), node("n2", "4C0G")],
        job("core", "4C0G@n2", queue="r", priority=9),
        job("lent", "2C0G@n1", "1C0G@n1", "1C0G@n1", queue="r", minimum=0),
        job("b", "3C0G"),
        job("c", "1C0G"),
        queues=("q", "r"),
    )
    config = SchedulerConfig.from_mapping(
        {"actions": "reclaim", "tiers": [{"plugins": ["priority", "gang", "capacity"]}]}
    )
    result = Scheduler(config).schedule(snapshot)
    gone = {each.task_uid for each in result.evictions if each.for_task_uid == "b-1"}
    assert gone == {"lent-3", "lent-1"}


def test_of_whole_jobs_broken_ones_go_last_whatever_their_priority() -> None:
    session = whole(
        job("broken", "2C0G@n1", "9C0G", priority=-5),
        job("g", "2C0G@n1"),
        IMPORTANT,
        nodes=["4C0G"],
    )
    assert made_for(session, "b-1", EvictionScope.OTHER_JOBS) == ["g-1"]
