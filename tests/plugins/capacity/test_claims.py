"""Whom reclaim evicts for whom: the scenarios X1 to X6 (which are Q6) and Q7, and others."""

from __future__ import annotations

import pytest
from attrs import evolve
from tests.plugins.capacity.worlds import amount, capacity_scheduler, evicted, job, node, singles
from tests.support.cycles import Cycles

from batchsched import (
    CycleResult,
    NodeInfo,
    Queue,
    ResourceLimit,
    Snapshot,
    WhyPending,
)


def labelled(name: str, cpus: float, gpus: float = 0) -> NodeInfo:
    return evolve(node(name, cpus, gpus), labels={"name": name})


class TestExamplesOnWhichSchedulersDiffer:
    X1 = (
        [node("n1", 8)],
        [Queue(name="q1", deserved=amount(3)), Queue(name="q2", deserved=amount(5))],
        [job("q1", "four", size=4, on="n1"), job("q2", "one", on="n1"), job("q2", "more", size=4)],
    )

    def test_x1_a_task_larger_than_its_share_goes_once(self) -> None:
        assert evicted(*self.X1)[0] == ["four-00"]

    def test_x1_it_does_not_come_back_for_its_place(self) -> None:
        nodes, queues, jobs = self.X1
        start = Snapshot(nodes=nodes, queues=queues, jobs=jobs)
        living = Cycles(capacity_scheduler("reclaim", "allocate"), start)
        evictions = []
        for _ in range(6):
            evictions += [eviction.task_uid for eviction in living.cycle().evictions]
            living.step()
        assert evictions == ["four-00"]

    def test_x2_only_what_is_short_counts(self) -> None:
        queues = [
            Queue(name="a", deserved=amount(30, 3)),
            Queue(name="b", deserved=amount(30, 3)),
            Queue(name="c", deserved=amount(40, 2)),
        ]
        running = [
            *singles("b", "b", 3, size=25, gpus=1, on="n1"),
            *singles("c", "c", 5, size=1, gpus=1, on="n1"),
        ]
        waiting = job("a", "a", size=1, gpus=1)
        later = job("a", "later", size=40, at=1)
        gone, _ = evicted([node("n1", 100, 8)], queues, [*running, waiting, later])
        assert gone == ["c04-00", "b02-00"]  # gpus of c for the first, cpus of b for the second

    def test_x3_only_below_the_queue_that_holds_more_than_its_share(self) -> None:
        queues = [
            Queue(name="X", deserved=amount(6)),
            Queue(name="x1", parent="X", deserved=amount(3)),
            Queue(name="x2", parent="X", deserved=amount(3)),
            Queue(name="Y", deserved=amount(6)),
            Queue(name="y1", parent="Y", deserved=amount(3)),
            Queue(name="y2", parent="Y", deserved=amount(3)),
        ]
        jobs = [
            *singles("x2", "x", 6, on="n1"),
            *singles("y1", "y", 6, on="n1"),
            job("y2", "claimant"),
        ]
        assert evicted([node("n1", 12)], queues, jobs)[0] == ["y05-00"]

    def test_x4_not_from_a_queue_within_its_share_below_one_that_is_not(self) -> None:
        queues = [
            Queue(name="X", deserved=amount(6)),
            Queue(name="x1", parent="X", deserved=amount(3)),
            Queue(name="x2", parent="X", deserved=amount(3)),
            Queue(name="Y", deserved=amount(6)),
            Queue(name="y1", parent="Y"),
        ]
        jobs = [
            job("x1", "a", size=2, on="g"),
            *singles("x2", "x", 7, on="n1"),
            *singles("y1", "y", 3, on="n1"),
            job("y1", "claimant", size=2, only="g"),
        ]
        assert evicted([labelled("g", 2), labelled("n1", 10)], queues, jobs)[0] == []

    X5 = (Queue(name="a", deserved=amount(10)), Queue(name="b", deserved=amount(10)))

    @pytest.mark.parametrize(("at_minimum", "count"), [("whole-job", 20), ("protect", 0)])
    def test_x5_a_gang_larger_than_its_share_goes_as_a_whole(
        self, at_minimum: str, count: int
    ) -> None:
        jobs = [job("b", "gang", 20, minimum=20, on="n1"), job("a", "a", 10, minimum=10)]
        gone, _ = evicted([node("n1", 20)], self.X5, jobs, at_minimum=at_minimum)
        assert len(gone) == count

    # b's share is 19: a tolerance of 0.05 of that is not enough for 20.
    @pytest.mark.parametrize(("tolerance", "count"), [(0, 20), (0.05, 20), (0.1, 0)])
    def test_x5_a_tolerance_spares_what_exceeds_a_share_by_little(
        self, tolerance: float, count: int
    ) -> None:
        queues = [Queue(name="a"), Queue(name="b")]
        jobs = [job("b", "gang", 20, minimum=20, on="n1"), job("a", "a", 1)]
        gone, _ = evicted([node("n1", 20)], queues, jobs, tolerance=tolerance)
        assert len(gone) == count

    def test_x5_a_tolerance_spares_nobody_from_what_a_queue_deserves_and_can_get(self) -> None:
        jobs = [job("b", "gang", 20, minimum=20, on="n1"), job("a", "a", 1)]
        gone, _ = evicted([node("n1", 20)], self.X5, jobs, tolerance=0.1)
        assert len(gone) == 20

    def test_x6_shares_that_do_not_come_out_even_move_nothing(self) -> None:
        queues = [Queue(name="a"), *(Queue(name=name, creation_time=1) for name in "bc")]
        jobs = [
            *singles("a", "a", 3, on="n1"),
            *singles("b", "b", 4, on="n1"),
            *singles("c", "c", 3, on="n1"),
            *(one for queue in "abc" for one in singles(queue, f"more-{queue}", 3)),
        ]
        gone, result = evicted([node("n1", 10)], queues, jobs)
        assert gone == []
        reason = result.pending["more-a00-00"]
        assert reason.why is WhyPending.ABOVE_FAIR_SHARE
        assert "queue 'a' would hold 4 cpu, 0.667 more than its share of 3.333" in reason.text
        assert reason.refusal is not None
        assert reason.refusal.queue == "a"
        assert reason.refusal.excess is not None
        assert reason.refusal.excess.most == 3333


