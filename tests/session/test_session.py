"""Sessions: what they open with, what they answer, and what they refuse to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve
from tests.support.books import Saying, built_in, closed, dump, opened, standing
from tests.support.clusters import cluster, job, node

from batchsched import (
    ConditionReason,
    JobCondition,
    MemberCount,
    NodeInfo,
    PluginError,
    Session,
    Snapshot,
    StatementError,
    TaskInfo,
    TaskStatus,
    UnknownNameError,
)
from batchsched.session.cycle import drop_reservations
from batchsched.session.failures import TaskAttempts
from batchsched.session.turns import is_starving

S = TaskStatus
PLUGINS = ("priority", "gang", "drf", "proportion", "predicates", "nodeorder")


def busy() -> Snapshot:
    return cluster(
        [node("n1", "4C8G"), node("n2", "4C8G")],
        job("a", "1C1G@n1", "1C1G@n1*", minimum=1, priority=5),
        job("b", "1C1G", "1C1G", minimum=2),
        job("c", "1C1G>n2", "1C1G", minimum=2),
        job("few", "1C1G", minimum=2),
        job("lost", "1C1G", queue="gone"),
        now=500.0,
    )


def session() -> Session:
    return opened(busy(), PLUGINS)


# Opening


def test_jobs_of_unknown_queues_and_invalid_jobs_are_left_out_with_the_reason() -> None:
    of = session()
    assert list(of.jobs) == ["default/a", "default/b", "default/c"]
    assert of.left_out["default/lost"] == JobCondition(
        ConditionReason.QUEUE_UNKNOWN, "queue 'gone' is not in the snapshot"
    )
    assert of.left_out["default/few"] == JobCondition(
        ConditionReason.NOT_ENOUGH_TASKS,
        "1 of the 2 tasks that it needs can start",
        "gang",
        counts=(MemberCount(has=1, needs=2),),
    )
    assert [job.in_session for job in of.ledger.jobs.values()] == [True, True, True, False, False]


def test_without_gang_no_job_is_invalid() -> None:
    of = opened(busy(), ["priority"])
    assert list(of.left_out) == ["default/lost"]


def test_validity_is_asked_after_all_plugins_are_open() -> None:
    events: list[str] = []

    def opens(name: str) -> Callable[[object], Saying]:
        def open_(_: object) -> Saying:
            events.append(f"open {name}")
            return Saying(job_valid=lambda of: events.append(f"ask {name}"))

        return open_

    opened(cluster([], job("j", "1C1G")), [("a", opens("a"))], [("b", opens("b"))])
    assert events == ["open a", "open b", "ask a", "ask b"]


def test_queues_overused_at_open_are_known() -> None:
    full = cluster(
        [node("n1", "2C2G")],
        job("a", "1C1G@n1", "1C1G@n1", "1C1G", minimum=1),
        job("b", "1C1G", queue="r"),
        queues=("q", "r"),
    )
    assert opened(full, PLUGINS).reports.overused_at_open == {"q"}


@pytest.mark.parametrize(
    ("name", "jobs", "dropped"),
    [
        ("kept", [job("c", "1C1G>n2", "1C1G", minimum=2)], {}),
        ("ready", [job("c", "1C1G>n2", "1C1G@n1", minimum=1)], {"c-1": "n2"}),
        ("invalid", [job("c", "1C1G>n2", minimum=2)], {"c-1": "n2"}),
        ("left out", [job("c", "1C1G>n2", queue="gone")], {"c-1": "n2"}),
        ("node gone", [job("c", "1C1G>n9", "1C1G", minimum=2)], {"c-1": "n9"}),
        ("too small", [job("c", "5C1G>n2", "1C1G", minimum=2)], {"c-1": "n2"}),
        (
            "too small for all",
            [job("c", "3C1G>n2", minimum=1), job("d", "3C1G>n2", minimum=1)],
            {"c-1": "n2", "d-1": "n2"},
        ),
        (
            "too small with those of a ready job",  # sizes are looked at first
            [job("c", "3C1G>n2"), job("d", "3C1G>n2", "1C1G@n1", minimum=1)],
            {"c-1": "n2", "d-1": "n2"},
        ),
    ],
)
def test_reservations_without_a_future_are_dropped_at_open(
    name: str, jobs: list, dropped: dict[str, str]
) -> None:
    of = opened(cluster([node("n1", "4C8G"), node("n2", "4C8G")], *jobs), PLUGINS)
    ended = [task for task in of.reports.initial_reservations if task.status is not S.RESERVED]
    assert {task.uid: task.info.node_name for task in ended} == dropped
    for uid in dropped:
        assert standing(of.task(uid)) == ("Pending", None, False)
    kept = [t.uid for t in of.ledger.tasks.values() if t.status is S.RESERVED]
    assert kept == (["c-1"] if name == "kept" else [])
    of.check()


# Looking


def test_what_is_there_can_be_looked_up_by_name() -> None:
    of = session()
    assert of.now == 500.0
    assert [n.name for n in of.nodes] == ["n1", "n2"]
    assert list(of.queues) == ["q"]
    assert of.task("b-1") is of.ledger.tasks["b-1"]
    assert of.node("n2") is of.nodes[1]


def test_unknown_names_are_lookup_errors() -> None:
    of = session()
    with pytest.raises(UnknownNameError, match="there is no task 'x' in this snapshot"):
        of.task("x")
    with pytest.raises(UnknownNameError, match="there is no node 'x' in this snapshot"):
        of.node("x")
    with pytest.raises(LookupError):
        of.node("")


def test_a_session_says_what_its_plugins_say() -> None:
    of = session()
    a, b, c = (of.jobs[f"default/{name}"] for name in "abc")
    assert [of.plugins.job_ready(one) for one in (a, b, c)] == [True, False, False]
    assert [of.plugins.job_pipelined(one) for one in (a, b, c)] == [True, False, False]
    assert [of.plugins.job_condition_ready(one) for one in (a, b, c)] == [True, False, False]
    assert of.plugins.job_valid(a) is None
    few = of.ledger.jobs["default/few"]
    assert of.plugins.job_valid(few) == of.left_out["default/few"]
    assert of.plugins.overused(of.queues["q"]) is False
    assert of.plugins.job_order_key(a)[0] == -5
    assert of.plugins.queue_order_key(of.queues["q"])[-1] == "q"
    assert of.plugins.task_order_key(of.task("a-1"))[-1] == "a-1"
    low = [of.task("a-1"), of.task("a-2")]
    assert not of.plugins.preemptable(of.task("b-1"), low)  # of higher priority
    assert [task.uid for task in of.plugins.reclaimable(of.task("b-1"), low).alone] == ["a-2"]


def test_victim_order_is_the_exact_reverse_of_task_order() -> None:
    of = session()
    tasks = list(of.ledger.tasks.values())
    assert of.in_victim_order(tasks) == list(reversed(of.in_task_order(tasks)))


def test_live_queues_follow_what_happens() -> None:
    of = opened(busy(), ["drf"])
    jobs = of.live_jobs([of.jobs["default/b"], of.jobs["default/c"]])
    of.allocate(of.task("b-1"), of.node("n1"))
    assert [jobs.pop().uid, jobs.pop().uid] == ["default/c", "default/b"]
    assert of.live_queues(of.queues.values()).pop().name == "q"


def test_a_job_is_starving_if_it_is_not_ready_and_has_waited_longer_than_the_threshold() -> None:
    waits = job("w", "1C1G", creation_time=400.0)
    runs = job("r", "1C1G@n1", creation_time=1.0)
    kept = job("k", "1C1G>n1", creation_time=1.0)  # conditionally ready
    of = opened(cluster([node("n1", "4C4G")], waits, runs, kept, now=500.0), PLUGINS)
    w, r, k = (of.jobs[f"default/{name}"] for name in "wrk")
    assert is_starving(of, w, 99.0)
    assert not is_starving(of, w, 100.0)  # as long is not longer
    assert not is_starving(of, r, 1.0)
    assert not is_starving(of, k, 1.0)


# Acting


def test_allocating_binds_the_job_when_it_is_ready() -> None:
    of = session()
    of.allocate(of.task("b-2"), of.node("n2"))
    assert of.binds == []
    assert standing(of.task("b-2")) == ("Allocated", "n2", False)
    of.allocate(of.task("b-1"), of.node("n1"), is_backfill=True)
    assert [(b.task_uid, b.node_name, b.is_backfill) for b in of.binds] == [
        ("b-1", "n1", True),
        ("b-2", "n2", False),
    ]
    of.check()


ACTS: dict[str, tuple[Callable[[Session], None], str, tuple[str, str | None, bool]]] = {
    "allocate": (
        lambda of: of.allocate(of.task("b-1"), of.node("n1")),
        "b-1",
        ("Allocated", "n1", False),
    ),
    "pipeline": (
        lambda of: of.pipeline(of.task("b-1"), of.node("n1")),
        "b-1",
        ("Pipelined", "n1", False),
    ),
    "promise": (
        lambda of: of.promise(of.task("b-1"), of.node("n1")),
        "b-1",
        ("Conditional", "n1", False),
    ),
    "reserve": (
        lambda of: of.reserve(of.task("b-1"), of.node("n1")),
        "b-1",
        ("Reserved", "n1", False),
    ),
    "take back": (lambda of: of.unallocate(of.task("c-1")), "c-1", ("Pending", None, False)),
    "evict": (
        lambda of: of.evict(of.task("a-2"), claimant=of.task("b-1")),
        "a-2",
        ("Releasing", "n1", True),
    ),
}


@pytest.mark.parametrize("name", ACTS)
def test_acts_outside_a_statement_are_decided_at_once(name: str) -> None:
    of = session()
    act, uid, expected = ACTS[name]
    act(of)
    assert standing(of.task(uid)) == expected
    of.check()
    of.statement()  # none is left open


@pytest.mark.parametrize("name", ACTS)
def test_acts_of_the_session_are_refused_while_a_statement_is_open(name: str) -> None:
    of = session()
    before = dump(of)
    with of.statement():
        with pytest.raises(StatementError, match="a statement is open; use its operations"):
            ACTS[name][0](of)
        assert dump(of) == before


@pytest.mark.parametrize(
    ("name", "uid"),
    [
        *(("allocate", "a-1"), ("pipeline", "a-1"), ("promise", "a-1"), ("reserve", "a-1")),
        *(("pipeline", "c-1"), ("promise", "c-1"), ("reserve", "c-1")),
    ],
)
def test_only_pending_tasks_can_be_placed(name: str, uid: str) -> None:
    of = session()
    with pytest.raises(StatementError, match="expected a task that is Pending"):
        getattr(of, name)(of.task(uid), of.node("n1"))


def test_only_running_tasks_can_be_evicted_and_only_places_taken_back() -> None:
    of = session()
    before = dump(of)
    with pytest.raises(StatementError, match="expected a task that is Running"):
        of.evict(of.task("b-1"), claimant=of.task("b-2"))
    with pytest.raises(StatementError, match="expected a task that is Allocated or Pipelined"):
        of.unallocate(of.task("b-1"))
    assert dump(of) == before
    of.statement()  # the failed acts left none open


@pytest.mark.parametrize("uid", ["lost-1", "few-1", "x"])
def test_tasks_of_no_job_of_the_session_cannot_be_touched(uid: str) -> None:
    snapshot = busy()
    other = TaskInfo(uid="x", name="x", status=S.RUNNING, node_name="n1")
    of = opened(evolve(snapshot, other_tasks=[other]), PLUGINS)
    with pytest.raises(StatementError, match="expected a task of a job in this session"):
        ACTS_ON[uid](of)


ACTS_ON: dict[str, Callable[[Session], None]] = {
    "x": lambda of: of.evict(of.task("x"), claimant=of.task("b-1")),
    "lost-1": lambda of: of.allocate(of.task("lost-1"), of.node("n1")),
    "few-1": lambda of: of.reserve(of.task("few-1"), of.node("n1")),
}


def test_evictions_name_the_action_and_the_claimant() -> None:
    of = session()
    of.action_name = "mine"
    of.evict(of.task("a-1"), claimant=of.task("b-1"))
    (eviction,) = of.evictions
    assert (eviction.task_uid, eviction.node_name) == ("a-1", "n1")
    assert (eviction.action, eviction.for_task_uid) == ("mine", "b-1")


def test_dropping_reservations_makes_tasks_pending_and_takes_note() -> None:
    of = session()
    of.reserve(of.task("c-2"), of.node("n1"))
    drop_reservations(of, of.jobs["default/c"])
    assert standing(of.task("c-1")) == standing(of.task("c-2")) == ("Pending", None, False)
    # c-2 was of this session.
    assert [promise.task_uid for promise in closed(of).dropped_reservations] == ["c-1"]
    of.check()


def test_running_tasks_of_a_node_are_given_in_victim_order_and_kept_up_to_date() -> None:
    of = session()
    n1 = of.node("n1")
    assert [t.uid for t in of.in_victim_order(of.ledger.running_on(n1).all)] == ["a-2", "a-1"]
    with of.statement() as statement:
        statement.evict(of.task("a-2"), claimant=of.task("b-1"))
        assert [t.uid for t in of.in_victim_order(of.ledger.running_on(n1).all)] == ["a-1"]
    assert [t.uid for t in of.in_victim_order(of.ledger.running_on(n1).all)] == ["a-2", "a-1"]


def test_a_listener_that_raises_is_named() -> None:
    def fail(_: object) -> None:
        raise OSError("broken")

    of = opened(busy(), [("own", Saying(on_allocate=fail, on_deallocate=lambda _: None))])
    with pytest.raises(PluginError, match="plugin 'own', on_allocate: OSError: broken"):
        of.allocate(of.task("b-1"), of.node("n1"))


def test_an_empty_snapshot_makes_an_empty_session() -> None:
    of = opened(Snapshot(), PLUGINS)
    assert (of.jobs, list(of.nodes), dict(of.queues)) == ({}, [], {})
    of.check()


def test_a_view_shows_the_whole_session() -> None:
    views = []

    def look(view: object) -> Saying:
        views.append(view)
        return Saying(job_ready=lambda _: True)

    of = opened(busy(), [("own", look)])
    (view,) = views
    assert view.now == 500.0
    assert view.nodes is of.nodes
    assert list(view.jobs) == list(of.ledger.jobs)
    assert "default/lost" in view.jobs
    assert list(view.queues) == ["q"]
    assert view.tasks["b-1"] is of.task("b-1")
    assert view.cluster == (8000, 16 << 30)
    assert view.dimensions.names == ("cpu", "memory")
    assert view.pod_affinity is view.pod_affinity


def test_a_node_without_anything_and_a_plugin_opened_twice_do_no_harm() -> None:
    nothing = Snapshot(nodes=[NodeInfo(name="n1")])
    for _ in range(2):
        opened(nothing, [("p", lambda view: built_in("proportion").open(view))]).check()


class TestWhatIsRecorded:
    """Reasons are written from what actions record; they decide nothing by themselves."""

    def of(self) -> Session:
        return opened(busy(), PLUGINS)

    def test_a_failure_is_reported_and_remembered(self) -> None:
        of = self.of()
        task = of.task("b-1")
        of.record_failure(task)
        assert of.reports.tasks == {task: TaskAttempts(found_no_place=True)}
        assert of.reports.about(task).found_no_place

    def test_a_statement_that_is_discarded_records_the_places_that_it_took_back(self) -> None:
        of = self.of()
        task = of.task("b-1")
        with of.statement() as statement:
            statement.allocate(task, of.node("n1"))
        assert of.reports.tasks == {task: TaskAttempts(was_undone=True)}

    def test_a_committed_statement_and_a_trial_record_nothing(self) -> None:
        of = self.of()
        with of.statement() as statement:
            statement.allocate(of.task("b-1"), of.node("n1"))
            statement.commit()
        with of.statement(is_trial=True) as statement:
            statement.allocate(of.task("b-2"), of.node("n1"))
        assert not of.reports.tasks


def test_a_notebook_shows_what_is_idle_on_each_node() -> None:
    snapshot = cluster([node("n1", "2C2G"), node("n2", "4C8G")])
    html = opened(snapshot, PLUGINS)._repr_html_()
    assert "2 nodes" in html
    assert "<td>n2</td><td>0</td><td>cpu 4, memory 8 GiB</td>" in html
