"""The index of inter-pod affinity says what a recount of all tasks on all nodes says."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import pytest
from attrs import evolve
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.books import affinity_refusal, opened
from tests.support.clusters import cluster, job, node

from batchsched import (
    LabelSelector,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    Session,
    Snapshot,
    TaskInfo,
    TaskStatus,
    UnfitReason,
    WeightedPodTerm,
)
from batchsched.plugin import NodeState, TaskState
from batchsched.state.pod_affinity import PodAffinityIndex
from batchsched.testing import snapshots

OCCUPYING = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING)


# The plain recount


def means(term: PodAffinityTerm, carrier: TaskInfo, other: TaskInfo) -> bool:
    namespaces = term.namespaces or (carrier.namespace,)
    return (
        term.selector is not None
        and other.namespace in namespaces
        and term.selector.matches(other.labels)
    )


def same_domain(key: str, one: NodeState, other: NodeState) -> bool:
    return key in one.info.labels and one.info.labels[key] == other.info.labels.get(key)


def required(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return () if affinity is None else affinity.required


def preferred(affinity: PodAffinity | None) -> tuple[WeightedPodTerm, ...]:
    return () if affinity is None else affinity.preferred


def placed(session: Session) -> list[tuple[TaskInfo, NodeState]]:
    return [
        (task.info, task.node)
        for task in session.ledger.tasks.values()
        if task.status in OCCUPYING and task.node is not None
    ]


def violated(session: Session, task: TaskInfo, of: NodeState) -> set[UnfitReason]:
    """All reasons for which inter-pod affinity refuses the node."""
    reasons: set[UnfitReason] = set()
    there = placed(session)
    terms = required(task.pod_affinity)
    meant = [(o, n) for o, n in there if all(means(term, task, o) for term in terms)]
    pairs = {
        (term.topology_key, n.info.labels[term.topology_key])
        for term in terms
        for _, n in meant
        if term.topology_key in n.info.labels
    }
    met = all((term.topology_key, of.info.labels.get(term.topology_key)) in pairs for term in terms)
    first_of_its_kind = not pairs and all(means(term, task, task) for term in terms)
    if not met and not first_of_its_kind:
        reasons.add(UnfitReason.POD_AFFINITY)
    for term in required(task.pod_anti_affinity):
        if any(means(term, task, o) and same_domain(term.topology_key, of, n) for o, n in there):
            reasons.add(UnfitReason.POD_ANTI_AFFINITY)
    for other, place in there:
        for term in required(other.pod_anti_affinity):
            if means(term, other, task) and same_domain(term.topology_key, of, place):
                reasons.add(UnfitReason.EXISTING_ANTI_AFFINITY)
    return reasons


def attraction(session: Session, task: TaskInfo, of: NodeState) -> int:
    """The signed count of the node, before it is normalised."""
    total = 0
    for other, place in placed(session):

        def counts(term: PodAffinityTerm, carrier: TaskInfo, meant: TaskInfo) -> bool:
            near = same_domain(term.topology_key, of, place)  # noqa: B023 - called at once
            return near and means(term, carrier, meant)

        for carrier, meant in ((task, other), (other, task)):
            for wish in preferred(carrier.pod_affinity):
                total += wish.weight * counts(wish.term, carrier, meant)
            for wish in preferred(carrier.pod_anti_affinity):
                total -= wish.weight * counts(wish.term, carrier, meant)
        for term in required(other.pod_affinity):
            total += counts(term, other, task)
    return total


def expect_a_recounts_answers(session: Session, index: PodAffinityIndex) -> None:
    for task in session.ledger.tasks.values():
        profile = index.profile(task)
        for of in session.nodes:
            reasons = violated(session, task.info, of)
            refusal = affinity_refusal(profile, of.info.labels)
            assert (refusal is None) is (not reasons), (task, of)
            assert refusal is None or refusal in reasons, (task, of)
            assert profile.raw_score(of.info.labels) == attraction(session, task.info, of)


class TasksComeAndGo(RuleBasedStateMachine):
    """Tasks begin and end to occupy nodes; the index and its watches keep up."""

    session: Session
    index: PodAffinityIndex

    def open(self, snapshot: Snapshot) -> None:
        self.session = opened(snapshot, ["gang", "predicates", "nodeorder"])
        self.index = self.session.state.view.pod_affinity
        self.seen = (
            {
                uid: (
                    self.answers(task),
                    [(watch, watch.changed_since(0)[0]) for watch in self.watches(task)],
                )
                for uid, task in self.session.ledger.tasks.items()
            }
            if self.index.is_active
            else {}
        )
        self.changes = len(self.session.ledger.log.nodes)

    def watches(self, task: TaskState) -> list:
        profile = self.index.profile(task)
        counts = [*profile.repelling, *profile.required, *profile.repelled]
        return [
            *self.index.watch_refusals(task, counts),
            *self.index.watch_attractions(task),
        ]

    def answers(self, task: TaskState) -> list[tuple[UnfitReason | None, int]]:
        profile = self.index.profile(task)
        return [
            (affinity_refusal(profile, of.info.labels), profile.raw_score(of.info.labels))
            for of in self.session.nodes
        ]

    def some(self, choice: int, *statuses: TaskStatus) -> TaskState | None:
        found = [
            task
            for task in self.session.ledger.tasks.values()
            if task.status in statuses and not task.is_held
            if task.job is not None and task.job.in_session
        ]
        return found[choice % len(found)] if found else None

    @rule(choice=st.integers(0, 30), place=st.integers(0, 9))
    def allocate(self, choice: int, place: int) -> None:
        task = self.some(choice, TaskStatus.PENDING)
        fitting = [n for n in self.session.nodes if task and n.fits(task)]
        if task is not None and fitting:
            self.session.allocate(task, fitting[place % len(fitting)])

    @rule(choice=st.integers(0, 30))
    def evict(self, choice: int) -> None:
        task = self.some(choice, TaskStatus.RUNNING)
        if task is not None:
            self.session.evict(task, claimant=task)

    @rule(choice=st.integers(0, 30))
    def unallocate(self, choice: int) -> None:
        task = self.some(choice, TaskStatus.ALLOCATED)
        if task is not None:
            self.session.unallocate(task)

    @invariant()
    def it_says_what_a_recount_says(self) -> None:
        if hasattr(self, "index") and self.index.is_active:
            expect_a_recounts_answers(self.session, self.index)

    @invariant()
    def every_answer_that_changed_was_told_of(self) -> None:
        if not hasattr(self, "index") or not self.index.is_active:
            return
        ledger = self.session.ledger
        own = set(ledger.log.nodes[self.changes :])
        self.changes = len(ledger.log.nodes)
        for uid, (before, watched) in self.seen.items():
            task = ledger.tasks[uid]
            now = self.answers(task)
            told: set[int] = set(own)
            positions = []
            for watch, position in watched:
                end, nodes = watch.changed_since(position)
                told.update(range(len(now)) if nodes is None else nodes)
                positions.append((watch, end))
            changed = {
                i for i, pair in enumerate(zip(before, now, strict=True)) if len(set(pair)) > 1
            }
            assert changed <= told, task
            self.seen[uid] = (now, positions)


class AnyTasksComeAndGo(TasksComeAndGo):
    """Any terms of the kit."""

    @initialize(snapshot=snapshots(max_nodes=5, max_jobs=5, running=True))
    def begin(self, snapshot: Snapshot) -> None:
        self.open(snapshot)


TestTheIndexSaysWhatARecountSays = AnyTasksComeAndGo.TestCase
TestTheIndexSaysWhatARecountSays.settings = settings(
    max_examples=100, stateful_step_count=12, deadline=None
)


def all_but(*requirements: Requirement, **labels: str) -> LabelSelector:
    return LabelSelector(match_labels=labels, match_expressions=requirements)


EXCEPTIONS = [
    all_but(Requirement(key="app", operator=Operator.NOT_IN, values=["db"])),
    all_but(Requirement(key="app", operator=Operator.NOT_IN, values=["web", "none"])),
    all_but(Requirement(key="track", operator=Operator.DOES_NOT_EXIST)),
    all_but(Requirement(key="track", operator=Operator.NOT_IN, values=["canary"]), app="db"),
    all_but(
        Requirement(key="app", operator=Operator.EXISTS),
        Requirement(key="app", operator=Operator.NOT_IN, values=["db"]),
        Requirement(key="track", operator=Operator.DOES_NOT_EXIST),
    ),
    LabelSelector(),
]
TERMS = st.builds(
    PodAffinityTerm,
    selector=st.sampled_from(EXCEPTIONS),
    topology_key=st.sampled_from(["zone", "host"]),
    namespaces=st.sampled_from([(), ("default", "team")]),
)
WISHES = st.builds(
    PodAffinity,
    required=st.lists(TERMS, max_size=2),
    preferred=st.lists(
        st.builds(WeightedPodTerm, weight=st.integers(1, 3), term=TERMS), max_size=1
    ),
)


class TasksAreExceptions(TasksComeAndGo):
    """The same where terms say which tasks they do not mean."""

    @initialize(
        snapshot=snapshots(max_nodes=4, max_jobs=4, running=True),
        wishes=st.lists(st.tuples(WISHES, WISHES), min_size=1, max_size=3),
    )
    def open_with(self, snapshot: Snapshot, wishes: list[tuple[PodAffinity, PodAffinity]]) -> None:
        of_jobs = []
        for number, each in enumerate(snapshot.jobs):
            near, far = wishes[number % len(wishes)]
            tasks = [
                evolve(task, pod_affinity=near, pod_anti_affinity=far) if k % 3 else task
                for k, task in enumerate(each.tasks, number)
            ]
            of_jobs.append(evolve(each, tasks=tasks))
        self.open(evolve(snapshot, jobs=of_jobs))


TestTheIndexSubtractsExceptions = TasksAreExceptions.TestCase
TestTheIndexSubtractsExceptions.settings = settings(
    max_examples=60, stateful_step_count=12, deadline=None
)


# By example


def term(key: str = "zone", *namespaces: str, **labels: str) -> PodAffinityTerm:
    return PodAffinityTerm(
        selector=LabelSelector(match_labels=labels), topology_key=key, namespaces=namespaces
    )


def of_tasks(**tasks: dict) -> Session:
    """Tasks by name; ``at`` says on which node one runs."""
    made = []
    for name, given in tasks.items():
        place = given.pop("at", None)
        base = job(name, f"0C0G@{place}" if place else "1C0G", minimum=1)
        made.append(evolve(base, tasks=[evolve(base.tasks[0], **given)]))
    nodes = [
        evolve(node(name, "9C9G"), labels=labels)
        for name, labels in (
            ("n1", {"zone": "a"}),
            ("n2", {"zone": "a"}),
            ("n3", {"zone": "b"}),
            ("n4", {}),
        )
    ]
    return opened(cluster(nodes, *made), ["predicates"])


def accepted(session: Session, uid: str) -> list[str]:
    return [of.name for of in session.placement.feasible(session.task(uid))]


def test_no_task_with_terms_nothing_is_counted() -> None:
    session = of_tasks(a={"labels": {"app": "db"}, "at": "n1"}, b={})
    assert not session.state.view.pod_affinity.is_active


def test_several_required_terms_look_at_tasks_that_meet_them_all() -> None:
    wants = PodAffinity(required=[term(app="db"), term(tier="back")])
    both, one = {"app": "db", "tier": "back"}, {"app": "db"}
    session = of_tasks(
        b={"labels": both, "at": "n3"}, a={"labels": one, "at": "n1"}, t={"pod_affinity": wants}
    )
    assert accepted(session, "t-1") == ["n3"]
    session = of_tasks(a={"labels": one, "at": "n1"}, t={"pod_affinity": wants})
    assert accepted(session, "t-1") == []
    session = of_tasks(a={"labels": one, "at": "n1"}, t={"pod_affinity": wants, "labels": both})
    assert accepted(session, "t-1") == ["n1", "n2", "n3", "n4"]  # the first of its kind


def test_a_task_on_a_node_without_the_label_adds_nothing() -> None:
    wants = PodAffinity(required=[term(app="db")])
    session = of_tasks(
        a={"labels": {"app": "db"}, "at": "n4"},
        t={"pod_affinity": wants, "labels": {"app": "db"}},
    )
    assert accepted(session, "t-1") == ["n1", "n2", "n3", "n4"]
    session = of_tasks(a={"labels": {"app": "db"}, "at": "n4"}, t={"pod_affinity": wants})
    assert accepted(session, "t-1") == []


def test_anti_affinity_holds_in_both_directions() -> None:
    hates = PodAffinity(required=[term(app="db")])
    session = of_tasks(a={"labels": {"app": "db"}, "at": "n1"}, t={"pod_anti_affinity": hates})
    assert accepted(session, "t-1") == ["n3", "n4"]
    session = of_tasks(a={"pod_anti_affinity": hates, "at": "n1"}, t={"labels": {"app": "db"}})
    assert accepted(session, "t-1") == ["n3", "n4"]


def test_namespaces_of_a_term_are_those_of_its_carrier_unless_it_names_some() -> None:
    there = {"labels": {"app": "db"}, "namespace": "other", "at": "n1"}

    def accepts(hates: PodAffinityTerm) -> list[str]:
        wants = PodAffinity(required=[hates])
        return accepted(of_tasks(a=dict(there), t={"pod_anti_affinity": wants}), "t-1")

    assert accepts(term(app="db")) == ["n1", "n2", "n3", "n4"]
    assert accepts(term("zone", "other", app="db")) == ["n3", "n4"]
    assert accepts(term("zone", "default", "other", app="db")) == ["n3", "n4"]


def test_a_null_selector_means_nobody_and_an_empty_one_everybody() -> None:
    nobody = PodAffinityTerm(selector=None, topology_key="zone")
    for meant, expected in ((nobody, ["n1", "n2", "n3", "n4"]), (term(), ["n3", "n4"])):
        session = of_tasks(a={"at": "n1"}, t={"pod_anti_affinity": PodAffinity(required=[meant])})
        assert accepted(session, "t-1") == expected


def test_what_goes_away_is_forgotten() -> None:
    hates = PodAffinity(required=[term(app="db")])
    session = of_tasks(a={"labels": {"app": "db"}, "at": "n1"}, t={"pod_anti_affinity": hates})
    check: Callable[[], list[str]] = lambda: accepted(session, "t-1")  # noqa: E731
    with session.statement() as statement:
        statement.evict(session.task("a-1"), claimant=session.task("t-1"))
        assert check() == ["n1", "n2", "n3", "n4"]
    assert check() == ["n3", "n4"]


def test_the_last_of_its_kind_that_goes_opens_all_nodes_and_the_first_closes_them() -> None:
    wants = PodAffinity(required=[term(app="db")])
    db = {"labels": {"app": "db"}}
    session = of_tasks(
        a={**db, "at": "n1"},
        t={**db, "pod_affinity": wants},
        u={**db, "pod_affinity": wants},
    )
    for _ in range(2):
        assert accepted(session, "t-1") == ["n1", "n2"]
        with session.statement() as statement:
            statement.evict(session.task("a-1"), claimant=session.task("t-1"))
            assert accepted(session, "t-1") == ["n1", "n2", "n3", "n4"]
            statement.allocate(session.task("u-1"), session.node("n3"))
            assert accepted(session, "t-1") == ["n3"]


# What it costs


def matches_to_open(
    count: int, selector: Callable[[str], LabelSelector], **more: Callable[[int], object]
) -> int:
    """How often a selector is matched with a task's labels, if each task repels its own kind."""
    tasks = {
        f"t{number}": {
            "labels": {"all": "alike", "app": f"a{number}"},
            "pod_anti_affinity": PodAffinity(
                required=[PodAffinityTerm(selector=selector(f"a{number}"), topology_key="zone")]
            ),
            **{name: value(number) for name, value in more.items()},
        }
        for number in range(count)
    }
    with patch.object(LabelSelector, "matches", autospec=True) as matches:
        matches.side_effect = MATCHES
        of_tasks(**tasks)
    return matches.call_count