class TestWhatAQueueIsToldThatMayNotClaim:
    """Which right is lacking, and by how much."""

    @staticmethod
    def told(gpus: int, *, deserved: tuple[float, float], more: float = 1) -> str:
        """What a hears that has some gpus of 8, b having the others, and asks for more."""
        weight = 0 if any(deserved) else 1  # with nothing of the surplus, or half of it
        queues = [Queue(name="a", deserved=amount(*deserved), weight=weight), Queue(name="b")]
        jobs = [
            *singles("a", "runs", gpus, size=0, gpus=1, on="n1"),
            *singles("b", "b", 8 - gpus, size=0, gpus=1, on="n1"),
            *singles("b", "more", 9, size=0, gpus=1, at=1),
            job("a", "a", size=0, gpus=more),
        ]
        _, result = evicted([node("n1", 4, 8)], queues, jobs)
        refusal = result.pending["a-00"].refusal
        assert refusal is not None
        return refusal.text

    def test_what_it_deserves_is_met(self) -> None:
        assert self.told(4, deserved=(0, 4)) == (
            "queue 'a' would hold 5 GPUs, 1 more than its share of 4; what it deserves, 4, is met"
        )

    def test_what_it_deserves_would_be_exceeded(self) -> None:
        assert self.told(3, deserved=(0, 4), more=2) == (
            "queue 'a' would hold 5 GPUs, 1 more than its share of 4; "
            "what it deserves, 4, would be exceeded by 1"
        )

    def test_it_deserves_nothing(self) -> None:
        assert self.told(4, deserved=(0, 0)) == (
            "queue 'a' would hold 5 GPUs, 1 more than its share of 4"
        )


