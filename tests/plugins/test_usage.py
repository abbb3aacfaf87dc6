"""usage: what was held in the past decays, and who held little of it goes first."""

from __future__ import annotations

from math import log
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import factory_of, opened
from tests.support.clusters import cluster, job, node

from batchsched import (
    Arguments,
    ConfigError,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    decayed,
    next_snapshot,
)
from batchsched.live import Cluster, QueueChanged, TimePassed
from batchsched.simulation import Job, Scheduled, Workload, simulate
from batchsched.testing import check_plugin, queue_trees

HOUR = 3600.0
numbers = st.floats(0, 1e6, allow_subnormal=False)
half_lives = st.floats(1, 1e5)


def config(*plugins: str, actions: str = "allocate", **arguments: Any) -> SchedulerConfig:
    names = [*plugins, "gang", "predicates"]
    given = {"usage": arguments}
    return SchedulerConfig.from_mapping(
        {
            "actions": [{"name": a, "arguments": {}} for a in actions.split(", ")],
            "tiers": [{"plugins": [{"name": n, "arguments": given.get(n, {})} for n in names]}],
        }
    )


def cpus(count: float) -> Resource:
    return Resource(milli_cpu=count * 1000)


class TestDecayed:
    @given(used=numbers, held=numbers, one=numbers, other=numbers, half_life=half_lives)
    @settings(max_examples=60)
    def test_law_it_does_not_matter_how_often_it_is_asked_for(
        self, used: float, held: float, one: float, other: float, half_life: float
    ) -> None:
        whole = decayed(cpus(used), cpus(held), one + other, half_life=half_life)
        halfway = decayed(cpus(used), cpus(held), one, half_life=half_life)
        parts = decayed(halfway, cpus(held), other, half_life=half_life)
        assert parts.milli_cpu == pytest.approx(whole.milli_cpu, rel=1e-9, abs=1e-6)
        assert whole.milli_cpu >= 0

    @given(used=numbers, half_life=half_lives)
    @settings(max_examples=30)
    def test_law_it_halves_in_a_half_life_without_use(self, used: float, half_life: float) -> None:
        after = decayed(cpus(used), Resource(), half_life, half_life=half_life)
        assert after.milli_cpu == cpus(used).milli_cpu / 2

    def test_it_tends_to_what_is_held_for_ever(self) -> None:
        after = decayed(Resource(), cpus(2), 1e7, half_life=HOUR)
        assert after.milli_cpu == pytest.approx(2000 * HOUR / log(2))

    def test_a_short_time_counts_in_full(self) -> None:
        after = decayed(Resource(), Resource(memory=8, scalars={"gpu": 2}), 1e-3, half_life=1e9)
        assert after.memory == pytest.approx(8e-3)
        assert after.get("gpu") == pytest.approx(2e-3)

    def test_no_time_changes_nothing(self) -> None:
        assert decayed(cpus(5), cpus(9), 0, half_life=HOUR) == cpus(5)

    @pytest.mark.parametrize(
        ("seconds", "half_life", "message"),
        [
            (-1, 5, "seconds: expected 0 or more, got -1"),
            (float("nan"), 5, "seconds: expected 0 or more, got nan"),
            (1, 0, "half_life: expected more than 0 seconds, got 0"),
        ],
    )
    def test_what_makes_no_sense_is_refused(
        self, seconds: float, half_life: float, message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            decayed(Resource(), Resource(), seconds, half_life=half_life)


def two_queues(a: float, b: float, *jobs: Any, **of_b: Any) -> Snapshot:
    queues = [Queue(name="a", usage=cpus(a)), Queue(name="b", usage=cpus(b), **of_b)]
    return evolve(cluster([node("n1", "1C9G")], *jobs), queues=queues)


def first_of(snapshot: Snapshot, of: SchedulerConfig) -> str:
    return Scheduler(of).schedule(snapshot).binds[0].task_uid


class TestOrder:
    jobs = (job("x", "1C1G", queue="a"), job("y", "1C1G", queue="b"))

    @pytest.mark.parametrize(
        "plugins", [("usage",), ("usage", "proportion"), ("capacity", "usage")]
    )
    def test_the_queue_that_used_less_goes_first(self, plugins: tuple[str, ...]) -> None:
        assert first_of(two_queues(0, 0, *self.jobs), config(*plugins)) == "x-1"
        assert first_of(two_queues(9, 5, *self.jobs), config(*plugins)) == "y-1"
        assert first_of(two_queues(5, 9, *self.jobs), config(*plugins)) == "x-1"

    def test_use_counts_for_each_unit_of_weight(self) -> None:
        snapshot = two_queues(5, 9, *self.jobs, weight=2)
        assert first_of(snapshot, config("usage")) == "y-1"
        snapshot = two_queues(9, 5, *self.jobs, weight=0)
        assert first_of(snapshot, config("usage")) == "x-1"

    def test_use_counts_by_its_own_half_life(self) -> None:
        snapshot = two_queues(9, 10, *self.jobs, usage_half_life=2 * HOUR)
        assert first_of(snapshot, config("usage", halfLife=HOUR)) == "y-1"
        assert first_of(snapshot, config("usage", halfLife=3 * HOUR)) == "x-1"

    def test_only_what_is_asked_for_counts(self) -> None:
        snapshot = two_queues(9, 5, *self.jobs)
        queues = [snapshot.queues[0], evolve(snapshot.queues[1], usage=Resource(memory=10**15))]
        snapshot = evolve(snapshot, queues=queues)
        assert first_of(snapshot, config("usage")) == "x-1"
        in_cpus = [
            evolve(each, tasks=[evolve(task, resreq=cpus(1)) for task in each.tasks])
            for each in snapshot.jobs
        ]
        assert first_of(evolve(snapshot, jobs=in_cpus), config("usage")) == "y-1"

    def test_without_k_queues_have_no_past(self) -> None:
        assert first_of(two_queues(9, 5, *self.jobs), config("capacity", "usage", k=0)) == "x-1"

    def test_shares_come_first(self) -> None:
        # What a holds is more than its share; however little it used, it is b's turn.
        jobs = (job("r", "2C1G@n1", queue="a"), *self.jobs)
        snapshot = evolve(two_queues(0, 0, *jobs), nodes=[node("n1", "3C9G")])
        deserved = [evolve(queue, deserved=cpus(1)) for queue in snapshot.queues]
        snapshot = evolve(snapshot, queues=[deserved[0], evolve(deserved[1], usage=cpus(50))])
        assert first_of(snapshot, config("capacity", "usage")) == "y-1"

    def test_users_of_a_queue_go_by_what_they_used(self) -> None:
        jobs = [evolve(job("x", "1C1G"), user="ann"), evolve(job("y", "1C1G"), user="bob")]
        snapshot = cluster([node("n1", "1C9G")], *jobs)
        used = [evolve(q, usage_by_user={"ann": cpus(1)}) for q in snapshot.queues]
        snapshot = evolve(snapshot, queues=used)
        assert first_of(snapshot, config("usage")) == "x-1"
        assert first_of(snapshot, config("usage", scope="users")) == "y-1"
        assert first_of(snapshot, config("usage", scope="users", k=0)) == "y-1"


def plain_weights(weights: list[int], uses: list[float], k: float) -> list[int]:
    """The rule, with one step after the other."""
    if not k or not any(weights):
        return weights
    some = [n for n, weight in enumerate(weights) if weight > 0]
    used = sum(uses[n] for n in some)
    if used == 0:
        return weights
    found = [0] * len(weights)
    for n in some:
        part = weights[n] / sum(weights)
        found[n] = round(1_000_000 * max(0.0, part + k * (part - uses[n] / used)))
    return found if any(found) else weights


@given(
    content=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 900)), min_size=1, max_size=5),
    k=st.sampled_from([0, 0.5, 1, 3]),
)
@settings(max_examples=60)
def test_weights_are_corrected_by_the_past(content: list[tuple[int, int]], k: float) -> None:
    queues = [
        Queue(name=f"q{n}", weight=weight, usage=cpus(used))
        for n, (weight, used) in enumerate(content)
    ]
    session = opened(Snapshot(nodes=[node("n1", "4C4G")], queues=queues), [])
    plugin: Any = factory_of("usage")(Arguments({"k": str(k)})).open(session.state.view)
    found = plugin.surplus_weights(list(session.state.view.queues.values()), 0)
    uses = [used * 1000 * log(2) / (4000 * 7 * 24 * HOUR) for _, used in content]
    assert list(found) == plain_weights([weight for weight, _ in content], uses, k)


