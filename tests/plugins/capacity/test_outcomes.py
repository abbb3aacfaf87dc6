"""What a result says of queues: shares, what is covered and on loan, and how it prints."""

from __future__ import annotations

from hypothesis import given, settings
from tests.plugins.capacity.test_reclaim_laws import capacity_of
from tests.plugins.capacity.worlds import (
    amount,
    capacity_scheduler,
    crowded,
    job,
    node,
    singles,
)

from batchsched import (
    CycleResult,
    Queue,
    QueueOutcome,
    QueueOutcomes,
    Resource,
    ResourceLimit,
    Snapshot,
    schedule,
)

SNAPSHOT = Snapshot(
    nodes=[node("n1", 12)],
    queues=[
        Queue(name="research"),
        Queue(name="vision", parent="research", guarantee=amount(2)),
        Queue(name="speech", parent="research", limit=ResourceLimit(milli_cpu=3000)),
        Queue(name="a-team-with-a-name-that-is-very-long"),
    ],
    jobs=[
        *singles("vision", "v", 8, on="n1"),
        *singles("speech", "s", 2, on="n1"),
        *singles("a-team-with-a-name-that-is-very-long", "a", 2),
        job("a-team-with-a-name-that-is-very-long", "wide", 4),
    ],
)


def test_each_queue_has_its_share_what_is_covered_and_what_is_on_loan() -> None:
    queues = capacity_scheduler().schedule(SNAPSHOT).queues
    vision = queues["vision"]
    assert vision.parent == "research"
    assert vision.fair_share == amount(5)
    assert vision.allocated == amount(8)
    assert vision.guarantee == amount(2)
    assert vision.covered == amount(5)
    assert vision.on_loan == amount(3)
    assert queues["speech"].limit == ResourceLimit(milli_cpu=3000)
    assert queues["speech"].on_loan == amount(0)
    research = queues["research"]
    assert (research.allocated, research.covered, research.on_loan) == (
        *(amount(10), amount(7)),
        amount(3),
    )


def test_it_prints_as_a_tree_that_fits_a_terminal() -> None:
    text = str(capacity_scheduler().schedule(SNAPSHOT).queues)
    assert text.splitlines() == [
        "a-team-with-a-…-is-very-long [....................] cpu 0 of 5",
        "research                     [##############~~~~~~] cpu 10 of 7, 3 on loan",
        "  speech                     [####################] cpu 2 of 2",
        "  vision                     [############~~~~~~~~] cpu 8 of 5, 3 on loan",
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_deep_trees_long_names_and_large_amounts_fit_a_terminal_too() -> None:
    names = [f"level-{number}" for number in range(1200)]
    gpu = "vendor.example.com/an-accelerator-with-a-long-name"
    much = Resource(milli_cpu=10**12, scalars={gpu: 10**9})
    outcomes = {
        name: QueueOutcome(parent=above, fair_share=much, allocated=much, on_loan=much)
        for name, above in zip(names, [None, *names], strict=False)
    }
    outcomes["队列" * 20] = QueueOutcome(fair_share=much)
    lines = str(QueueOutcomes(outcomes)).splitlines()
    assert len(lines) == 1201
    assert all(name in line for name, line in zip(names, lines, strict=False))
    assert max(map(len, lines)) <= 80
    assert lines[-1].startswith("队列队列队列队…队列队列队列  [....................] ")


def test_the_share_of_a_queue_is_told_on_every_level() -> None:
    session = capacity_scheduler().open(SNAPSHOT)
    told = {name: session.queue_share(queue) for name, queue in session.queues.items()}
    shares = {name: (share.deserved, share.allocated) for name, share in told.items() if share}
    assert shares == {
        "research": (amount(7), amount(10)),
        "vision": (amount(5), amount(8)),
        "speech": (amount(2), amount(2)),
        "a-team-with-a-name-that-is-very-long": (amount(5), amount(0)),
    }


def test_without_capacity_nothing_is_said_of_queues() -> None:
    assert not schedule(SNAPSHOT).queues or set(schedule(SNAPSHOT).queues) <= {
        queue.name for queue in SNAPSHOT.queues
    }


@settings(max_examples=30)
@given(crowded(states=True))
def test_what_is_on_loan_is_what_the_reference_does_not_cover(snapshot: Snapshot) -> None:
    result: CycleResult = capacity_scheduler().schedule(snapshot)
    capacity = capacity_of(snapshot)
    for leaf in capacity.leaves():
        covered = capacity.size(t for unit in capacity.covered(leaf) for t in unit.tasks)
        there = capacity.size(t for unit in capacity.units_of_leaf(leaf) for t in unit.tasks)
        outcome = result.queues[leaf]
        for dimension in capacity.dimensions:
            assert outcome.covered.get(dimension) == covered[dimension]
            assert outcome.on_loan.get(dimension) == there[dimension] - covered[dimension]
            assert outcome.fair_share.get(dimension) == capacity.share[dimension][leaf]


def test_a_name_stays_in_its_line_and_controls_no_terminal() -> None:
    printed = str(QueueOutcomes({"a\nb": QueueOutcome(), "c\x1b[31m": QueueOutcome()}))
    assert [line.split(" ")[0] for line in printed.splitlines()] == [r"a\nb", r"c\x1b[31m"]