class TestCover:
    QUEUES = (Queue(name="a", weight=5), Queue(name="b"))

    def world(self, only: str | None) -> list[object]:
        return [
            [labelled("n1", 5), labelled("n2", 1)],
            self.QUEUES,
            [
                job("a", "z", size=5, on="n1"),
                job("a", "w", size=1, on="n2", at=1, only="n2"),
                job("b", "claimant", only=only),
            ],
        ]

    def test_q7_what_is_borrowed_does_not_expose_what_is_covered(self) -> None:
        assert evicted(*self.world(None))[0] == ["w-00"]  # type: ignore[arg-type]

    def test_q7_what_is_covered_is_never_evicted(self) -> None:
        assert evicted(*self.world("n1"))[0] == []  # type: ignore[arg-type]

    def test_the_reason_says_who_is_covered(self) -> None:
        _, result = evicted(*self.world("n1"))  # type: ignore[arg-type]
        assert result.pending["claimant-00"].text.endswith(
            "reclaim searched 1 node with 1 candidate: "
            "covered by the fair share of queue 'a': 1, would still be 1 cpu short on n1"
        )

    def test_the_reason_says_which_queue_above_has_no_more_than_its_share(self) -> None:
        """X4: x1 runs what could make room, and X as a whole is within its share."""
        queues = [
            *(Queue(name=name, deserved=amount(6)) for name in "XY"),
            *(Queue(name=f"x{i}", parent="X", deserved=amount(3)) for i in (1, 2)),
            Queue(name="y1", parent="Y", deserved=amount(6)),
        ]
        jobs = [
            *singles("x1", "a", 6, on="n1"),
            *singles("x2", "c", 3, only="n3"),
            job("y1", "b", size=4, only="n1"),
            *singles("y1", "d", 2, on="n2"),
        ]
        _, result = evicted([labelled("n1", 6), labelled("n2", 6)], queues, jobs)
        assert (
            result.pending["b-00"]
            .text.partition("6 candidates: ")[2]
            .startswith(
                "covered by the fair share of queue 'x1': 3, "
                "of queue 'X', which has no more than its fair share of cpu: 3"
            )
        )

    def test_the_reason_says_who_has_no_more_than_it_deserves(self) -> None:
        # By what it deserves, a may have 2; b has less than it deserves itself, but with gpus.
        queues = [Queue(name="a", deserved=amount(2)), Queue(name="b", deserved=amount(4))]
        jobs = [
            job("a", "waits", size=2),
            job("b", "large", size=3, gpus=1, on="n1"),
        ]
        _, result = evicted([node("n1", 3, 1)], queues, jobs)
        assert (
            "of queue 'b', which has no more than what it deserves of cpu: 1"
            in result.pending["waits-00"].text
        )

    def test_the_reason_names_the_dimensions_of_one_share(self) -> None:
        # Of gpus b has more than its fair share, but no more than it deserves.
        queues = [Queue(name="a", deserved=amount(2, 2)), Queue(name="b", deserved=amount(1, 2))]
        jobs = [job("a", "waits", size=2, gpus=2), job("b", "large", size=6, gpus=2, on="n1")]
        _, result = evicted([node("n1", 7, 2), node("n2", 2)], queues, jobs)
        report = result.pending["waits-00"].evictions[0]
        assert dict(report.out) == {"of queue 'b', which has no more than its fair share of cpu": 1}

    def test_the_reason_says_by_how_much_a_queue_above_would_exceed_which_share(self) -> None:
        # What d has on loan is of no use to a: only n1 fits, where all is of another department.
        queues = [
            *(Queue(name=name) for name in "def"),
            *(Queue(name=name, parent="d") for name in "ab"),
        ]
        jobs = [
            job("a", "waits", only="n1"),
            *singles("b", "b", 3, on="n2"),
            *singles("e", "e", 6, on="n1"),
            job("f", "giant", size=10),
        ]
        _, result = evicted([labelled("n1", 6), labelled("n2", 3)], queues, jobs)
        assert (
            "out of reach, as queue 'd' would hold 4 cpu, 1 more than its fair share: 3"
            in result.pending["waits-00"].text
        )

    def test_the_most_valuable_is_covered_first(self) -> None:
        jobs = [
            *singles("a", "old", 4, on="n1"),
            *singles("a", "important", 2, on="n1", at=9, priority=5),
            *singles("b", "b", 3),
        ]
        gone, _ = evicted([node("n1", 6)], [Queue(name="a"), Queue(name="b")], jobs)
        assert gone == ["old03-00", "old02-00", "old01-00"]

    def test_surplus_goes_before_a_job_that_is_needed_as_a_whole(self) -> None:
        jobs = [
            job("a", "pair", 2, minimum=2, on="n1", at=5),
            job("a", "elastic", 4, minimum=1, on="n1"),
            job("b", "b", 3, minimum=3),
        ]
        gone, _ = evicted([node("n1", 6)], [Queue(name="a"), Queue(name="b")], jobs)
        assert gone == ["elastic-03", "elastic-02", "elastic-01"]

    def test_a_gang_claims_all_that_it_needs_or_nothing(self) -> None:
        jobs = [*singles("a", "a", 6, on="n1"), job("b", "b", 4, minimum=4)]
        gone, result = evicted([node("n1", 6)], [Queue(name="a"), Queue(name="b")], jobs)
        assert gone == []
        assert result.pending["b-00"].why is WhyPending.ABOVE_FAIR_SHARE

    def test_a_job_behind_one_that_asks_for_too_much_is_served(self) -> None:
        jobs = [
            *singles("a", "a", 6, on="n1"),
            job("b", "big", 4, minimum=4),
            job("b", "small", at=1),
        ]
        gone, _ = evicted([node("n1", 6)], [Queue(name="a"), Queue(name="b")], jobs)
        assert len(gone) == 1

    def test_what_is_charged_nothing_takes_nothing_that_is_covered(self) -> None:
        # It only needs a cpu to start; neither queue deserves anything.
        waits = job("a", "waits")
        (task,) = waits.tasks
        waits = evolve(waits, tasks=[evolve(task, resreq=amount(0), init_resreq=amount(1))])
        jobs = [*singles("b", "b", 2, on="n1"), waits]
        gone, result = evicted([node("n1", 2)], [Queue(name="a"), Queue(name="b")], jobs)
        assert gone == []
        assert "covered by the fair share of queue 'b': 2" in result.pending["waits-00"].text

    def test_what_is_kept_for_others_is_made_free_again(self) -> None:
        # Nothing is short on the node, but c holds what keeps b from its share.
        queues = [Queue(name="a", guarantee=amount(4)), Queue(name="b"), Queue(name="c")]
        jobs = [*singles("c", "c", 6, on="n1"), *singles("b", "b", 3)]
        gone, _ = evicted([node("n1", 10)], queues, jobs)
        assert gone == ["c05-00", "c04-00", "c03-00"]

    def test_a_gang_partly_on_lost_devices_is_left_out_where_others_are_enough(self) -> None:
        # It is taken first, but what leaves n2 makes no room: g is guaranteed as much.
        gang = job("g", "gang", 3, minimum=3, on="n1")
        gang = evolve(
            gang, tasks=[gang.tasks[0], *(evolve(t, node_name="n2") for t in gang.tasks[1:])]
        )
        queues = [
            Queue(name="a"),
            Queue(name="g", guarantee=amount(2), weight=0),
            Queue(name="h"),
        ]
        jobs = [
            gang,
            *singles("h", "h", 2, on="n1"),
            job("a", "claimant"),
            job("a", "nowhere", only="n9"),
        ]
        gone, _ = evicted([node("n1", 3), node("n2", 2, unschedulable=True)], queues, jobs)
        assert gone == ["h01-00"]

    def test_what_is_above_a_limit_is_on_loan(self) -> None:
        queues = [Queue(name="a", limit=ResourceLimit(milli_cpu=2000)), Queue(name="b")]
        jobs = [*singles("a", "a", 6, on="n1"), *singles("b", "b", 2)]
        assert evicted([node("n1", 6)], queues, jobs)[0] == ["a05-00", "a04-00"]

    def test_the_node_where_the_fewest_go(self) -> None:
        jobs = [
            job("a", "six", 6, minimum=6, on="n1"),
            job("a", "two", 2, size=3, minimum=2, on="n2", at=1),
            job("b", "b"),
        ]
        gone, _ = evicted([node("n1", 6), node("n2", 6)], [Queue(name="a"), Queue(name="b")], jobs)
        assert gone == ["two-01", "two-00"]

    def test_what_its_queue_keeps_its_share_without_goes_first(self) -> None:
        # On n1 one task would take a below its share; n2 has one that does not.
        queues = [Queue(name="a"), Queue(name="b")]
        jobs = [
            job("a", "two", 2, size=2, minimum=0, on="n1"),
            job("a", "one", 1, minimum=0, on="n2", at=-1),
            job("b", "b"),
            job("b", "here", 1, size=2, on="n3"),
        ]
        gone, _ = evicted([node("n1", 4), node("n2", 1), node("n3", 2)], queues, jobs)
        assert gone == ["two-01"]