def test_what_nobody_deserves_goes_to_those_who_used_less() -> None:
    jobs = [job(f"{q}{n}", "1C1G", queue=q) for q in "ab" for n in range(8)]
    snapshot = evolve(two_queues(3, 1, *jobs), nodes=[node("n1", "8C99G")])
    result = Scheduler(config("capacity", "usage")).schedule(snapshot)
    # 1/2 + (1/2 - 3/4) and 1/2 + (1/2 - 1/4), of 8
    shares = {name: queue.fair_share.milli_cpu for name, queue in result.queues.items()}
    assert shares == {"a": 2000, "b": 6000}


@given(queues=queue_trees(max_queues=5), scope=st.sampled_from(["queues", "users"]))
@settings(max_examples=15)
def test_law_without_a_past_it_changes_no_share(queues: tuple[Queue, ...], scope: str) -> None:
    leaves = {q.name for q in queues} - {q.parent for q in queues}
    jobs = [job(f"{q}{n}", "1C1G", queue=q) for q in sorted(leaves) for n in range(3)]
    snapshot = evolve(cluster([node("n1", "5C9G")], *jobs), queues=queues)
    with_it = Scheduler(config("capacity", "usage", scope=scope)).schedule(snapshot)
    without = Scheduler(config("capacity")).schedule(snapshot)
    shares = [{n: q.fair_share for n, q in each.queues.items()} for each in (with_it, without)]
    assert shares[0] == shares[1]
    assert len(with_it.binds) == len(without.binds)
    no_say = config("capacity", "usage", k=0)
    assert Scheduler(no_say).schedule(snapshot) == without


