"""What keeps pods from being evicted, as dumps say it: budgets and annotations."""

import json

import pytest
from tests.support import dumps
from tests.support.program import run

from batchsched import (
    Budget,
    KubernetesObjectError,
    LabelSelector,
    NoticeCode,
    Preemptible,
    Scheduler,
    SchedulerConfig,
)
from batchsched.kubernetes import read_dump, read_objects

WEB = {"app": "web"}
SELECTED = {"selector": {"matchLabels": WEB}}


def pdb(name="web", *, status=None, **spec):
    more = {} if status is None else {"status": status}
    return dumps.thing("policy/v1", "PodDisruptionBudget", name, spec={**SELECTED, **spec}, **more)


def web(count, **more):
    return [dumps.pod(f"web-{n}", on="n1", labels=WEB, **more) for n in range(count)]


def only_budget(*objects):
    (budget,) = read_dump(objects).snapshot.budgets
    return budget


@pytest.mark.parametrize(
    ("given", "least", "most"),
    [
        ({"minAvailable": 2}, 2, None),
        ({"maxUnavailable": 1}, None, 1),
        ({"maxUnavailable": "1"}, None, 1),
        ({"minAvailable": "50%"}, 3, None),
        ({"maxUnavailable": "50%"}, None, 3),
        # What the controller tells counts, once it has told anything.
        ({"maxUnavailable": "50%", "status": {"desiredHealthy": 4}}, 4, None),
        ({"minAvailable": 2, "status": {"desiredHealthy": 0}}, 2, None),
        ({"minAvailable": 2, "status": {"desiredHealthy": 0, "observedGeneration": 1}}, 0, None),
    ],
)
def test_a_pod_disruption_budget_is_one_that_is_broken_where_nothing_else_helps(given, least, most):
    others = [dumps.pod("other", on="n1"), dumps.pod("over", on="n1", labels=WEB)]
    others[1]["status"]["phase"] = "Succeeded"
    found = only_budget(dumps.node("n1", "9"), *web(5), *others, pdb(**given))
    assert found == Budget(
        name="web",
        namespace="team",
        selector=LabelSelector(match_labels=WEB),
        min_available=least,
        max_unavailable=most,
        hard=False,
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"selector": None, "minAvailable": 1}, "spec.selector"),
        ({}, "spec.minAvailable"),
    ],
)
def test_a_budget_that_protects_nothing_is_noted(spec, field):
    dump = read_dump([pdb(**spec)])
    assert not dump.snapshot.budgets
    (notice,) = dump.notices
    assert (notice.code, notice.kind, notice.field) == (
        NoticeCode.FIELD_IGNORED,
        "PodDisruptionBudget",
        field,
    )


@pytest.mark.parametrize("amount", [-1, "half", "50.5%", 1.5, True])
def test_an_amount_of_a_budget_that_is_none_is_a_fault(amount):
    with pytest.raises(KubernetesObjectError) as caught:
        read_dump([pdb(minAvailable=amount)])
    (fault,) = caught.value.faults
    assert fault.path == "poddisruptionbudgets.policy['team/web'].spec.minAvailable"


def test_budgets_are_read_from_objects_that_are_sorted_by_kind_too():
    budget = pdb(minAvailable=1)
    snapshot, _ = read_objects(nodes=[], pods=[], pod_disruption_budgets=[budget])
    assert snapshot.budgets == read_dump([budget]).snapshot.budgets
    with pytest.raises(KubernetesObjectError, match="pod_disruption_budgets"):
        read_objects(nodes=[], pods=[], pod_disruption_budgets=[{}])


def cluster_with(*more, room="2"):
    """Two pods of one budget and one besides run, where a more important group waits."""
    group = dumps.native_group("hi", 1, priority=9)
    waits = dumps.members("hi", 1, priority=9)
    runs = [*web(1), dumps.pod("plain", on="n1")]
    return [dumps.node("n1", room), group, *waits, *runs, *more]


def test_a_pod_of_no_budget_is_evicted_first_and_another_where_nothing_else_helps():
    told = run("why", "hi", "--width", 200, given=cluster_with(pdb(maxUnavailable=0))).out
    assert "team/plain" in told
    assert "team/web-0" not in told
    alone = [
        each
        for each in cluster_with(pdb(maxUnavailable=0), room="1")
        if each["metadata"]["name"] != "plain"
    ]
    assert "team/web-0" in run("why", "hi", "--width", 200, given=alone).out


# Volcano


def volcano(count=3, notes=None, **more):
    group = dumps.volcano_group("g", 1)
    group["metadata"]["annotations"] = notes or {}
    pods = dumps.volcano_pods("g", "j", count, on="n1", **more)
    return [dumps.node("n1", "9"), dumps.volcano_queue("default"), group, *pods]


LEAST, MOST = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"


@pytest.mark.parametrize(
    ("notes", "least", "most"),
    [
        ({LEAST: "2"}, 2, None),
        ({MOST: "50%"}, None, 2),
        ({LEAST: "34%", MOST: "1"}, 2, None),  # Volcano reads the first alone
    ],
)
def test_the_budget_of_a_job_of_volcano_is_never_broken(notes, least, most):
    found = only_budget(*volcano(notes=notes))
    assert found.name == "podgroup/g"
    assert found.hard
    assert (found.min_available, found.max_unavailable) == (least, most)
    assert found.selector.match_labels == {"volcano.sh/job-name": "j"}


