"""Dealing out an amount by weight: laws, and the exact level in rational numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.reference.queue_shares import reference_fill

from batchsched.plugins.capacity.accounts import fill

AMOUNTS = st.integers(0, 60)
ITEMS = st.lists(st.tuples(AMOUNTS, st.integers(0, 9)), max_size=8)
HUGE = 1 << 60


def dealt(amount: int, items: list[tuple[int, int]]) -> tuple[list[int], int]:
    return fill(amount, [cap for cap, _ in items], [weight for _, weight in items])


class TestExamples:
    def test_equal_weights(self) -> None:
        assert fill(12, [2, 9, 9], [1, 1, 1]) == ([2, 5, 5], 0)

    def test_the_rest_is_left_when_all_have_their_caps(self) -> None:
        assert fill(12, [2, 9], [1, 0]) == ([2, 0], 10)

    def test_nobody(self) -> None:
        assert fill(12, [], []) == ([], 12)

    def test_levels_that_are_one_float_are_told_apart(self) -> None:
        # As floats, both quotients are 1.0; the second reaches its cap first.
        caps, weights = [HUGE, HUGE - 4], [HUGE, HUGE]
        assert caps[0] / weights[0] == caps[1] / weights[1]
        assert fill(2 * HUGE - 5, caps, weights) == ([HUGE - 1, HUGE - 4], 0)


@pytest.mark.parametrize(
    ("amount", "caps", "weights", "expected"),
    [
        (7, [9, 9], [2, 1], [5, 2]),
        (8, [9, 9], [2, 1], [5, 3]),
        (10, [9, 9, 9], [1, 1, 1], [4, 3, 3]),  # among equals the first
        (10, [2, 9, 9], [1, 1, 1], [2, 4, 4]),
        (1, [9, 9, 9], [2, 3, 3], [0, 1, 0]),
    ],
)
def test_whole_devices_by_largest_remainder(
    amount: int, caps: list[int], weights: list[int], expected: list[int]
) -> None:
    parts, left = fill(1000 * amount, [1000 * cap for cap in caps], weights, 1000)
    assert parts == [1000 * part for part in expected]
    assert left == 0


@given(AMOUNTS, ITEMS)
def test_whole_devices_are_dealt_out_to_the_last_within_one_of_the_exact_parts(
    amount: int, items: list[tuple[int, int]]
) -> None:
    caps, weights = [1000 * cap for cap, _ in items], [weight for _, weight in items]
    parts, left = fill(1000 * amount, caps, weights, 1000)
    exact, _ = fill(10**9 * amount, [10**6 * cap for cap in caps], weights)
    assert all(part % 1000 == 0 for part in parts)
    for part, near, cap in zip(parts, exact, caps, strict=True):
        assert 0 <= part <= cap
        assert abs(10**6 * part - near) < 10**9
    wanted = sum(cap for cap, weight in zip(caps, weights, strict=True) if weight)
    assert sum(parts) == min(1000 * amount, wanted)
    assert left == 1000 * amount - sum(parts)


@pytest.mark.parametrize(
    ("amount", "caps", "weights", "expected"),
    [
        (4000, [2000, 2000, 1000], [3, 1, 1], [2000, 1000, 1000]),
        (4000, [2000, 2000, 500], [3, 1, 1], [2000, 1500, 500]),
        (4500, [9000, 9000, 9000], [1, 1, 1], [2000, 1500, 1000]),  # the rest goes to the next
        (2500, [1200, 9000, 9000], [1, 1, 1], [1000, 1000, 500]),
        (4700, [1600, 9000, 9000], [1, 1, 1], [1600, 2000, 1100]),
        (300, [100, 900], [1, 1], [100, 200]),
    ],
)
def test_parts_of_devices_are_for_those_who_ask_for_them_and_the_others_get_whole_ones(
    amount: int, caps: list[int], weights: list[int], expected: list[int]
) -> None:
    assert fill(amount, caps, weights, 1000) == (expected, 0)
    assert reference_fill(amount, caps, weights, is_whole=True) == (expected, 0)


@given(
    st.integers(0, 6000), st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 9)), max_size=8)
)
def test_parts_of_devices_as_the_reference_deals_them(
    amount: int, items: list[tuple[int, int]]
) -> None:
    caps, weights = [cap for cap, _ in items], [weight for _, weight in items]
    parts, left = fill(amount, caps, weights, 1000)
    assert (parts, left) == reference_fill(amount, caps, weights, is_whole=True)
    exact, _ = fill(10**6 * amount, [10**6 * cap for cap in caps], weights)
    for part, near, cap in zip(parts, exact, caps, strict=True):
        assert 0 <= part <= cap
        assert abs(10**6 * part - near) < 10**9  # within one device
    wanted = sum(cap for cap, weight in zip(caps, weights, strict=True) if weight)
    assert sum(parts) == min(amount, wanted)
    assert left == amount - sum(parts)
    assert sum(part % 1000 != 0 and part < cap for part, cap in zip(parts, caps, strict=True)) <= 1


@given(AMOUNTS, ITEMS)
def test_whole_devices_as_the_reference_deals_them(
    amount: int, items: list[tuple[int, int]]
) -> None:
    caps, weights = [1000 * cap for cap, _ in items], [weight for _, weight in items]
    expected = reference_fill(1000 * amount, caps, weights, is_whole=True)
    assert fill(1000 * amount, caps, weights, 1000) == expected


@given(AMOUNTS, ITEMS)
@example(2, [(1, 1), (1, 1), (1, 1)])
def test_it_is_the_exact_level_rounded_down(amount: int, items: list[tuple[int, int]]) -> None:
    caps, weights = [cap for cap, _ in items], [weight for _, weight in items]
    assert fill(amount, caps, weights) == reference_fill(amount, caps, weights)


@given(st.integers(0, 4 * HUGE), st.lists(st.tuples(st.integers(0, HUGE), st.integers(0, HUGE))))
def test_it_is_the_exact_level_of_large_amounts(amount: int, items: list[tuple[int, int]]) -> None:
    caps, weights = [cap for cap, _ in items], [weight for _, weight in items]
    assert fill(amount, caps, weights) == reference_fill(amount, caps, weights)


@given(AMOUNTS, ITEMS)
def test_nobody_gets_more_than_its_cap_and_all_together_no_more_than_there_is(
    amount: int, items: list[tuple[int, int]]
) -> None:
    given_, left = dealt(amount, items)
    assert all(0 <= got <= cap for got, (cap, _) in zip(given_, items, strict=True))
    assert sum(given_) + left <= amount


@given(AMOUNTS, ITEMS)
def test_nothing_is_left_while_somebody_with_a_weight_wants_more(
    amount: int, items: list[tuple[int, int]]
) -> None:
    given_, left = dealt(amount, items)
    short = [n for n, (cap, weight) in enumerate(items) if weight and given_[n] < cap]
    if short:
        assert left == 0
        assert amount - sum(given_) < len(short)
    else:
        assert left == amount - sum(given_)


@given(AMOUNTS, AMOUNTS, ITEMS)
def test_more_to_deal_out_gives_nobody_less(
    amount: int, more: int, items: list[tuple[int, int]]
) -> None:
    before, left_before = dealt(amount, items)
    after, left_after = dealt(amount + more, items)
    assert all(b <= a for b, a in zip(before, after, strict=True))
    assert left_before <= left_after


@given(AMOUNTS, ITEMS.filter(bool), st.integers(0, 7), AMOUNTS)
def test_a_higher_cap_gives_oneself_no_less_and_others_no_more(
    amount: int, items: list[tuple[int, int]], who: int, more: int
) -> None:
    who %= len(items)
    before, left_before = dealt(amount, items)
    raised = [(cap + more * (n == who), weight) for n, (cap, weight) in enumerate(items)]
    after, left_after = dealt(amount, raised)
    assert after[who] >= before[who]
    assert all(after[n] <= before[n] for n in range(len(items)) if n != who)
    assert left_after <= left_before


@given(
    AMOUNTS,
    st.permutations(range(6)),
    st.lists(st.tuples(AMOUNTS, st.integers(0, 9)), min_size=6, max_size=6),
)
def test_it_does_not_matter_who_is_named_first(
    amount: int, order: list[int], items: list[tuple[int, int]]
) -> None:
    given_, left = dealt(amount, items)
    shuffled, left_too = dealt(amount, [items[n] for n in order])
    assert [given_[n] for n in order] == shuffled
    assert left == left_too


@given(AMOUNTS, ITEMS, st.integers(1, 5))
def test_only_the_proportions_of_the_weights_matter(
    amount: int, items: list[tuple[int, int]], factor: int
) -> None:
    assert dealt(amount, items) == dealt(amount, [(c, w * factor) for c, w in items])


@settings(max_examples=40)
@given(
    st.fractions(0, 60),
    st.lists(st.tuples(st.fractions(0, 20), st.integers(1, 9)), min_size=1, max_size=6),
)
def test_amounts_that_are_no_whole_numbers(
    amount: Fraction, items: list[tuple[Fraction, int]]
) -> None:
    given_, left = fill(amount, [c for c, _ in items], [w for _, w in items])  # type: ignore[arg-type]
    assert sum(given_) + left <= amount
    assert all(got <= cap for got, (cap, _) in zip(given_, items, strict=True))