MATCHES = LabelSelector.matches


@pytest.mark.parametrize(
    "selector",
    [
        lambda app: LabelSelector(match_labels={"all": "alike", "app": app}),
        lambda app: LabelSelector(
            match_labels={"all": "alike"},
            match_expressions=[
                Requirement(key="all", operator=Operator.EXISTS),
                Requirement(key="app", operator=Operator.IN, values=(app, "none", app)),
            ],
        ),
    ],
)
def test_terms_about_labels_of_ones_own_are_matched_with_ones_own_tasks(selector) -> None:
    # For each task: whom its term means, and who has a term that means it.
    assert matches_to_open(40, selector) == 2 * 40


def test_terms_about_all_others_are_matched_once_and_with_the_exceptions() -> None:
    def all_others(app: str) -> LabelSelector:
        mine = Requirement(key="app", operator=Operator.NOT_IN, values=(app,))
        return LabelSelector(match_labels={"all": "alike"}, match_expressions=[mine])

    # As above, with everybody's common term; with the same and with one's own, as an exception.
    assert matches_to_open(40, all_others) == (2 + 2 * 2) * 40


def test_terms_in_namespaces_of_ones_own_are_matched_with_ones_own_tasks() -> None:
    for selector in (LabelSelector(), LabelSelector(match_labels={"all": "alike"})):
        calls = matches_to_open(40, lambda _, s=selector: s, namespace=lambda n: f"team{n}")
        assert calls == 2 * 40