@pytest.mark.parametrize("arguments", [{}, {"scope": "users", "k": 2.5, "halfLife": 9}])
def test_it_keeps_the_laws_of_plugins(arguments: dict[str, Any]) -> None:
    check_plugin(factory_of("usage")(Arguments(arguments)), name="by-use", max_examples=8)


def test_arguments_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        config("usage", halfLife=0, k=-1, scope="jobs")
    assert [fault.message for fault in caught.value.faults] == [
        "expected 1 or more, got 0",
        "expected 0 or more, got -1",
        "expected one of queues, users, got 'jobs'",
    ]


class TestKeeping:
    """next_snapshot and the living cluster keep what is used."""

    def running(self) -> Snapshot:
        jobs = [
            evolve(job("x", "2C1G@n1", queue="a"), user="ann"),
            job("y", "1C1G", queue="b"),
            evolve(job("z", "1C1G@n1", queue="c"), user="ann"),
        ]
        queues = [
            Queue(name="top", usage_half_life=HOUR),
            Queue(name="a", parent="top", usage_half_life=HOUR, usage=cpus(100)),
            Queue(name="b", parent="top", usage_half_life=HOUR),
            Queue(name="c", usage=cpus(7)),
        ]
        return evolve(cluster([node("n1", "4C9G")], *jobs), queues=queues)

    def test_each_queue_uses_what_its_jobs_hold_and_a_parent_what_its_children_do(self) -> None:
        before = self.running()
        result = Scheduler(config("usage")).schedule(before)
        assert [bind.task_uid for bind in result.binds] == ["y-1"]
        after = next_snapshot(before, result, now=before.now + 60)
        used = {queue.name: queue for queue in after.queues}

        def for_a_minute(usage: Resource, held: Resource) -> Resource:
            return decayed(usage, held, 60, half_life=HOUR)

        gib = 1 << 30
        assert used["a"].usage == for_a_minute(cpus(100), Resource(milli_cpu=2000, memory=gib))
        assert used["b"].usage == for_a_minute(Resource(), Resource(milli_cpu=1000, memory=gib))
        assert used["top"].usage == for_a_minute(
            Resource(), Resource(milli_cpu=3000, memory=2 * gib)
        )
        assert dict(used["a"].usage_by_user) == {
            "ann": for_a_minute(Resource(), Resource(milli_cpu=2000, memory=gib))
        }
        assert set(used["b"].usage_by_user) == {""}
        assert not used["top"].usage_by_user
        assert used["c"] is before.queues[2]  # nobody said how fast it decays

    def test_the_living_cluster_does_the_same(self) -> None:
        before = self.running()
        live = Cluster(before)
        cycle = Scheduler(config("usage")).attach(live).schedule()
        live.carry_out(cycle, at_once=True)
        live.apply(TimePassed(before.now + 60))
        assert live.snapshot() == next_snapshot(before, cycle, now=before.now + 60)

    def test_a_queue_that_is_given_as_it_was_goes_on_and_another_use_counts_from_now(self) -> None:
        before = self.running()
        a, *others = before.queues
        kept = next_snapshot(
            before, None, now=before.now + 60, queues=[evolve(a, weight=3), *others]
        )
        plainly = next_snapshot(before, None, now=before.now + 60)
        assert kept.queues[0] == evolve(plainly.queues[0], weight=3)
        said = next_snapshot(
            before, None, now=before.now + 60, queues=[evolve(a, usage=cpus(1)), *others]
        )
        assert said.queues[0].usage == cpus(1)

    def test_what_is_at_fault_is_told_whatever_time_passes(self) -> None:
        before = self.running()
        wrong = evolve(before.queues[0], usage="all of it")
        message = "expected a Resource, got 'all of it'"
        with pytest.raises(Exception, match=message):
            Cluster(before).apply(QueueChanged(wrong), TimePassed(before.now + 5))
        queues = [wrong, *before.queues[1:]]
        with pytest.raises(Exception, match=message):
            next_snapshot(before, None, now=before.now + 5, queues=queues)