class TestFailedTurns:
    def test_a_job_that_lacks_company_does_not_stand_for_one_that_does_not(self) -> None:
        # The gang has one task that asks for anything; what it lacks besides, no action places.
        gang = evolve(job("q", "gang", 2, minimum=2), priority=1)
        gang = evolve(gang, tasks=[gang.tasks[0], evolve(gang.tasks[1], resreq=amount(0))])
        snapshot = Snapshot(
            nodes=[node("n1", 4)], queues=[Queue(name="q")], jobs=[gang, job("q", "single")]
        )
        result = capacity_scheduler("reclaim").schedule(snapshot)
        assert [bind.task_uid for bind in result.binds] == ["single-00"]

    def test_a_job_is_told_what_was_found_for_one_like_it(self) -> None:
        nodes, queues = [node("n1", 2), node("n2", 1)], [Queue(name="q"), Queue(name="z")]
        jobs = [
            *singles("q", "here", 2, on="n1"),
            *(job("q", f"gang{number}", 2, minimum=2, at=number) for number in range(2)),
        ]
        snapshot = Snapshot(nodes=nodes, queues=queues, jobs=jobs)
        result = capacity_scheduler("reclaim", level=True).schedule(snapshot)
        for number in range(2):
            told = [result.pending[f"gang{number}-0{task}"] for task in range(2)]
            assert [len(reason.evictions) for reason in told] == [0, 1], number
            assert told == [result.pending[f"gang0-0{task}"] for task in range(2)]