def test_a_budget_of_volcano_whose_pods_no_label_tells_apart_is_noted():
    given = volcano(notes={LEAST: "2"})
    for pod in given[3:]:
        pod["metadata"]["labels"] = {}
    dump = read_dump(given)
    assert not dump.snapshot.budgets
    (caveat,) = dump.facts["team/g"].caveats
    assert caveat.field == f"metadata.annotations[{LEAST!r}]"
    for pod in given[3:]:  # with one of their own
        pod["metadata"]["labels"] = {"own": "yes", "app": "x"}
    given.append(dumps.pod("other", on="n1", labels={"app": "x"}))
    assert only_budget(*given).selector.match_labels == {"app": "x", "own": "yes"}
    given[-1]["metadata"]["labels"]["own"] = "yes"
    assert not read_dump(given).snapshot.budgets


def test_a_budget_of_volcano_that_cannot_be_read_is_noted():
    dump = read_dump(volcano(notes={MOST: "few"}))
    assert not dump.snapshot.budgets
    (caveat,) = dump.facts["team/g"].caveats
    assert "'few'" in caveat.consequence


KEY = "volcano.sh/preemptable"


@pytest.mark.parametrize(
    ("group", "of_pods", "preemptible", "noted"),
    [
        (None, None, Preemptible.ALWAYS, False),
        ("true", None, Preemptible.ALWAYS, False),
        ("false", None, Preemptible.NEVER, False),
        ("false", "false", Preemptible.NEVER, False),
        (None, "false", Preemptible.NEVER, False),
        ("true", "false", Preemptible.ALWAYS, True),
        ("maybe", None, Preemptible.NEVER, False),  # as Volcano reads it
    ],
)
def test_a_job_of_volcano_that_is_not_preemptable_is_never_evicted(
    group, of_pods, preemptible, noted
):
    given = volcano(notes={} if group is None else {KEY: group})
    for pod in given[3:]:
        pod["metadata"]["annotations"] |= {} if of_pods is None else {KEY: of_pods}
    dump = read_dump(given)
    assert dump.snapshot.job("team/g").preemptible is preemptible
    assert [one.field for one in dump.facts["team/g"].caveats] == (
        [f"metadata.annotations[{KEY!r}]"] if noted else []
    )


def test_what_volcano_does_not_evict_is_lent_to_all_the_same():
    queue = dumps.volcano_queue("default", deserved={"cpu": "1"})
    given = volcano(0, notes={KEY: "false"})
    given = [queue if each["kind"] == "Queue" else each for each in given]
    given += dumps.volcano_pods("g", "j", 2)
    assert run("why", "g", "--json", given=given).data["state"] == "Starts"


# KAI Scheduler


def test_a_group_of_kai_waits_before_it_evicts_since_it_was_evicted():
    group = dumps.kai_group("g", 1, preemptionDelay="5m")
    group["metadata"]["annotations"] = {
        "kai.scheduler/last-eviction-timestamp": "2026-11-20T10:00:00Z"
    }
    given = [group, *dumps.kai_queues(), *dumps.kai_pods("g", 1)]
    dump = read_dump(given)
    job = dump.snapshot.job("team/g")
    assert job.claim_delay == 300
    assert job.last_evicted is not None
    assert job.last_evicted <= dump.snapshot.now
    earlier = read_dump(given, now=job.last_evicted - 50).snapshot
    assert earlier.job("team/g").last_evicted == earlier.now  # the clocks of two machines differ


def test_a_delay_of_kai_that_is_none_is_noted():
    group = dumps.kai_group("g", 1, preemptionDelay="soon")
    dump = read_dump([group, *dumps.kai_queues()])
    assert dump.snapshot.job("team/g").claim_delay is None
    assert "spec.preemptionDelay" in [one.field for one in dump.facts["team/g"].caveats]


def test_budgets_of_a_dump_change_what_a_cycle_evicts():
    given = cluster_with(pdb(maxUnavailable=0))
    config = SchedulerConfig.from_mapping({"actions": "allocate, preempt"})
    (evicted,) = Scheduler(config).schedule(read_dump(given).snapshot).evictions
    assert evicted.task_uid.endswith("plain")


def test_a_budget_that_is_submitted_changes_whom_a_cycle_evicts(tmp_path):
    """`what-if submit` of a budget says what a cycle decides with the budget in the dump."""
    new = tmp_path / "budget.json"
    new.write_text(json.dumps(pdb(maxUnavailable=0)))
    ended = run("what-if", f"submit {new}", "--json", given=cluster_with())
    assert ended.status == 1
    assert ended.data["if"] == ["add budget team/web"]
    changes = ended.data["difference"]["changes"]
    assert {each["name"]: each["kind"] for each in changes} == {
        "team/plain": "evicted",
        "team/web-0": "spared",
    }
    config = SchedulerConfig.from_mapping({"actions": "allocate, preempt"})
    given = read_dump(cluster_with(pdb(maxUnavailable=0))).snapshot
    (evicted,) = Scheduler(config).schedule(given).evictions
    assert [each["task_uid"] for each in ended.data["result"]["evictions"]] == [evicted.task_uid]
    again = run("what-if", f"submit {new}", given=cluster_with(pdb(maxUnavailable=0)))
    assert again.status == 2
    assert "no job in it waits" in again.err
