"""Who may be evicted: each candidate alone, then all that are left; and whole jobs or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import Saying, opened
from tests.support.clusters import cluster, job, node

from batchsched import Session
from batchsched.plugin import JobState, TaskState, Verdict

V, P, X, W = Verdict.VICTIM, Verdict.PASS, Verdict.PROTECTED, Verdict.WITH_JOB
UIDS = ("a-1", "a-2", "a-3", "b-1", "b-2")
Answers = Mapping[str, tuple[Verdict, Verdict]]
"""UID to the verdict on a task when it stands alone, and in company."""


class Answering(Saying):
    """Says of each task what it is told to, alone and in company."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        super().__init__(preemptable=self.verdicts)

    def verdicts(self, _: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        return [self.answers[candidate.uid][len(candidates) > 1] for candidate in candidates]


def session_with(tiers: Sequence[Sequence[Answers]]) -> Session:
    """a: three tasks, the first on another node, and one that is Bound; b: two tasks."""
    return opened(
        cluster(
            [node("n1", "9C9G"), node("n2", "9C9G")],
            job("a", "1C1G@n2", "1C1G@n1", "1C1G@n1"),
            job("b", "1C1G@n1", "1C1G@n1"),
            job("c", "1C1G"),
        ),
        *(
            [(f"p{t}.{p}", Answering(answers)) for p, answers in enumerate(of)]
            for t, of in enumerate(tiers)
        ),
    )


def expected(
    tiers: Sequence[Sequence[Answers]], jobs: Mapping[str, JobState], candidates: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Who may go alone, and which jobs as a whole: the rules, word by word."""

    def said(uid: str, company: int) -> list[list[Verdict]]:
        return [[answers[uid][company] for answers in tier] for tier in tiers]

    left = [uid for uid in candidates if not any(X in tier for tier in said(uid, 0))]
    together = int(len(left) > 1)
    left = [uid for uid in left if not any(X in tier for tier in said(uid, together))] and left
    out = {uid for uid in left if any(X in tier for tier in said(uid, together))}
    for number, tier in enumerate(tiers):
        chosen = [
            uid
            for uid in left
            if tier and uid not in out and not {P, X} & set(said(uid, together)[number])
        ]
        if not chosen:
            continue
        alone = [uid for uid in chosen if not any(W in of for of in said(uid, together))]
        whole: list[str] = []
        for uid in chosen:
            name = uid.split("-")[0]
            if uid in alone or name in whole:
                continue
            members = [task.uid for task in jobs[f"default/{name}"].tasks]
            if all(
                not any(X in of for of in said(member, 0)) and P not in said(member, 0)[number]
                for member in members
            ):
                whole.append(name)
        return alone, whole
    return [], []


VERDICT = st.sampled_from([V, V, W, W, P, X])
ANSWERS = st.fixed_dictionaries({uid: st.tuples(VERDICT, VERDICT) for uid in UIDS})


@given(
    st.lists(st.lists(ANSWERS, min_size=1, max_size=2), max_size=3),
    st.lists(st.sampled_from(UIDS[1:]), unique=True),
)
@settings(max_examples=300, deadline=None)
def test_verdicts_come_to_what_the_rules_say(tiers: list[list[Answers]], uids: list[str]) -> None:
    of = session_with(tiers)
    candidates = of.in_victim_order(of.task(uid) for uid in uids)
    victims = of.plugins.preemptable(of.task("c-1"), candidates)
    alone, whole = expected(tiers, of.jobs, [task.uid for task in candidates])
    assert [task.uid for task in victims.alone] == alone
    assert [one.info.name for one in victims.whole_jobs] == whole


def saying(**verdicts: Verdict) -> Answers:
    given_ = {uid.replace("_", "-"): verdict for uid, verdict in verdicts.items()}
    return {uid: (given_.get(uid, V),) * 2 for uid in UIDS}


@pytest.mark.parametrize(
    ("answers", "alone", "whole"),
    [
        (saying(b_2=W), ["b-1"], ["b"]),  # one of them on its own, or all
        (saying(b_1=W, b_2=W), [], ["b"]),
        (saying(b_1=X, b_2=W), [], []),  # a part of it must stay
        (saying(b_1=P, b_2=W), [], []),  # of a part of it the tier does not say that it may go
    ],
)
def test_a_job_goes_whole_or_not_at_all(
    answers: Answers, alone: list[str], whole: list[str]
) -> None:
    of = session_with([[answers]])
    victims = of.plugins.preemptable(of.task("c-1"), [of.task("b-2"), of.task("b-1")])
    assert [task.uid for task in victims.alone] == alone
    assert [one.info.name for one in victims.whole_jobs] == whole


def test_what_runs_elsewhere_counts_too() -> None:
    candidates = ("a-3", "a-2")
    for elsewhere, whole in ((V, ["a"]), (W, ["a"]), (X, [])):
        of = session_with([[saying(a_1=elsewhere, a_2=W, a_3=W)]])
        victims = of.plugins.preemptable(of.task("c-1"), [of.task(uid) for uid in candidates])
        assert [one.info.name for one in victims.whole_jobs] == whole


def test_a_job_of_which_a_task_is_on_its_way_stays() -> None:
    of = opened(
        cluster([node("n1", "9C9G")], job("b", "1C1G@n1", "1C1G"), job("c", "1C1G")),
        [("own", Answering(dict.fromkeys(UIDS, (W, W))))],
    )
    assert of.plugins.preemptable(of.task("c-1"), [of.task("b-1")]).whole_jobs
    with of.statement() as statement:
        statement.allocate(of.task("b-2"), of.node("n1"))
        assert not of.plugins.preemptable(of.task("c-1"), [of.task("b-1")])
        statement.commit()  # it is bound, and this can be taken back
    assert of.plugins.preemptable(of.task("c-1"), [of.task("b-1")]).whole_jobs


def test_nobody_who_is_out_anyway_uses_up_what_another_plugin_grants() -> None:
    """A gang can spare one of two tasks; the first is protected for another reason."""
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("a", "1C1G@n1", "1C1G@n1", minimum=1),
        job("c", "1C1G"),
    )
    for safe, goes in (("a-1", "a-2"), ("a-2", "a-1")):
        own = Saying(
            preemptable=lambda _, asked, safe=safe: [X if one.uid == safe else V for one in asked]
        )
        of = opened(snapshot, ["gang"], [("own", own)])
        candidates = of.in_victim_order([of.task("a-1"), of.task("a-2")])
        assert [one.uid for one in of.plugins.preemptable(of.task("c-1"), candidates).alone] == [
            goes
        ]
