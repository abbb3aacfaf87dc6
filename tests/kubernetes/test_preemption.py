"""Who may evict and be evicted, as dumps say it, under the presets of their systems."""

import pytest
from tests.support import dumps
from tests.support.program import run

from batchsched.kubernetes import read_dump


def group(name, least=1, priority=0, **spec):
    return dumps.native_group(name, least, priority=priority, **spec)


def pods(name, count=1, priority=0, **more):
    return dumps.members(name, count, priority=priority, **more)


def with_port(pod, number=80):
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": number, "hostPort": number}]
    return pod


def states(given, *words):
    table = run("jobs", "--all", *words, "--json", given=given).data["jobs"]
    return {each["job"].partition("/")[2]: each["state"] for each in table}


FULL = [dumps.node("n1", "1")]


def test_pods_of_no_group_are_preempted_by_the_kube_scheduler():
    given = [*FULL, group("hi", priority=9), *pods("hi", priority=9), dumps.pod("lo", on="n1")]
    assert states(given) == {"hi": "Promised", "lo": "Running"}
    again = states([*given[:-1], dumps.pod("lo", on="n1", priority=9)])
    assert again["hi"] != "Promised"


def test_pods_of_the_kube_scheduler_that_is_asked_about_are_preempted_too():
    given = [*FULL, dumps.pod("hi", priority=9), dumps.pod("lo", on="n1")]
    words = ("--scheduler", "default-scheduler")
    assert states(given, *words) == {"hi": "Promised", "lo": "Running"}
    told = run("why", "hi", *words, given=given)
    assert "configuration: kubernetes" in told.out


def test_pods_of_daemon_sets_and_nodes_only_occupy():
    for kind in ("DaemonSet", "Node"):
        owner = dumps.thing("apps/v1", kind, "owner")
        given = [group("hi", priority=9), *pods("hi", priority=9)]
        dump = read_dump([*FULL, *given, dumps.pod("lo", on="n1", owner=owner)])
        assert [job.name for job in dump.snapshot.jobs] == ["hi"]
        assert len(dump.snapshot.other_tasks) == 1


@pytest.mark.parametrize("make", [dumps.kueue_waits, dumps.kai_gangs, dumps.volcano_pending])
def test_where_others_schedule_too_pods_of_no_group_that_run_only_occupy(make):
    dump = read_dump([*make(), group("hi"), dumps.pod("lo", on="n1")])
    assert "lo" in [task.name for task in dump.snapshot.other_tasks]


def test_ports_are_freed_as_kubernetes_frees_them():
    given = [dumps.node("n1", "8"), group("hi", priority=9)]
    given += [with_port(each) for each in pods("hi", priority=9)]
    given.append(with_port(dumps.pod("lo", on="n1")))
    assert states(given)["hi"] == "Promised"


def test_a_group_whose_policy_is_never_to_preempt_is_promised_nothing():
    for spec, of_pods in ((NEVER, {}), ({}, NEVER)):
        hi = group("hi", priority=9, **spec)
        given = [*FULL, hi, *pods("hi", priority=9, **of_pods), dumps.pod("lo", on="n1")]
        assert states(given)["hi"] == "Room"


NEVER = {"preemptionPolicy": "Never"}


@pytest.mark.parametrize("mode", [{"single": {}}, {"all": {}}])
def test_a_group_is_evicted_as_a_whole_if_it_says_so(mode):
    given = [dumps.node("n1", "2"), group("lo", 2, disruptionMode=mode)]
    given += [*pods("lo", 2, on="n1"), group("hi", priority=9), *pods("hi", priority=9)]
    evicted = run("why", "hi", "--width", 200, given=given).out
    assert "promised" in evicted
    names = [name for name in ("team/lo-0", "team/lo-1") if f"{name}" in evicted]
    assert len(names) == (2 if "all" in mode else 1)
    # A job of the same priority evicts nobody.
    equal = [*given[:-2], group("eq"), *pods("eq")]
    assert states(equal)["eq"] == "Room"
