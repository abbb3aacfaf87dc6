"""Run the testing kit on whatever batchsched is on the path, until it finds something.

    python -m tests.seeded_bugs.kit [--seconds 60] [--show] [--only CHECK ...]

Every check gets its turn, with few examples at first and more in every round, for as long as
there is time; nothing is shrunk. Prints what was found, and by which check, as one line of
JSON; the exit status is 1 if there was anything.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random

from attrs import evolve
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from hypothesis.strategies import SearchStrategy
from tests.live.test_reconciler import is_quiet
from tests.live.test_reconciler import run as run_reconciled
from tests.reference import KNOWN_ACTIONS, agreement
from tests.support.following import FollowedMachine, check_next_snapshot
from tests.support.invariants import INVARIANTS, check_cycle
from tests.support.known import WITHOUT_NEWER
from tests.support.planted import planted
from tests.support.points import (
    CONFIGS,
    CONFIGS_OF_BLOCKS,
    IN_BLOCKS,
    LABELS,
    SNAPSHOTS,
    expect_points,
)
from tests.support.possible import ORDERS, NotAsked, broken_law, claimant_of, configuration
from tests.support.tiny_clusters import world
from tests.support.ways import differing

from batchsched import (
    PluginOption,
    Preemptible,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskStatus,
    Tier,
    default_registry,
    next_snapshot,
)
from batchsched.plugin import JobState, SessionView, Vote
from batchsched.plugins.conformance import ConformancePlugin
from batchsched.plugins.devices import DevicesPlugin
from batchsched.plugins.drf import DrfPlugin
from batchsched.plugins.gang import GangPlugin
from batchsched.plugins.nodeorder import NodeOrderPlugin
from batchsched.plugins.placement import PlacementPlugin
from batchsched.plugins.predicates import PredicatesPlugin
from batchsched.plugins.priority import PriorityPlugin
from batchsched.plugins.proportion import ProportionPlugin
from batchsched.plugins.protection.plugin import ProtectionPlugin
from batchsched.plugins.topology.plugin import TopologyPlugin
from batchsched.testing import INVARIANTS as OURS
from batchsched.testing import Invariant, InvariantViolation, check_plugin, configs, snapshots

PLUGINS = {
    "conformance": ConformancePlugin,
    "devices": DevicesPlugin,
    "drf": DrfPlugin,
    "gang": GangPlugin,
    "nodeorder": NodeOrderPlugin,
    "placement": PlacementPlugin,
    "predicates": PredicatesPlugin,
    "priority": PriorityPlugin,
    "proportion": ProportionPlugin,
    "protection": ProtectionPlugin,
    "topology": TopologyPlugin,
}
EVERYTHING: Sequence[Invariant] = (*INVARIANTS, agreement)
QUICKLY = [law for law in EVERYTHING if law.__name__ != "permutation"]
"""Without the one that schedules everything once more."""
OF_RACKS_AND_DEVICES = [law for law in OURS if law.__name__ != "permutation"]
"""Those of the library: the others know nothing of racks and devices."""
EVICTING = ["allocate", "preempt", "reclaim"]
PLAIN = {"constraints": False, "affinity": False, "scalars": False, "init_requests": False}
SOUND = {
    "dependencies": False,
    "endings": False,
    "groups": False,
    "invalid_jobs": False,
    "other_tasks": False,
    "promises": False,
    "reservations": False,
    "trees": False,
    "unknown_queues": False,
    **WITHOUT_NEWER,
}
QUIET = {**PLAIN, **SOUND, "best_effort": False, "overcommitted": False}
HOLD = {"name": "allocate", "arguments": {"unready": "hold"}}
RELEASE = {"name": "backfill", "arguments": {"strategy": "release"}}
DISPLACE = {"name": "backfill", "arguments": {"strategy": "displace"}}
CALL_IN = {"name": "allocate", "arguments": {"evictBackfill": True}}


def configs_of(
    actions: Sequence[Sequence[object]], *tiers: Sequence[Sequence[str]]
) -> SearchStrategy[SchedulerConfig]:
    """One of some lists of actions, with one of some tiers of plugins."""
    return st.sampled_from(
        [
            SchedulerConfig.from_mapping(
                {"actions": of, "tiers": [{"plugins": plugins} for plugins in each]}
            )
            for of in actions
            for each in tiers
        ]
    )


def with_actions(*choices: Sequence[object]) -> SearchStrategy[SchedulerConfig]:
    """Few plugins, or nearly all of them, with one of some lists of actions."""
    return configs_of(
        choices,
        [["gang", "predicates"]],
        [["priority", "gang", "drf", "predicates", "proportion", "nodeorder"]],
    )


def in_two_tiers() -> SearchStrategy[SchedulerConfig]:
    """Plugins that protect in the tier after that of others which name victims."""
    return configs_of(
        [["reclaim"], ["allocate", "reclaim"], ["preempt"]],
        [["priority", "gang"], ["conformance", "proportion", "predicates"]],
        [["conformance"], ["gang", "proportion", "predicates"]],
    )


def without_memory(snapshot: Snapshot) -> Snapshot:
    """Leave out the memory: a queue has its share only once it has that of every dimension."""

    def of(amounts: Resource) -> Resource:
        return Resource(milli_cpu=amounts.milli_cpu)

    return evolve(
        snapshot,
        nodes=[evolve(node, allocatable=of(node.allocatable)) for node in snapshot.nodes],
        jobs=[
            evolve(job, tasks=[evolve(task, resreq=of(task.resreq)) for task in job.tasks])
            for job in snapshot.jobs
        ],
    )


def empty_first(snapshot: Snapshot) -> Snapshot:
    """Let the first task of each job request nothing, if it waits and has no place."""
    return evolve(
        snapshot,
        jobs=[
            evolve(
                job,
                tasks=[
                    evolve(task, resreq=Resource())
                    if task is job.tasks[0] and task.status is TaskStatus.PENDING
                    else task
                    for task in job.tasks
                ],
            )
            for job in snapshot.jobs
        ],
    )


def in_whole_gangs(snapshot: Snapshot) -> Snapshot:
    """Let each job that waits with all of its tasks need all of them."""
    return evolve(
        snapshot,
        jobs=[
            evolve(job, min_available=len(job.tasks))
            if all(task.status is TaskStatus.PENDING for task in job.tasks)
            else job
            for job in snapshot.jobs
        ],
    )


Check = Callable[[int, int], None]
"""Try so many examples, from this seed; raise if anything is wrong."""


class Abstaining:
    """A plugin that votes with the others, and never decides anything."""

    def open(self, _view: SessionView, /) -> object:
        return self

    def job_ready(self, _job: JobState, /) -> Vote:
        return Vote.ABSTAIN

    job_pipelined = job_condition_ready = job_ready


def with_one_who_abstains(config: SchedulerConfig) -> Scheduler:
    """Return a scheduler with a plugin more, which should decide as without it."""
    registry = default_registry()
    registry.register_plugin("abstaining", lambda _arguments: Abstaining())
    first, *others = config.tiers
    more = Tier(plugins=[*first.plugins, PluginOption(name="abstaining")])
    return Scheduler(evolve(config, tiers=[more, *others]), registry)


class OutOfTimeError(Exception):
    """The time is up."""


class Clock:
    """Ends everything when the time is up: processor time, so that a busy machine is no excuse."""

    def __init__(self, seconds: float) -> None:
        self._begin = time.process_time()
        self._seconds = seconds

    @property
    def passed(self) -> float:
        """Seconds of processor time since it was started."""
        return time.process_time() - self._begin

    def tick(self) -> None:
        """Raise if the time is up."""
        if self.passed > self._seconds:
            raise OutOfTimeError


def quick(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def cycles(
    clock: Clock,
    drawn: SearchStrategy[Snapshot],
    policies: SearchStrategy[SchedulerConfig],
    invariants: Sequence[Invariant] = QUICKLY,
    *,
    share: float = 1,
    scheduler: Callable[[SchedulerConfig], Scheduler] = Scheduler,
    first_seed: int = 0,
) -> Check:
    """Single cycles and what follows them: invariants, the reference; this share of examples.

    Checks of the same strategies draw the same examples, unless their first seeds differ.
    """

    def check(examples: int, number: int) -> None:
        @seed(first_seed + number)
        @quick(int(share * examples))
        @given(drawn, policies)
        def run(snapshot: Snapshot, config: SchedulerConfig) -> None:
            clock.tick()
            result = scheduler(config).schedule(snapshot)
            check_cycle(snapshot, result, config, invariants=invariants)
            check_next_snapshot(snapshot, result, next_snapshot(snapshot, result, now=snapshot.now))

        run()

    return check


def machine(clock: Clock, policy: dict[str, object]) -> Check:
    """Clusters that live for many cycles."""

    class Machine(FollowedMachine):
        # What is told of domains is checked elsewhere.
        config = SchedulerConfig.from_mapping(policy).without_plugins("topology")
        cycle_invariants = EVERYTHING
        # There is one without any bug: a job whose first task fits nowhere, and whose second can
        # preempt. allocate does not come to it, so what was evicted is placed again.
        finds_ping_pong = False

        def run_cycle(self) -> object:  # type: ignore[override]
            clock.tick()
            return super().run_cycle()

    def check(examples: int, number: int) -> None:
        run_state_machine_as_test(
            seed(number)(Machine),
            settings=settings(quick(max(examples // 8, 8)), stateful_step_count=15),
        )

    return check


def laws(clock: Clock) -> Check:
    """Laws of all plugins that the library comes with; their examples are always the same.

    They take four fifths of a minute if they get a turn in each round, and find what they find
    in the first.
    """
    sizes = iter((30, 0, 0, 0, 100, 0, 0, 300))

    def check(_examples: int, _number: int) -> None:
        examples = next(sizes, 0)
        for plugin in PLUGINS.values() if examples else ():
            clock.tick()
            check_plugin(plugin.from_arguments, max_examples=examples, shrink=False)

    return check


def points(
    clock: Clock, drawn: SearchStrategy[Snapshot], policies: SearchStrategy[SchedulerConfig]
) -> Check:
    """Cycles with plugins that choose for tasks, rank nodes exactly, and keep jobs in blocks."""

    def check(examples: int, number: int) -> None:
        @seed(number)
        @quick(examples)
        @given(drawn, policies)
        def run(snapshot: Snapshot, config: SchedulerConfig) -> None:
            clock.tick()
            expect_points(snapshot, config)

        run()

    return check


def checks_of_gangs(clock: Clock) -> Iterator[tuple[str, Check]]:
    """Yield those of gangs that wait for what others leave, and of jobs with groups."""
    leaving = snapshots(
        max_nodes=1,
        queues=False,
        min_jobs=4,
        max_tasks=3,
        crowded=False,
        always=["backfill", "endings", "gangs", "running"],
        **{**QUIET, "endings": True},
    )
    promised = leaving.map(in_whole_gangs)
    simple = [["gang", "predicates"]]
    in_turn = configs_of([["allocate", "preempt"]], simple)
    yield "cycles where tasks leave", cycles(clock, promised, in_turn, [agreement])
    holding = configs_of([["allocate"], [HOLD]], simple)
    yield "cycles where loans leave", cycles(clock, promised, holding, [agreement], share=2)
    growing = snapshots(
        max_nodes=1,
        queues=False,
        min_jobs=2,
        max_jobs=4,
        priorities=False,
        backfill=False,
        crowded=False,
        always=["gangs", "groups", "running"],
        **{**QUIET, "groups": True},
    )
    growth = configs_of([["allocate"]], simple)
    yield "cycles of jobs that grow", cycles(clock, growing, growth, [agreement], share=3)


def checks_of_preemption(clock: Clock) -> Iterator[tuple[str, Check]]:
    """Yield those of preempt beside proportion, by shares and by priorities."""
    unequal = snapshots(
        max_nodes=2,
        max_queues=2,
        min_jobs=3,
        max_jobs=5,
        max_tasks=4,
        backfill=False,
        always=["running", "queues"],
        **QUIET,
    )
    preempting = configs_of(
        [["preempt"]],
        [["drf", "predicates", "proportion"]],
        [["gang", "drf", "predicates", "proportion"]],
    )
    without = unequal.map(without_memory)
    yield "cycles that preempt", cycles(clock, without, preempting, [agreement], share=4)
    rivals = snapshots(
        max_nodes=1,
        max_queues=2,
        min_jobs=3,
        max_jobs=4,
        max_tasks=4,
        backfill=False,
        always=["running", "queues", "priorities"],
        **QUIET,
    ).map(without_memory)
    by_priority = configs_of(
        [["preempt"]],
        [["priority", "predicates", "proportion"]],
        [["priority"], ["predicates", "proportion"]],
    )
    yield "cycles by priority", cycles(clock, rivals, by_priority, [agreement], share=4)


TINY = (
    *("racks", "segments", "wishes", "devices", "shared", "ports", "slots", "apart", "queues"),
    *("tree", "limits", "priorities", "protection", "runtimes", "home", "lost", "leaving"),
)
"""The features of tiny clusters whose faults, as far as they are known, are not told of here."""


def is_well_served(snapshot: Snapshot) -> bool:
    """Whether nothing in a tiny cluster is known to be served less well than possible."""
    claimant = claimant_of(snapshot)
    waiting = [task for task in claimant.tasks if task.status is TaskStatus.PENDING]
    like = {evolve(task, uid="", name="", index=None) for task in waiting}
    is_whole = claimant.min_available == len(claimant.tasks)
    surplus = any(job.preemptible is Preemptible.SURPLUS for job in snapshot.jobs)
    return is_whole and not surplus and len(like) == 1


def tiny_clusters(clock: Clock) -> Check:
    """Tiny clusters with racks, devices and protection: what is possible happens, in all ways."""

    def check(examples: int, number: int) -> None:
        for position in range(4 * examples):
            clock.tick()
            random = Random(1_000_003 * number + position)
            snapshot, _ = world(random, TINY)
            actions = random.choice(ORDERS)
            try:
                problem = broken_law(snapshot, actions) if is_well_served(snapshot) else None
            except NotAsked:
                continue
            assert problem is None, problem
            config = configuration(actions)
            result = Scheduler(config).schedule(snapshot)
            check_cycle(snapshot, result, config, invariants=OF_RACKS_AND_DEVICES)
            if position % 3 == 0:
                for problem in differing(snapshot, config):
                    raise AssertionError(problem)

    return check


def planted_gangs(clock: Clock) -> Check:
    """Gangs in racks, for which there is known to be room: they run, and all ways agree."""

    def check(examples: int, number: int) -> None:
        for position in range(5 * examples):
            clock.tick()
            drawn = planted(Random(1_000_003 * number + position))
            problem = drawn.problem()
            assert problem is None, problem
            if position % 2:
                continue
            config = configuration(drawn.actions)
            result = Scheduler(config).schedule(drawn.snapshot)
            check_cycle(drawn.snapshot, result, config, invariants=OF_RACKS_AND_DEVICES)
            if position % 10 == 0:
                for problem in differing(drawn.snapshot, config):
                    raise AssertionError(problem)

    return check


def in_racks(clock: Clock) -> Check:
    """Cycles in racks, with devices and protection: all laws, and plainly the same."""
    drawn = snapshots(
        max_nodes=4,
        max_jobs=5,
        **{
            **SOUND,
            "promises": True,
            "groups": True,
            "endings": True,
            **dict.fromkeys(RACKS, True),
        },
        always=[*RACKS, "running", "gangs"],
    )
    named = ["protection", "devices", "topology"]
    policies = configs_of(
        [["allocate"], ["allocate", "preempt"], ["reclaim", "allocate", "backfill", "preempt"]],
        [["priority", "gang", *named], ["predicates", "capacity", "nodeorder"]],
        [["priority", "gang", *named], ["predicates", "proportion", "placement"]],
    )

    def check(examples: int, number: int) -> None:
        @seed(number)
        @quick(examples)
        @given(drawn, policies)
        def run(snapshot: Snapshot, config: SchedulerConfig) -> None:
            clock.tick()
            result = Scheduler(config).schedule(snapshot)
            check_cycle(snapshot, result, config, invariants=OF_RACKS_AND_DEVICES)
            plainly = Scheduler(config, plain=True).schedule(snapshot).full()
            assert plainly == result, "plainly it is decided otherwise"

        run()

    return check


RACKS = ("topologies", "devices", "protection")


def reconciled(clock: Clock) -> Check:
    """Clusters that are followed by a reconciler while events are lost and come twice."""

    def check(examples: int, number: int) -> None:
        for position in range(max(1, examples // 60)):
            clock.tick()
            server, kept = run_reconciled(1_000 * number + position, 60)
            is_quiet(server, kept)

    return check


def checks_of_guarantees(clock: Clock) -> Iterator[tuple[str, Check]]:
    """Yield those of what the plugin protection guarantees; the reference does not know it."""
    guarded = snapshots(
        max_nodes=2,
        max_queues=2,
        min_jobs=3,
        max_tasks=3,
        backfill=False,
        always=["protection", "running", "priorities", "queues"],
        **{**QUIET, "protection": True},
    )
    evicting = configs(protection=True, actions=["allocate", "preempt", "reclaim"], flags=False)
    yield "cycles with guarantees", cycles(clock, guarded, evicting, OF_RACKS_AND_DEVICES, share=3)


def checks_of_racks(clock: Clock) -> Iterator[tuple[str, Check]]:
    """Yield those of racks, devices and protection, and of the reconciler."""
    yield "tiny clusters", tiny_clusters(clock)
    yield "planted gangs", planted_gangs(clock)
    yield "cycles in racks", in_racks(clock)
    yield "reconciled clusters", reconciled(clock)


def checks(clock: Clock) -> Iterator[tuple[str, Check]]:
    """Yield all checks by name."""
    yield "cycles", cycles(clock, snapshots(), configs(actions=KNOWN_ACTIONS), EVERYTHING)
    yield from checks_of_racks(clock)
    yield "laws", laws(clock)
    crowded = snapshots(max_nodes=3, min_jobs=4, reservations=False, always=["running"], **PLAIN)
    yield "cycles that evict", cycles(clock, crowded, configs(actions=EVICTING))
    one_queue = snapshots(
        max_nodes=1,
        queues=False,
        priorities=False,
        min_jobs=2,
        max_jobs=3,
        max_tasks=6,
        endings=False,
        reservations=False,
        always=["running"],
        **PLAIN,
    )
    yield "cycles in one queue", cycles(clock, one_queue, configs(actions=["preempt"]))
    yield from checks_of_preemption(clock)
    many_queues = snapshots(
        max_nodes=1, max_queues=4, min_jobs=2, max_jobs=5, max_tasks=5, **SOUND, **PLAIN
    )
    sharing = configs(actions=["allocate", "reclaim"], flags=False)
    yield "cycles of many queues", cycles(clock, many_queues, sharing)
    held = snapshots(
        max_nodes=2,
        min_jobs=3,
        max_tasks=3,
        always=["reservations"],
        **{**SOUND, "reservations": True},
        **PLAIN,
    )
    filling = configs_of([["backfill"]], [["gang", "predicates"]])
    yield "cycles on reserved nodes", cycles(clock, held.map(empty_first), filling, [agreement])
    waiting = snapshots(
        min_nodes=2,
        affinity=False,
        constraints=False,
        dependencies=False,
        groups=False,
        trees=False,
        always=["ages", "best_effort", "reservations", "scalars"],
    )
    reserving = configs(actions=["allocate", "reserve", "backfill"])
    yield "cycles that reserve", cycles(clock, waiting, reserving, share=2)
    devices = snapshots(
        min_nodes=3,
        max_jobs=4,
        constraints=False,
        affinity=False,
        running=False,
        reservations=False,
        init_requests=False,
        always=["ages", "scalars"],
    )
    reserved_first = configs(actions=["reserve", "allocate"], flags=False)
    yield "cycles with devices", cycles(clock, devices, reserved_first, [agreement])
    lent = snapshots(
        max_nodes=2, max_queues=2, min_jobs=3, always=["backfill", "gangs"], **SOUND, **PLAIN
    )
    lending = with_actions([CALL_IN], [HOLD, RELEASE], [HOLD, DISPLACE])
    yield "cycles that backfill", cycles(clock, lent, lending)
    stuck = snapshots(
        max_nodes=2,
        max_queues=2,
        min_jobs=3,
        max_jobs=4,
        min_tasks=2,
        max_tasks=5,
        running=False,
        backfill=False,
        overcommitted=False,
        always=["gangs"],
        **SOUND,
        **PLAIN,
    )
    displacing = with_actions([HOLD, DISPLACE])
    yield "cycles that displace", cycles(clock, stuck, displacing)
    yield (
        "cycles with one who abstains",
        cycles(
            clock, stuck, displacing, [agreement], scheduler=with_one_who_abstains, first_seed=100
        ),
    )
    few_slots = snapshots(
        labels=LABELS, max_nodes=2, min_jobs=3, max_tasks=2, always=["running"], **SOUND, **PLAIN
    )
    yield "points", points(clock, st.one_of(few_slots, SNAPSHOTS), CONFIGS)
    yield "points in blocks", points(clock, IN_BLOCKS, CONFIGS_OF_BLOCKS)
    fussy = snapshots(
        max_nodes=3,
        min_jobs=4,
        scalars=False,
        init_requests=False,
        affinity=False,
        always=["constraints"],
        **SOUND,
    )
    yield "cycles with constraints", cycles(clock, fussy, configs(actions=["allocate"]))
    lending_among = snapshots(
        max_nodes=2,
        max_queues=2,
        min_jobs=3,
        scalars=False,
        init_requests=False,
        affinity=False,
        always=["constraints", "gangs"],
        **SOUND,
    )
    releasing = with_actions(["allocate", RELEASE], [RELEASE])
    yield "cycles that release among constraints", cycles(clock, lending_among, releasing)
    critical = snapshots(
        max_nodes=2,
        max_queues=2,
        min_jobs=2,
        max_jobs=5,
        backfill=False,
        always=["running", "critical", "queues"],
        **QUIET,
    )
    yield "cycles with critical tasks", cycles(clock, critical, in_two_tiers(), [agreement])
    sociable = snapshots(
        min_nodes=4,
        max_nodes=6,
        min_jobs=4,
        max_tasks=3,
        constraints=False,
        scalars=False,
        always=["affinity"],
        **SOUND,
    )
    near = configs(actions=["allocate"], flags=False)
    yield "cycles near others", cycles(clock, sociable, near)
    many_nodes = snapshots(min_nodes=6, max_nodes=14, min_jobs=5, max_jobs=10, invalid_jobs=False)
    placing = configs(actions=["allocate", "preempt", "backfill"])
    yield from (*checks_of_gangs(clock), *checks_of_guarantees(clock))
    yield "cycles on many nodes", cycles(clock, many_nodes, placing, EVERYTHING, share=1 / 3)
    yield "machine", machine(clock, {"actions": "reclaim, allocate, backfill, preempt"})
    reserve = {"name": "reserve", "arguments": {"starvingJobTimeThreshold": 20}}
    yield "machine that reserves", machine(clock, {"actions": [HOLD, reserve, RELEASE]})


def search(seconds: float, *, show: bool = False, only: Sequence[str] = ()) -> dict[str, object]:
    """Return what was found; print the example too if it is to be shown.

    `only`: the names of the checks to run; none: all.
    """
    clock = Clock(seconds)
    all_checks = [each for each in checks(clock) if not only or each[0] in only]
    examples, number, tried = 30, 0, 0
    try:
        while True:
            number += 1
            for name, check in all_checks:
                clock.tick()
                try:
                    check(examples, number)
                except OutOfTimeError:
                    raise
                except Exception as error:
                    clock.tick()  # Hypothesis says in its own words that the time is up
                    if show and isinstance(error, InvariantViolation):
                        print(f"{error}\n{error.as_code()}", file=sys.stderr)
                    return {
                        "caught": True,
                        "check": f"{name}: {_kind(error)}",
                        "seconds": round(clock.passed, 1),
                        "message": str(error).splitlines()[0] if str(error) else "",
                    }
                tried += examples
            examples = min(2 * examples, 240)
    except OutOfTimeError:
        return {"caught": False, "seconds": round(clock.passed, 1), "rounds": number}


def _kind(error: Exception) -> str:
    return error.invariant if isinstance(error, InvariantViolation) else type(error).__name__


def main(arguments: Sequence[str] | None = None) -> int:
    """Search and print; return the exit status."""
    parser = argparse.ArgumentParser(description="Run the testing kit until it finds something.")
    parser.add_argument("--seconds", type=float, default=60, help="processor time (default 60)")
    parser.add_argument("--show", action="store_true", help="print the example, too")
    parser.add_argument("--only", action="append", default=[], help="a check to run; all without")
    options = parser.parse_args(arguments)
    found = search(options.seconds, show=options.show, only=options.only)
    print(json.dumps(found))
    return int(bool(found["caught"]))


if __name__ == "__main__":
    sys.exit(main())