class TestLoans:
    def test_preempt_evicts_what_is_on_loan_where_reclaim_did_not_ask_for_it(self) -> None:
        """reclaim asks what of q is covered, for q's own job, and takes nothing from q."""
        jobs = [
            job("q", "runs", 4, minimum=1, on="n1"),
            evolve(job("q", "waits"), priority=1),
            job("z", "giant", size=9),
        ]
        snapshot = Snapshot(
            nodes=[node("n1", 4)], queues=[Queue(name="q"), Queue(name="z")], jobs=jobs
        )
        result = capacity_scheduler("reclaim", "preempt").schedule(snapshot)
        assert [(each.task_uid, each.for_task_uid) for each in result.evictions] == [
            ("runs-03", "waits-00")
        ]


class TestJobsOnLoan:
    """A job whose least tasks are on loan claims nothing: what it gets could go with them."""

    QUEUES = (
        Queue(name="a", deserved=amount(6, 1)),
        Queue(name="b", deserved=amount(2, 3)),
    )

    def claim(self, gpus: int) -> tuple[list[str], CycleResult]:
        """Queue a's job runs on some gpus, of which one is its share, and asks for a cpu more."""
        driver = job("a", "grows", size=1, gpus=gpus, on="n1")
        more = [evolve(t, uid="more", name="more") for t in job("a", "more").tasks]
        jobs = [
            evolve(driver, tasks=[*driver.tasks, *more]),
            *singles("b", "b", 7, on="n1"),
            job("b", "of-gpus", gpus=3, size=0, only="n9"),
        ]
        return evicted([labelled("n1", 8, 4)], self.QUEUES, jobs)

    def test_it_claims_within_its_share(self) -> None:
        gone, _ = self.claim(gpus=1)
        assert len(gone) == 1

    def test_it_does_not_claim_where_what_it_needs_at_least_is_on_loan(self) -> None:
        gone, result = self.claim(gpus=2)
        assert gone == []
        why = result.pending["more"].text
        assert "queue 'a' has the minimum of the job on loan" in why


class TestLevelling:
    def test_siblings_above_their_shares_level_if_asked_to(self) -> None:
        # Neither can have its share: the third asks for what fits nowhere.
        queues = [Queue(name="a"), Queue(name="b"), Queue(name="c")]
        jobs = [
            *singles("a", "a", 9, on="n1"),
            *singles("b", "b", 3, on="n1"),
            *singles("b", "more", 4),
            job("c", "giant", size=13),
        ]
        world = ([node("n1", 12)], queues, jobs)
        assert evicted(*world)[0] == ["a08-00"]
        assert evicted(*world, level=True)[0] == ["a08-00", "a07-00"]

    def test_a_sibling_that_has_less_than_it_deserves_levels_too(self) -> None:
        # What b deserves is cut to 4 for those of higher priority; none of it has a gpu.
        queues = [
            Queue(name="a", priority=1, deserved=amount(2)),
            Queue(name="b", deserved=amount(12)),
            Queue(name="c", priority=1, deserved=amount(8)),
        ]
        jobs = [
            *singles("a", "a", 2, on="n1"),
            *singles("b", "b", 4, size=3, gpus=1, on="n1"),
            job("a", "more"),
            job("c", "giant", size=15),
        ]
        gone, _ = evicted([node("n1", 14, 4)], queues, jobs, level=True)
        assert gone == ["b03-00"]
