import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import BatchschedError, QuantityError
from batchsched.kubernetes import parse_quantity
from batchsched.model.resources import milli_value, value

EXPONENT_OF_TEN = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12}
EXPONENT_OF_TEN |= {"P": 15, "E": 18}
EXPONENT_OF_TWO = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1", 1),
        ("250m", Fraction(1, 4)),
        ("1Gi", 2**30),
        ("2e3", 2000),
        ("2E3", 2000),
        ("2e+3", 2000),
        ("2E-3", Fraction(2, 1000)),
        ("0.5", Fraction(1, 2)),
        ("1k", 1000),
        ("1E", 10**18),
        ("1E3", 1000),
        ("1Ei", 2**60),
        ("1n", Fraction(1, 10**9)),
        ("1u", Fraction(1, 10**6)),
        ("-1", -1),
        ("+1", 1),
        ("-.5Ki", -512),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("5.Gi", 5 * 2**30),
        ("1.5e3", 1500),
        ("0001", 1),
        ("0.1", Fraction(1, 10)),
        ("12345678901234567890123", 12345678901234567890123),
        (3, 3),
        (-3, -3),
        (0.1, Fraction(1, 10)),
        (1e21, 10**21),
        (1.5e-7, Fraction(15, 10**8)),
    ],
)
def test_the_notation_of_kubernetes_is_read(text, expected):
    assert parse_quantity(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "abc",
        " 1",
        "1 ",
        "1 Gi",
        "1\n",
        "1ki",
        "1K",
        "1KI",
        "1mi",
        "1g",
        "1e",
        "1e+",
        "1e1.5",
        "1Ee",
        "1Gim",
        "1mm",
        "1e3k",
        ".",
        "-",
        "+",
        "--1",
        "1.2.3",
        "1,5",
        "1_000",
        "m",
        "0x10",
        "\u0661",
        "NaN",
        "inf",
        "1/2",
        float("nan"),
        float("inf"),
        float("-inf"),
        True,
        False,
        None,
        [],
        b"1",
    ],
)
def test_what_is_no_quantity_is_refused_and_shown(text):
    shown = str(text) if isinstance(text, float) else repr(text)
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert (
        str(caught.value)
        .replace("'", "")
        .startswith(f"expected a quantity, got {shown}".replace("'", ""))
    )


def test_an_empty_text_is_refused():
    with pytest.raises(
        QuantityError, match=r"^expected a quantity, got an empty string; use 0 for nothing$"
    ):
        parse_quantity("")


@pytest.mark.parametrize("text", ["1e65", "1E-65", "1e999999999999", "-1e-999999999999", 1e300])
def test_an_exponent_beyond_all_measure_is_refused(text):
    with pytest.raises(QuantityError, match="expected an exponent"):
        parse_quantity(text)


def test_a_text_beyond_all_measure_is_refused_without_being_repeated():
    with pytest.raises(QuantityError, match=r"^expected at most 128 characters, got 1000000"):
        parse_quantity("1" * 1_000_000)


def test_the_error_is_a_value_error_of_the_tree():
    assert issubclass(QuantityError, ValueError)
    assert issubclass(QuantityError, BatchschedError)


@pytest.mark.parametrize(
    ("text", "milli", "whole"),
    [
        ("250m", 250, 1),
        ("1", 1000, 1),
        ("1u", 1, 1),
        ("1001u", 2, 1),
        ("1.0005", 1001, 2),
        ("0", 0, 0),
        ("-250m", -250, -1),
        ("-1u", -1, -1),
        ("0.5Ki", 512_000, 512),
        (0.1, 100, 1),
        (2, 2000, 2),
        ("9007199254740993", 9007199254740993000, 9007199254740993),
    ],
)
def test_whole_values_are_rounded_away_from_zero(text, milli, whole):
    assert milli_value(text) == milli
    assert value(text) == whole
    assert type(milli_value(text)) is type(value(text)) is int


digits = st.text("0123456789", max_size=12)
numbers = st.tuples(st.sampled_from(["", "+", "-"]), digits, st.none() | digits).filter(
    lambda number: number[1] or number[2]
)
scales = st.one_of(
    st.sampled_from([(s, Fraction(10) ** e) for s, e in EXPONENT_OF_TEN.items()]),
    st.sampled_from([(s, Fraction(2) ** e) for s, e in EXPONENT_OF_TWO.items()]),
    st.builds(
        lambda letter, plus, e: (f"{letter}{plus if e >= 0 else ''}{e}", Fraction(10) ** e),
        st.sampled_from("eE"),
        st.sampled_from(["", "+"]),
        st.integers(-30, 30),
    ),
)


@st.composite
def quantities(draw):
    """Draw a quantity's text, and its value computed digit by digit."""
    sign, whole, part = draw(numbers)
    suffix, factor = draw(scales)
    exact = Fraction(0)
    for digit in whole:
        exact = exact * 10 + int(digit)
    for place, digit in enumerate(part or "", start=1):
        exact += Fraction(int(digit), 10**place)
    text = f"{sign}{whole}{'' if part is None else '.' + part}{suffix}"
    return text, (-exact if sign == "-" else exact) * factor


@given(quantities())
def test_every_quantity_is_read_exactly(quantity):
    text, exact = quantity
    assert parse_quantity(text) == exact


@given(quantities())
def test_a_whole_value_is_the_nearest_one_not_below_in_magnitude(quantity):
    text, exact = quantity
    for rounded, wanted in ((value(text), exact), (milli_value(text), exact * 1000)):
        assert abs(wanted) <= abs(rounded) < abs(wanted) + 1
        assert rounded * exact >= 0


@given(st.floats(-1e20, 1e20, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 1e-50))
def test_a_float_is_read_as_it_is_written(number):
    assert parse_quantity(number) == Fraction(repr(number))
    assert float(parse_quantity(number)) == number


@pytest.mark.slow
@given(st.text(max_size=8) | st.text("0123456789.+-eEKMGimk", max_size=7))
def test_a_text_is_read_or_refused_and_nothing_else_happens(text):
    notation = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?"
    if re.fullmatch(notation, text) and not re.search("[eE].?(6[5-9]|[789][0-9])", text):
        assert isinstance(parse_quantity(text), Fraction)
    else:
        with pytest.raises(QuantityError):
            parse_quantity(text)


@given(st.integers(-(10**30), 10**30))
def test_an_integer_and_its_text_are_one_quantity(number):
    assert parse_quantity(number) == parse_quantity(str(number)) == number
