"""Inter-pod affinity terms: the specification's section 8."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import (
    LabelSelector,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    WeightedPodTerm,
)

DB = LabelSelector(match_labels={"app": "db"})
NOT_DB = LabelSelector(
    match_expressions=[Requirement(key="app", operator=Operator.NOT_IN, values=["db"])]
)

namespaces = st.sampled_from(["a", "b", "c"])
task_labels = st.sampled_from([{}, {"app": "db"}, {"app": "web"}])
selectors = st.sampled_from([None, LabelSelector(), DB, NOT_DB])
terms = st.builds(
    PodAffinityTerm,
    selector=selectors,
    topology_key=st.sampled_from(["zone", "rack"]),
    namespaces=st.lists(namespaces, max_size=2),
)


@given(terms, namespaces, namespaces, task_labels)
def test_a_term_means_tasks_of_its_namespaces_whose_labels_match(
    term: PodAffinityTerm, own: str, theirs: str, labels: dict[str, str]
) -> None:
    in_namespace = theirs in (term.namespaces or (own,))
    is_db = labels.get("app") == "db"
    matched = {None: False, LabelSelector(): True, DB: is_db, NOT_DB: not is_db}[term.selector]
    selected = term.selects(own_namespace=own, namespace=theirs, labels=labels)
    assert selected is (in_namespace and matched)


@pytest.mark.parametrize(
    ("given_namespaces", "theirs", "expected"),
    [
        ((), "own", True),
        ((), "other", False),
        (("other",), "other", True),
        (("other",), "own", False),
        (("own",), "own", True),
        (("x", "other"), "other", True),
        (("x", "other"), "own", False),
    ],
)
def test_namespaces_by_example(
    given_namespaces: tuple[str, ...], theirs: str, expected: bool
) -> None:
    term = PodAffinityTerm(selector=DB, topology_key="zone", namespaces=given_namespaces)
    selected = term.selects(own_namespace="own", namespace=theirs, labels={"app": "db"})
    assert selected is expected


@given(task_labels)
def test_no_selector_matches_nothing_and_an_empty_one_everything(labels: dict[str, str]) -> None:
    for selector, expected in ((None, False), (LabelSelector(), True)):
        term = PodAffinityTerm(selector=selector, topology_key="zone")
        assert term.selects(own_namespace="a", namespace="a", labels=labels) is expected


def test_the_default_selector_is_none() -> None:
    assert PodAffinityTerm(topology_key="zone").selector is None


def test_namespaces_are_not_the_letters_of_a_text() -> None:
    # Kept as it is, for the snapshot to refuse.
    term = PodAffinityTerm(topology_key="zone", namespaces="default")
    assert term.namespaces == "default"


@given(
    st.lists(terms), st.lists(st.builds(WeightedPodTerm, weight=st.integers(1, 100), term=terms))
)
def test_affinity_is_a_value(
    required: list[PodAffinityTerm], preferred: list[WeightedPodTerm]
) -> None:
    affinity = PodAffinity(required=required, preferred=preferred)
    assert affinity.required == tuple(required)
    assert affinity.preferred == tuple(preferred)
    again = pickle.loads(pickle.dumps(affinity))
    assert again == affinity
    assert hash(again) == hash(affinity)
    assert PodAffinity(required=iter(required), preferred=iter(preferred)) == affinity
