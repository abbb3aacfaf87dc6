"""Arguments: read from texts or their own types; what is wrong becomes faults, all at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import Arguments


def faults(arguments: Arguments) -> list[str]:
    return [str(fault) for fault in arguments.faults()]


@pytest.mark.parametrize("given_value", ["7", " 7 ", 7, 7.0, "7.0", "+7"])
def test_an_integer_may_be_given_as_a_number_or_its_text(given_value: Any) -> None:
    arguments = Arguments({"n": given_value})
    number = arguments.integer("n", default=1)
    assert (number, type(number)) == (7, int)
    assert faults(arguments) == []


@given(st.integers())
def test_every_integer_is_read_exactly(number: int) -> None:
    for value in (number, str(number)):
        arguments = Arguments({"n": value})
        assert arguments.integer("n", default=0) == number
        assert faults(arguments) == []


@pytest.mark.parametrize("value", [10**400, "1" + "0" * 400, -(10**400)])
def test_a_huge_integer_is_read_or_is_a_fault_and_no_error(value: Any) -> None:
    arguments = Arguments({"n": value})
    number = arguments.integer("n", default=0)
    assert number == int(value) or faults(arguments)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x", "expected a number, got 'x'"),
        ("", "expected a number, got ''"),
        ("1.5", "expected an integer, got '1.5'"),
        (1.5, "expected an integer, got 1.5"),
        (True, "expected a number, got True"),
        ("nan", "expected a number, got 'nan'"),
        (float("inf"), "expected a number, got inf"),
        ("-1", "expected 0 or more, got '-1'"),
        (11, "expected 10 or less, got 11"),
        (None, "expected a number, got None"),
        ([1], "expected a number, got [1]"),
    ],
)
def test_what_is_no_integer_is_a_fault_and_the_default_counts(value: Any, message: str) -> None:
    arguments = Arguments({"n": value}, "path")
    assert arguments.integer("n", default=3, minimum=0, maximum=10) == 3
    assert faults(arguments) == [f"path['n']: {message}"]


@pytest.mark.parametrize(
    ("value", "expected"), [("2.5", 2.5), (2.5, 2.5), ("1e3", 1000.0), (0, 0), ("-0.5", -0.5)]
)
def test_a_number_may_be_a_fraction(value: Any, expected: float) -> None:
    arguments = Arguments({"n": value})
    assert arguments.number("n", default=9) == expected
    assert faults(arguments) == []


def test_limits_are_part_of_what_is_allowed() -> None:
    arguments = Arguments({"low": 0, "high": "100"})
    assert arguments.number("low", default=5, minimum=0, maximum=100) == 0
    assert arguments.number("high", default=5, minimum=0, maximum=100) == 100
    assert faults(arguments) == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((True, "true", "True", "TRUE", "1", "t", "yes", "on", " on "), True),
        ((False, "false", "False", "0", "f", "no", "off", "OFF"), False),
    ],
)
def test_truth_values_have_many_spellings(values: tuple[Any, ...], expected: bool) -> None:
    for value in values:
        arguments = Arguments({"b": value})
        assert arguments.boolean("b", default=not expected) is expected
        assert faults(arguments) == []


@pytest.mark.parametrize("value", ["", "maybe", 1, 0, 2.0, "truee"])
def test_what_is_no_truth_value_is_a_fault(value: Any) -> None:
    arguments = Arguments({"b": value})
    assert arguments.boolean("b", default=True) is True
    assert faults(arguments) == [f"arguments['b']: expected true or false, got {value!r}"]


def test_texts_and_choices() -> None:
    arguments = Arguments({"t": "x", "c": "b", "wrong": "z", "no": 5})
    assert arguments.text("t", default="d") == "x"
    assert arguments.text("missing", default="d") == "d"
    assert arguments.choice("c", ("a", "b"), default="a") == "b"
    assert arguments.choice("absent", ("a", "b"), default="a") == "a"
    assert arguments.choice("wrong", ("a", "b"), default="a") == "a"
    assert arguments.text("no", default="d") == "d"
    assert faults(arguments) == [
        "arguments['wrong']: expected one of a, b, got 'z'",
        "arguments['no']: expected a string, got 5",
    ]


def test_what_nobody_asks_for_is_a_fault_with_a_hint() -> None:
    arguments = Arguments({"weigth": 1, "q": 2, "weight": 3}, "p")
    assert arguments.integer("weight", default=1) == 3
    assert arguments.boolean("other", default=True)
    assert faults(arguments) == [
        "p['weigth']: unknown argument; did you mean 'weight'? known: other, weight",
        "p['q']: unknown argument; known: other, weight",
    ]


def test_where_there_are_none_it_says_so() -> None:
    assert faults(Arguments({"x": 1})) == ["arguments['x']: unknown argument; it takes none"]


def test_whether_an_argument_is_given_can_be_asked() -> None:
    arguments = Arguments({"a": 0})
    assert arguments.is_given("a")
    assert not arguments.is_given("b")
    assert faults(arguments) == []


def test_every_fault_is_told() -> None:
    arguments = Arguments({"a": "x", "b": "y", "c": "z"})
    arguments.integer("a", default=1)
    arguments.boolean("b", default=True)
    assert len(arguments.faults()) == 3