ALTERNATE = [
    Job(id=n, submit=0, run=HOUR / 2, processors=16, requested=HOUR / 2, queue=queue)
    for queue, ids in (("a", range(6)), ("b", range(6, 12)))
    for n in ids
]


@pytest.mark.parametrize("plugins", [("usage",), ("capacity", "usage")])
def test_two_queues_that_each_want_the_whole_cluster_alternate(plugins: tuple[str, ...]) -> None:
    def turns(of: SchedulerConfig) -> str:
        run = simulate(Workload(ALTERNATE).on(nodes=1, per_node=16), Scheduled(config=of))
        jobs = sorted(zip(run.jobs["start"], run.jobs["queue"], strict=True))
        return "".join(queue for _, queue in jobs)

    assert turns(config(*plugins, halfLife=HOUR)) == "abababababab"
    assert turns(config()) == "aaaaaabbbbbb"


@pytest.mark.slow
@given(seed=st.integers(0, 1000))
@settings(max_examples=4)
def test_law_equal_queues_get_equal_use_in_the_long_run(seed: int) -> None:
    lengths = [600 + seed * (n + 3) % 1801 for n in range(80)]
    jobs = [
        Job(id=n, submit=0, run=length, processors=1 + (seed + n) % 4, queue="ab"[n % 3 > 0])
        for n, length in enumerate(lengths)
    ]
    of = config("capacity", "usage", halfLife=24 * HOUR, k=1)
    run = simulate(Workload(jobs).on(nodes=1, per_node=4), Scheduled(config=of))
    both = min(
        max(e for e, q in zip(run.jobs["end"], run.jobs["queue"], strict=True) if q == name)
        for name in "ab"
    )
    used = {"a": 0.0, "b": 0.0}
    for start, end, size, queue in zip(
        run.jobs["start"], run.jobs["end"], run.jobs["processors"], run.jobs["queue"], strict=True
    ):
        used[queue] += size * max(0.0, min(end, both * 0.8) - min(start, both * 0.8))
    assert used["a"] == pytest.approx(used["b"], rel=0.2)
