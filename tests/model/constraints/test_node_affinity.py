"""Node affinity: the specification's section 8."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import NodeAffinity, NodeSelectorTerm, Operator, PreferredNodeTerm, Requirement

SSD = Requirement(key="disk", operator=Operator.IN, values=["ssd"])
NEW = Requirement(key="gen", operator=Operator.GT, values=["3"])
ON_N1 = Requirement(key="metadata.name", operator=Operator.IN, values=["n1"])
NOT_N1 = Requirement(key="metadata.name", operator=Operator.NOT_IN, values=["n1"])

expressions = st.lists(st.sampled_from([SSD, NEW]), unique=True)
fields = st.lists(st.sampled_from([ON_N1, NOT_N1]), max_size=1)
terms = st.builds(NodeSelectorTerm, match_expressions=expressions, match_fields=fields)
preferred_terms = st.builds(PreferredNodeTerm, weight=st.integers(1, 100), term=terms)
node_labels = st.fixed_dictionaries(
    {}, optional={"disk": st.sampled_from(["ssd", "hdd"]), "gen": st.sampled_from(["3", "4", "x"])}
)
node_names = st.sampled_from(["n1", "n2"])


class TestTerm:
    @given(terms, node_labels, node_names)
    def test_all_of_its_expressions_must_hold(
        self, term: NodeSelectorTerm, labels: dict[str, str], name: str
    ) -> None:
        expected = all(
            {
                SSD: labels.get("disk") == "ssd",
                NEW: labels.get("gen") == "4",
                ON_N1: name == "n1",
                NOT_N1: name != "n1",
            }[requirement]
            for requirement in (*term.match_expressions, *term.match_fields)
        )
        assert term.matches(labels, name) is expected

    def test_fields_are_no_labels(self) -> None:
        by_label = NodeSelectorTerm(match_expressions=[ON_N1])
        assert not by_label.matches({}, "n1")
        assert by_label.matches({"metadata.name": "n1"}, "n2")
        by_field = NodeSelectorTerm(match_fields=[ON_N1])
        assert by_field.matches({}, "n1")
        assert not by_field.matches({"metadata.name": "n1"}, "n2")

    @pytest.mark.parametrize(
        ("term", "empty"),
        [
            (NodeSelectorTerm(), True),
            (NodeSelectorTerm(match_expressions=[SSD]), False),
            (NodeSelectorTerm(match_fields=[ON_N1]), False),
        ],
    )
    def test_it_is_empty_if_it_says_nothing(self, term: NodeSelectorTerm, empty: bool) -> None:
        assert term.is_empty() is empty


class TestRequired:
    @given(node_labels, node_names)
    def test_without_requirements_every_node_is_accepted(
        self, labels: dict[str, str], name: str
    ) -> None:
        assert NodeAffinity().accepts(labels, name)

    @given(node_labels, node_names)
    def test_no_terms_and_empty_terms_accept_nothing(
        self, labels: dict[str, str], name: str
    ) -> None:
        assert not NodeAffinity(required=[]).accepts(labels, name)
        assert not NodeAffinity(required=[NodeSelectorTerm()]).accepts(labels, name)

    @given(st.lists(terms), node_labels, node_names)
    def test_any_term_that_is_not_empty_is_enough(
        self, required: list[NodeSelectorTerm], labels: dict[str, str], name: str
    ) -> None:
        expected = any(
            term.matches(labels, name)
            for term in required
            if term.match_expressions or term.match_fields
        )
        assert NodeAffinity(required=required).accepts(labels, name) is expected

    def test_an_empty_term_does_not_spoil_the_others(self) -> None:
        affinity = NodeAffinity(
            required=[NodeSelectorTerm(), NodeSelectorTerm(match_expressions=[SSD])]
        )
        assert affinity.accepts({"disk": "ssd"}, "n1")
        assert not affinity.accepts({"disk": "hdd"}, "n1")

    def test_a_node_can_be_required_by_name(self) -> None:
        affinity = NodeAffinity(required=[NodeSelectorTerm(match_fields=[ON_N1])])
        assert affinity.accepts({}, "n1")
        assert not affinity.accepts({}, "n2")

    @given(st.lists(preferred_terms), node_labels, node_names)
    def test_preferences_refuse_nothing(
        self, preferred: list[PreferredNodeTerm], labels: dict[str, str], name: str
    ) -> None:
        assert NodeAffinity(preferred=preferred).accepts(labels, name)


class TestPreferred:
    @given(st.lists(preferred_terms), node_labels, node_names)
    def test_the_weights_of_the_matching_terms_are_added(
        self, preferred: list[PreferredNodeTerm], labels: dict[str, str], name: str
    ) -> None:
        expected = 0
        for one in preferred:
            if one.term.matches(labels, name):
                expected += one.weight
        affinity = NodeAffinity(required=[], preferred=preferred)
        assert affinity.weight_of(labels, name) == expected

    def test_an_empty_term_matches_everything(self) -> None:
        affinity = NodeAffinity(
            preferred=[
                PreferredNodeTerm(weight=5, term=NodeSelectorTerm()),
                PreferredNodeTerm(weight=2, term=NodeSelectorTerm(match_expressions=[SSD])),
                PreferredNodeTerm(weight=2, term=NodeSelectorTerm(match_expressions=[SSD])),
            ]
        )
        assert affinity.weight_of({}, "n1") == 5
        assert affinity.weight_of({"disk": "ssd"}, "n1") == 9


@given(st.none() | st.lists(terms), st.lists(preferred_terms))
def test_it_is_a_value(
    required: list[NodeSelectorTerm] | None, preferred: list[PreferredNodeTerm]
) -> None:
    affinity = NodeAffinity(required=required, preferred=preferred)
    again = NodeAffinity(
        required=None if required is None else tuple(required), preferred=iter(preferred)
    )
    assert again == affinity
    assert hash(again) == hash(affinity)
    assert pickle.loads(pickle.dumps(affinity)) == affinity


def test_no_requirement_is_not_the_same_as_no_terms() -> None:
    assert NodeAffinity(required=None) != NodeAffinity(required=())
