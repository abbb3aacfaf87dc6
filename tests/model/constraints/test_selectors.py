"""Requirements and label selectors: the specification's section 8."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batchsched import LabelSelector, Operator, Requirement
from batchsched.model.constraints import integer_of

KEYS = ("app", "zone", "gen")
VALUES = ("", "a", "b", "1", "2", "10", "-3", "+2", "x1")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
keys = st.sampled_from(KEYS)
values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)
valued_operators = st.sampled_from([Operator.IN, Operator.NOT_IN])
requirements = st.one_of(
    st.builds(Requirement, key=keys, operator=valued_operators, values=values),
    st.builds(
        Requirement, key=keys, operator=st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])
    ),
)
selectors = st.builds(
    LabelSelector, match_labels=labels, match_expressions=st.lists(requirements, max_size=2)
)


def matches(operator: Operator, given_values: tuple[str, ...], found: dict[str, str]) -> bool:
    return Requirement(key="gen", operator=operator, values=given_values).matches(found)


class TestRequirement:
    @pytest.mark.parametrize(
        ("operator", "given_values", "found", "expected"),
        [
            (Operator.IN, ("1",), {"gen": "1"}, True),
            (Operator.IN, ("2", "1"), {"gen": "1"}, True),
            (Operator.IN, ("1",), {"gen": "2"}, False),
            (Operator.IN, ("1",), {"gen": "01"}, False),
            (Operator.IN, ("1",), {}, False),
            (Operator.IN, ("",), {"gen": ""}, True),
            (Operator.IN, ("",), {}, False),
            (Operator.IN, ("1",), {"app": "1"}, False),
            (Operator.NOT_IN, ("1",), {"gen": "1"}, False),
            (Operator.NOT_IN, ("1", "2"), {"gen": "2"}, False),
            (Operator.NOT_IN, ("1",), {"gen": "2"}, True),
            (Operator.NOT_IN, ("1",), {}, True),
            (Operator.NOT_IN, ("",), {}, True),
            (Operator.EXISTS, (), {"gen": ""}, True),
            (Operator.EXISTS, (), {}, False),
            (Operator.DOES_NOT_EXIST, (), {"gen": ""}, False),
            (Operator.DOES_NOT_EXIST, (), {"app": "1"}, True),
            (Operator.GT, ("3",), {"gen": "4"}, True),
            (Operator.GT, ("3",), {"gen": "3"}, False),
            (Operator.GT, ("9",), {"gen": "10"}, True),
            (Operator.GT, ("-5",), {"gen": "-4"}, True),
            (Operator.GT, ("3",), {}, False),
            (Operator.GT, ("3",), {"gen": "four"}, False),
            (Operator.GT, ("3",), {"gen": ""}, False),
            (Operator.GT, ("3",), {"gen": "4.5"}, False),
            (Operator.GT, ("3",), {"gen": "99999999999999999999"}, False),
            (Operator.GT, ("three",), {"gen": "4"}, False),
            (Operator.GT, (), {"gen": "4"}, False),
            (Operator.GT, ("1", "2"), {"gen": "4"}, False),
            (Operator.LT, ("3",), {"gen": "2"}, True),
            (Operator.LT, ("3",), {"gen": "3"}, False),
            (Operator.LT, ("10",), {"gen": "9"}, True),
            (Operator.LT, ("3",), {}, False),
            (Operator.LT, ("3",), {"gen": "two"}, False),
            (Operator.LT, ("1", "2"), {"gen": "0"}, False),
        ],
    )
    def test_by_example(
        self,
        operator: Operator,
        given_values: tuple[str, ...],
        found: dict[str, str],
        expected: bool,
    ) -> None:
        assert matches(operator, given_values, found) is expected

    @given(keys, values, labels)
    def test_not_in_is_the_opposite_of_in(
        self, key: str, given_values: list[str], found: dict[str, str]
    ) -> None:
        is_in = Requirement(key=key, operator=Operator.IN, values=given_values)
        is_not_in = Requirement(key=key, operator=Operator.NOT_IN, values=given_values)
        assert is_in.matches(found) is not is_not_in.matches(found)

    @given(keys, labels)
    def test_does_not_exist_is_the_opposite_of_exists(
        self, key: str, found: dict[str, str]
    ) -> None:
        there = Requirement(key=key, operator=Operator.EXISTS)
        not_there = Requirement(key=key, operator=Operator.DOES_NOT_EXIST)
        assert there.matches(found) is (key in found)
        assert not_there.matches(found) is (key not in found)

    @given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
    @example(7, 7)
    def test_greater_and_less_compare_integers(self, have: int, bound: int) -> None:
        found = {"gen": str(have)}
        assert matches(Operator.GT, (str(bound),), found) is (have > bound)
        assert matches(Operator.LT, (str(bound),), found) is (have < bound)

    @given(requirements, labels)
    def test_only_the_label_of_its_key_matters(
        self, requirement: Requirement, found: dict[str, str]
    ) -> None:
        alone = {key: value for key, value in found.items() if key == requirement.key}
        assert requirement.matches(found) is requirement.matches(alone)

    def test_values_may_be_any_collection_but_a_text(self) -> None:
        as_list = Requirement(key="a", operator=Operator.IN, values=["x", "y"])
        assert as_list.values == ("x", "y")
        assert as_list == Requirement(key="a", operator=Operator.IN, values=iter("xy"))
        # Kept, not spread into letters: for the snapshot to refuse.
        assert Requirement(key="a", operator=Operator.IN, values="xy").values == "xy"


class TestIntegers:
    @given(st.integers(-(2**63), 2**63 - 1))
    def test_every_integer_of_64_bits_is_read(self, value: int) -> None:
        assert integer_of(str(value)) == value

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("0", 0),
            ("+7", 7),
            ("-0", 0),
            ("007", 7),
            pytest.param("0" * 5000 + "7", 7, id="many zeros"),
            ("-" + "0" * 30 + "12", -12),
            ("9223372036854775807", 2**63 - 1),
            ("-9223372036854775808", -(2**63)),
        ],
    )
    def test_what_is_read(self, text: str, value: int) -> None:
        assert integer_of(text) == value

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " 7",
            "7 ",
            "7\n",
            "7.0",
            "1e3",
            "1_000",
            "0x7",
            "--7",
            "+",
            "seven",
            "\u0667",  # an Arabic seven, which int() would take
            "9223372036854775808",
            "-9223372036854775809",
            pytest.param("9" * 5000, id="many nines"),  # which int() would refuse with an error
        ],
    )
    def test_what_is_no_integer(self, text: str) -> None:
        assert integer_of(text) is None


class TestLabelSelector:
    @given(labels)
    def test_an_empty_selector_matches_everything(self, found: dict[str, str]) -> None:
        assert LabelSelector().matches(found)

    @given(selectors, labels)
    def test_all_parts_must_hold(self, selector: LabelSelector, found: dict[str, str]) -> None:
        by_label = all(found.get(key) == value for key, value in selector.match_labels.items())
        by_expression = all(part.matches(found) for part in selector.match_expressions)
        assert selector.matches(found) is (by_label and by_expression)

    @given(labels, labels)
    def test_match_labels_are_requirements_with_one_value(
        self, wanted: dict[str, str], found: dict[str, str]
    ) -> None:
        spelt_out = [
            Requirement(key=key, operator=Operator.IN, values=[value])
            for key, value in wanted.items()
        ]
        selector = LabelSelector(match_labels=wanted)
        assert selector.matches(found) is LabelSelector(match_expressions=spelt_out).matches(found)

    def test_by_example(self) -> None:
        exists = Requirement(key="tier", operator=Operator.EXISTS)
        selector = LabelSelector(match_labels={"app": "db"}, match_expressions=[exists])
        assert selector.matches({"app": "db", "tier": ""})
        assert not selector.matches({"app": "db"})
        assert not selector.matches({"app": "web", "tier": ""})
        assert not selector.matches({"tier": ""})
        assert not selector.matches({})

    @given(selectors)
    def test_it_is_a_value(self, selector: LabelSelector) -> None:
        again = LabelSelector(
            match_labels=dict(reversed(selector.match_labels.items())),
            match_expressions=list(selector.match_expressions),
        )
        assert again == selector
        assert hash(again) == hash(selector)
        assert pickle.loads(pickle.dumps(selector)) == selector
        assert copy.deepcopy(selector) == selector

    def test_it_is_frozen_through_and_through(self) -> None:
        wanted = {"app": "db"}
        selector = LabelSelector(match_labels=wanted)
        wanted["app"] = "web"
        with pytest.raises(TypeError, match="cannot be changed"):
            selector.match_labels["app"] = "web"  # type: ignore[index]
        assert selector.matches({"app": "db"})
