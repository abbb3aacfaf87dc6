"""Moves: a running task gets another place, in a session and from cycle to cycle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve
from tests.support.books import closed, dump, opened
from tests.support.clusters import cluster, job, node

from batchsched import (
    ActionOption,
    CycleResult,
    HostPort,
    JobInfo,
    LabelSelector,
    Move,
    PluginOption,
    PodAffinity,
    PodAffinityTerm,
    Registry,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    SnapshotError,
    StatementError,
    TaskInfo,
    TaskStatus,
    Tier,
    default_registry,
    next_snapshot,
)
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest
from batchsched.live import (
    Cluster,
    EvictionRefused,
    NodeChanged,
    NodeRemoved,
    TaskChanged,
    TaskFound,
    TaskGone,
    TaskSucceeded,
    TimePassed,
)

S = TaskStatus
PLUGINS = ("priority", "gang", "drf", "proportion", "predicates", "nodeorder")
PICK = DevicePick(claim="c", request="gpu", device=("", "", "g"))
NODES = (node("n1", "8C8G"), node("n2", "8C8G"))


def two(**more: object) -> Snapshot:
    """A runs on n1, b on n2, and c wants a whole node."""
    return evolve(
        cluster(NODES, job("a", "2C2G@n1"), job("b", "2C2G@n2"), job("c", "8C8G"), now=100.0),
        **more,
    )


def session(snapshot: Snapshot | None = None) -> Session:
    return opened(two() if snapshot is None else snapshot, PLUGINS)


def amounts(of: Session, name: str, account: str) -> float:
    return getattr(of.node(name), account)[0]


class TestOperation:
    def test_it_is_counted_on_both_nodes(self) -> None:
        of = session()
        with of.statement() as statement:
            statement.move(of.task("a-1"), of.node("n2"), claimant=of.task("c-1"))
            task = of.task("a-1")
            assert (task.status, task.node) == (S.PIPELINED, of.node("n2"))
            assert task.moves
            assert amounts(of, "n1", "releasing") == amounts(of, "n2", "pipelined") == 2000
            assert amounts(of, "n1", "future_idle") == 8000
            assert amounts(of, "n2", "future_idle") == 4000
            assert statement.placed() == [task]
            assert statement.moves() == [(task, of.node("n1"))]
            job_of = of.jobs["default/a"]
            assert (job_of.ready_count, job_of.count(S.PIPELINED)) == (0, 1)
            assert of.plugins.job_pipelined(job_of)
            assert not of.plugins.job_ready(job_of)
            assert not job_of.is_broken
            of.check()

    @pytest.mark.parametrize("how", ["discard", "rollback"])
    def test_undoing_it_restores_everything(self, how: str) -> None:
        of = session()
        before = dump(of)
        with of.statement() as statement:
            statement.move(of.task("a-1"), of.node("n2"), claimant=of.task("c-1"))
            statement.pipeline(of.task("c-1"), of.node("n1"))
            if how == "rollback":
                statement.rollback(0)
                assert not statement.moves()
                assert dump(of) == before
        assert dump(of) == before
        assert of.moves == []
        of.check()

    def test_committing_it_decides_it(self) -> None:
        of = session()
        of.action_name = "pack"
        with of.statement() as statement:
            statement.move(of.task("a-1"), of.node("n2"), claimant=of.task("c-1"))
            statement.pipeline(of.task("c-1"), of.node("n1"))
            statement.commit()
        of.check()
        result = closed(of)
        assert result.moves == (
            Move(task_uid="a-1", from_node="n1", to_node="n2", action="pack", for_task_uid="c-1"),
        )
        assert result.evictions == ()
        assert {(p.task_uid, p.node_name) for p in result.pipelined} == {
            ("a-1", "n2"),
            ("c-1", "n1"),
        }
        assert result.kept_promises == result.pipelined

    def test_without_a_claimant_its_promise_is_kept_too(self) -> None:
        of = session()
        of.move(of.task("a-1"), of.node("n2"))
        result = closed(of)
        assert result.moves[0].for_task_uid is None
        assert [promise.task_uid for promise in result.kept_promises] == ["a-1"]

    def test_shares_are_as_before(self) -> None:
        of = session()
        queue = of.queues["q"]
        before = of.queue_share(queue)
        of.move(of.task("a-1"), of.node("n2"))
        assert of.queue_share(queue) == before

    @pytest.mark.parametrize(
        ("uid", "to", "message"),
        [
            ("c-1", "n2", "expected a task that is Running"),
            ("a-1", "n1", "expected another node than its own for .*a-1 Pending"),
            ("big-1", "n2", "expected a node where .* fits later, got <node n2>"),
            ("a-1", "n3", "expected a node that will accept .*a-1.*, got <node n3>"),
        ],
    )
    def test_what_cannot_move_is_refused_and_nothing_changes(
        self, uid: str, to: str, message: str
    ) -> None:
        closed_node = node("n3", "8C8G", unschedulable=True)
        snapshot = cluster(
            [*NODES, closed_node],
            *(job("a", "1C1G@n1"), job("b", "2C2G@n2"), job("c", "8C8G"), job("big", "7C7G@n1")),
        )
        of = session(snapshot)
        before = dump(of)
        with of.statement() as statement:
            with pytest.raises(StatementError, match=message):
                statement.move(of.task(uid), of.node(to))
            assert (len(statement), statement.moves()) == (0, [])
        assert dump(of) == before
        of.check()

    @pytest.mark.parametrize(
        "act",
        [
            lambda of: of.move(of.task("a-1"), of.node("n3")),
            lambda of: of.evict(of.task("a-1"), claimant=of.task("c-1")),
            lambda of: of.unallocate(of.task("a-1")),
        ],
    )
    def test_what_moves_is_not_touched_again(self, act: Callable[[Session], None]) -> None:
        of = session(evolve(two(), nodes=[*NODES, node("n3", "8C8G")]))
        of.move(of.task("a-1"), of.node("n2"))
        before = dump(of)
        with pytest.raises(StatementError, match="expected a task that"):
            act(of)
        assert dump(of) == before

    def test_tasks_that_move_make_room_for_each_other_in_order(self) -> None:
        """A takes the port on n2 that b leaves, and b that of a third node."""
        port = (HostPort(port=80),)
        jobs = [
            job("a", "6C6G@n1"),
            job("b", "6C6G@n2"),
        ]
        jobs = [evolve(one, tasks=[evolve(one.tasks[0], host_ports=port)]) for one in jobs]
        of = session(cluster([*NODES, node("n3", "8C8G")], *jobs))
        with of.statement() as statement:
            with pytest.raises(StatementError, match="fits later"):
                statement.move(of.task("a-1"), of.node("n2"))
            statement.move(of.task("b-1"), of.node("n3"))
            statement.move(of.task("a-1"), of.node("n2"))
            statement.commit()
        of.check()

    def test_it_does_not_stand_in_its_own_way(self) -> None:
        """Apart from others of its kind in a zone, it moves within the zone."""
        apart = PodAffinity(
            required=[
                PodAffinityTerm(
                    topology_key="zone", selector=LabelSelector(match_labels={"app": "a"})
                )
            ]
        )
        zone = [evolve(each, labels={"zone": "z"}) for each in NODES]
        one = job("a", "2C2G@n1")
        tasks = [evolve(one.tasks[0], labels={"app": "a"}, pod_anti_affinity=apart)]
        of = session(cluster(zone, evolve(one, tasks=tasks)))
        of.move(of.task("a-1"), of.node("n2"))
        of.check()


# From cycle to cycle


class Mover:
    """Moves a to n2 for c, once."""

    def execute(self, session: Session, /) -> None:
        task = session.task("a-1")
        if task.status is not S.RUNNING or task.node is session.node("n2"):
            return
        with session.statement() as statement:
            statement.move(task, session.node("n2"), claimant=session.task("c-1"))
            statement.pipeline(session.task("c-1"), session.node("n1"))
            statement.commit()


def mover(**options: object) -> Scheduler:
    known, own = default_registry(), Registry()
    names = ("priority", "gang", "predicates", "nodeorder", "devices")
    for name in names:
        plugin = known.plugin_factory(name)
        assert plugin is not None
        own.register_plugin(name, plugin)
    allocate = known.action_factory("allocate")
    assert allocate is not None
    own.register_action("allocate", allocate)
    own.register_action("mover", Mover)
    config = SchedulerConfig(
        actions=[ActionOption(name="mover"), ActionOption(name="allocate")],
        tiers=[Tier(plugins=[PluginOption(name=name) for name in names])],
    )
    return Scheduler(config, own, **options)


def task_of(snapshot: Snapshot, uid: str) -> TaskInfo:
    return next(t for one in snapshot.jobs for t in one.tasks if t.uid == uid)


class TestNextSnapshot:
    def moved(self) -> tuple[Snapshot, CycleResult]:
        running = evolve(two().jobs[0], tasks=[evolve(two().jobs[0].tasks[0], start_time=40.0)])
        snapshot = evolve(two(), jobs=[running, *two().jobs[1:]])
        return snapshot, mover().schedule(snapshot)

    def test_what_still_runs_where_it_was_is_leaving(self) -> None:
        snapshot, result = self.moved()
        after = next_snapshot(snapshot, result, now=110, still_releasing=["a-1"])
        task = task_of(after, "a-1")
        assert (task.status, task.node_name, task.leaving) == (S.PIPELINED, "n2", "n1")
        assert (task.start_time, task.attained_service, task.seconds_held(110)) == (40, 0, 70)

    def test_it_counts_as_an_eviction_for_limits_but_does_not_break_its_job(self) -> None:
        snapshot, result = self.moved()
        after = next_snapshot(evolve(snapshot, evictions_kept=60.0), result, now=110)
        (past,) = after.evictions
        assert (past.job, past.for_job, past.action) == ("default/a", "default/c", "mover")
        assert after.jobs[0].last_evicted is None

    def test_what_has_left_waits_for_its_place(self) -> None:
        snapshot, result = self.moved()
        after = next_snapshot(snapshot, result, now=110)
        task = task_of(after, "a-1")
        assert (task.status, task.node_name, task.leaving) == (S.PIPELINED, "n2", None)
        assert (task.start_time, task.attained_service) == (None, 70)

    def test_it_starts_once_it_has_left_and_not_before(self) -> None:
        snapshot, result = self.moved()
        still = next_snapshot(snapshot, result, now=110, still_releasing=["a-1"])
        again = mover().schedule(still)
        assert (again.binds, again.moves) == ((), ())
        assert [promise.task_uid for promise in again.kept_promises] == ["a-1", "c-1"]
        left = next_snapshot(still, again, now=120)
        last = mover().schedule(left)
        assert [(bind.task_uid, bind.node_name) for bind in last.binds] == [
            ("a-1", "n2"),
            ("c-1", "n1"),
        ]

    def test_what_loses_its_promise_leaves_like_one_that_was_evicted(self) -> None:
        snapshot, result = self.moved()
        still = next_snapshot(snapshot, result, now=110, still_releasing=["a-1"])
        out = evolve(still, nodes=[still.nodes[0], evolve(still.nodes[1], unschedulable=True)])
        ended = mover().schedule(out)
        assert [promise.task_uid for promise in ended.dropped_promises] == ["a-1"]
        assert ended.tasks["a-1"].status is S.RELEASING
        later = next_snapshot(out, ended, now=120, still_releasing=["a-1"])
        task = task_of(later, "a-1")
        assert (task.status, task.node_name, task.leaving) == (S.RELEASING, "n1", None)
        gone = next_snapshot(out, ended, now=120)
        assert (task_of(gone, "a-1").status, task_of(gone, "a-1").attained_service) == (
            S.PENDING,
            80,
        )

    def test_an_eviction_that_is_refused_ends_the_promise(self) -> None:
        snapshot, result = self.moved()
        still = next_snapshot(snapshot, result, now=110, still_releasing=["a-1"])
        after = next_snapshot(
            still, None, now=120, still_releasing=["a-1"], events=[EvictionRefused("a-1")]
        )
        task = task_of(after, "a-1")
        assert (task.status, task.node_name, task.leaving) == (S.RUNNING, "n1", None)
        assert task.start_time == 40

    def test_without_promises_it_is_evicted(self) -> None:
        snapshot, result = self.moved()
        after = next_snapshot(snapshot, result, now=110, keep_reservations=False)
        assert task_of(after, "a-1").status is S.PENDING

    def test_a_node_that_is_gone_was_left(self) -> None:
        snapshot, result = self.moved()
        still = next_snapshot(snapshot, result, now=110, still_releasing=["a-1"])
        after = next_snapshot(still, None, now=120, still_releasing=["a-1"], nodes=still.nodes[1:])
        task = task_of(after, "a-1")
        assert (task.status, task.leaving, task.attained_service) == (S.PIPELINED, None, 80)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda m: evolve(m, from_node="n2"), "it moves the task from 'n2', which is on 'n1'"),
            (lambda m: evolve(m, task_uid="b-1"), "it moves the task from 'n1', which is on 'n2'"),
            (lambda m: evolve(m, task_uid="c-1"), "it moves the task, which is Pending"),
        ],
    )
    def test_a_result_of_another_snapshot_is_refused(
        self, change: Callable[[Move], Move], message: str
    ) -> None:
        snapshot, result = self.moved()
        kept = tuple(
            evolve(each, task_uid=change(result.moves[0]).task_uid, node_name="n2")
            for each in result.kept_promises[:1]
        )
        wrong = evolve(result, moves=[change(result.moves[0])], kept_promises=kept, tasks={})
        with pytest.raises(Exception, match=message):
            next_snapshot(snapshot, wrong, now=110)

    def test_the_next_snapshot_can_be_written_and_read(self) -> None:
        snapshot, result = self.moved()
        after = next_snapshot(snapshot, result, now=110, still_releasing=["a-1"])
        assert Snapshot.from_dict(after.to_dict()) == after


class TestSnapshot:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"status": S.RUNNING, "node_name": "n2"}, "a task that is Running: only a promised"),
            ({"node_name": "n1"}, "expected another node than the one that is promised, got 'n1'"),
            ({"leaving": "n7"}, r"leaving: .*'n7'"),
            ({"leaving": ""}, "leaving: is empty"),
            ({"leaving": 7}, "leaving: expected a string or None, got 7"),
            ({"left_devices": [7]}, r"left_devices\[0\]: expected a DevicePick"),
            ({"left_devices": [PICK]}, r"left_devices\[0\]: .*no request 'gpu' of a claim 'c'"),
            ({"left_choices": 7}, "left_choices: expected a mapping"),
            ({"left_choices": {"devices": ()}}, "left_choices.*: give it as left_devices"),
            ({"left_choices": {"slots": []}}, "left_choices.*slots.*: .*can be hashed"),
        ],
    )
    def test_what_cannot_move_is_refused(self, change: dict[str, object], message: str) -> None:
        task = evolve(job("a", "2C2G~n2").tasks[0], **{"leaving": "n1", **change})
        with pytest.raises(SnapshotError, match=message):
            cluster(NODES, JobInfo(name="a", queue="q", tasks=[task]))

    @pytest.mark.parametrize(
        ("name", "chosen"), [("left_devices", ()), ("left_choices", {"slots": 1})]
    )
    def test_nothing_was_chosen_where_nothing_leaves(self, name: str, chosen: object) -> None:
        task = evolve(job("a", "2C2G~n2").tasks[0], **{name: chosen})
        with pytest.raises(SnapshotError, match=f"{name}: expected none without leaving"):
            cluster(NODES, JobInfo(name="a", queue="q", tasks=[task]))

    def test_the_name_of_the_node_is_what_is_written(self) -> None:
        task = evolve(job("a", "2C2G~n2").tasks[0], leaving="n1")
        snapshot = cluster(NODES, JobInfo(name="a", queue="q", tasks=[task]))
        assert snapshot.to_dict()["jobs"][0]["tasks"][0]["leaving"] == "n1"
        assert Snapshot.from_dict(snapshot.to_dict()) == snapshot

    def test_a_session_has_it_on_both_nodes(self) -> None:
        task = evolve(job("a", "2C2G~n2").tasks[0], leaving="n1")
        of = session(cluster(NODES, JobInfo(name="a", queue="q", tasks=[task])))
        assert amounts(of, "n1", "releasing") == amounts(of, "n2", "pipelined") == 2000
        of.check()


class TestDevices:
    """A claims the only device of n1, and gets that of n2."""

    def start(self) -> Snapshot:
        claim = DeviceClaim(name="c", requests=[DeviceRequest(name="gpu")])
        a = evolve(two().jobs[0].tasks[0], claims=[claim], devices=[self.of("n1")])
        return evolve(
            two(),
            nodes=[evolve(each, devices=[Device(name=each.name)]) for each in NODES],
            jobs=[evolve(two().jobs[0], tasks=[a]), *two().jobs[1:]],
        )

    def of(self, name: str) -> DevicePick:
        return evolve(PICK, device=("", "", name))

    def moved(self) -> Cluster:
        cluster_ = Cluster(self.start())
        cluster_.carry_out(mover().schedule(self.start()))
        return cluster_

    def test_those_that_it_leaves_are_its_own_until_it_has_left(self) -> None:
        cluster_ = self.moved()
        task = cluster_.task("a-1")
        assert (task.node_name, task.devices) == ("n2", (self.of("n2"),))
        assert (task.leaving, task.left_devices) == ("n1", (self.of("n1"),))
        assert Snapshot.from_dict(cluster_.snapshot().to_dict()) == cluster_.snapshot()
        cluster_.apply(TaskGone("a-1"))
        task = cluster_.task("a-1")
        assert (task.devices, task.leaving, task.left_devices) == ((self.of("n2"),), None, None)

    def test_it_has_them_again_if_it_stays(self) -> None:
        cluster_ = self.moved()
        cluster_.apply(EvictionRefused("a-1"))
        task = cluster_.task("a-1")
        assert (task.node_name, task.devices) == ("n1", (self.of("n1"),))
        assert (task.leaving, task.left_devices) == (None, None)

    def test_they_are_unknown_once_it_claims_something_else(self) -> None:
        cluster_ = self.moved()
        live = mover().attach(cluster_)
        live.schedule()
        other = DeviceClaim(name="d", requests=[DeviceRequest(name="gpu")])
        cluster_.apply(
            TaskChanged(evolve(self.start().jobs[0].tasks[0], claims=[other], devices=None))
        )
        task = cluster_.task("a-1")
        assert (task.node_name, task.devices) == ("n2", None)
        assert (task.leaving, task.left_devices) == ("n1", None)
        assert live.schedule() == mover().schedule(cluster_.snapshot())


class TestLiving:
    def living(self) -> tuple[Cluster, object]:
        cluster_ = Cluster(two())
        return cluster_, mover().attach(cluster_)

    def test_a_move_takes_its_time(self) -> None:
        cluster_, live = self.living()
        result = live.schedule()
        assert [move.task_uid for move in result.moves] == ["a-1"]
        cluster_.carry_out(result)
        task = cluster_.task("a-1")
        assert (task.status, task.node_name, task.leaving) == (S.PIPELINED, "n2", "n1")
        assert live.schedule() == mover().schedule(cluster_.snapshot())
        cluster_.apply(TimePassed(110))
        cluster_.carry_out(live.schedule())
        cluster_.apply(TaskGone("a-1"))
        assert cluster_.task("a-1").leaving is None
        assert cluster_.task("a-1").status is S.PIPELINED
        again = live.schedule()
        assert again == mover().schedule(cluster_.snapshot())
        assert {bind.task_uid for bind in again.binds} == {"a-1", "c-1"}

    @pytest.mark.parametrize(
        ("event", "expected"),
        [
            (EvictionRefused("a-1"), (S.RUNNING, "n1", None)),
            (TaskFound("a-1", "n2"), (S.RUNNING, "n2", None)),
            (TaskFound("a-1", "n1"), (S.RUNNING, "n1", None)),
            (TaskSucceeded("a-1"), (S.SUCCEEDED, None, None)),
        ],
    )
    def test_it_may_end_otherwise(
        self, event: object, expected: tuple[TaskStatus, str | None, None]
    ) -> None:
        cluster_, live = self.living()
        cluster_.carry_out(live.schedule())
        cluster_.apply(event)
        task = cluster_.task("a-1")
        assert (task.status, task.node_name, task.leaving) == expected
        assert live.schedule() == mover().schedule(cluster_.snapshot())

    def test_a_node_that_it_leaves_cannot_be_removed(self) -> None:
        cluster_, live = self.living()
        cluster_.carry_out(live.schedule())
        with pytest.raises(Exception, match="'a-1' is on node 'n1'"):
            cluster_.apply(NodeRemoved("n1"))

    def test_its_promise_ends_with_its_node(self) -> None:
        cluster_, live = self.living()
        result = live.schedule()
        cluster_.carry_out(result)
        changed = evolve(cluster_.snapshot().nodes[1], unschedulable=True)
        cluster_.apply(NodeChanged(changed))
        ended = live.schedule()
        assert ended == mover().schedule(cluster_.snapshot())
        cluster_.carry_out(ended)
        task = cluster_.task("a-1")
        assert (task.status, task.node_name, task.leaving) == (S.RELEASING, "n1", None)
        assert live.schedule() == mover().schedule(cluster_.snapshot())

    def test_a_plain_scheduler_decides_the_same(self) -> None:
        assert mover(plain=True).schedule(two()) == mover().schedule(two())
