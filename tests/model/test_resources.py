from __future__ import annotations

import copy
import pickle
from functools import reduce
from operator import add
from unittest.mock import ANY

import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import example, given
from hypothesis import strategies as st

from batchsched import (
    EPSILON,
    ArgumentError,
    BatchschedError,
    Resource,
    ResourceError,
    sum_resources,
)

NAMES = ("a.com/x", "nvidia.com/gpu", "z.com/y")


def resources(amounts: st.SearchStrategy[int | float]) -> st.SearchStrategy[Resource]:
    return st.builds(
        Resource,
        milli_cpu=amounts,
        memory=amounts,
        scalars=st.dictionaries(st.sampled_from(NAMES), amounts),
    )


whole = resources(st.integers(0, 2**60))
small = resources(st.integers(0, 2))
signed = resources(st.integers(-2, 2))
# Tenths are where EPSILON decides, and where floats are not exact.
tenths = resources(st.integers(-3, 30).map(lambda n: n / 20))
real = resources(st.floats(0, 1e15))
anything = st.one_of(whole, small, signed, tenths, real)


def amounts_of(resource: Resource) -> dict[str, int | float]:
    """Every dimension that could be, so that a missing scalar is 0."""
    return {name: resource.get(name) for name in ("cpu", "memory", *NAMES)}


class TestArithmetic:
    @given(whole, whole)
    def test_adding_then_subtracting_gives_the_same_resource(
        self, a: Resource, b: Resource
    ) -> None:
        assert (a + b) - b == a

    @given(anything, anything)
    def test_addition_does_not_depend_on_the_order(self, a: Resource, b: Resource) -> None:
        assert a + b == b + a

    @given(whole, whole, whole)
    def test_addition_does_not_depend_on_the_grouping(
        self, a: Resource, b: Resource, c: Resource
    ) -> None:
        assert (a + b) + c == a + (b + c)

    @given(anything)
    def test_adding_or_subtracting_nothing_changes_nothing(self, a: Resource) -> None:
        assert a + Resource() == a
        if all(amount >= 0 for amount in amounts_of(a).values()):
            assert a - Resource() == a

    @given(anything, anything)
    def test_a_sum_is_the_sum_in_every_dimension(self, a: Resource, b: Resource) -> None:
        left, right = amounts_of(a), amounts_of(b)
        assert amounts_of(a + b) == {name: left[name] + right[name] for name in left}

    @given(st.lists(whole))
    def test_a_sum_of_many_is_the_sum_one_by_one(self, parts: list[Resource]) -> None:
        assert sum_resources(parts) == reduce(add, parts, Resource())

    @given(st.lists(real))
    def test_a_sum_of_many_is_the_sum_one_by_one_to_the_last_bit(
        self, parts: list[Resource]
    ) -> None:
        assert sum_resources(parts) == reduce(add, parts, Resource())

    def test_a_sum_takes_any_iterable(self) -> None:
        assert sum_resources(Resource(memory=n) for n in range(4)) == Resource(memory=6)

    @given(whole, st.integers(0, 5))
    def test_multiplying_is_adding_so_many_times(self, a: Resource, factor: int) -> None:
        assert a * factor == sum_resources([a] * factor)
        assert factor * a == a * factor

    def test_integers_stay_integers(self) -> None:
        exact = 2**60 + 1  # no float
        doubled = Resource(memory=exact, scalars={"x": exact}) * 2
        assert (doubled.memory, doubled.scalars["x"]) == (2 * exact, 2 * exact)
        assert type((doubled - Resource(memory=1)).memory) is int

    @given(anything, anything)
    def test_the_maximum_and_minimum_are_taken_in_every_dimension(
        self, a: Resource, b: Resource
    ) -> None:
        left, right = amounts_of(a), amounts_of(b)
        assert amounts_of(a.max_with(b)) == {name: max(left[name], right[name]) for name in left}
        assert amounts_of(a.min_with(b)) == {name: min(left[name], right[name]) for name in left}

    @given(whole, whole)
    def test_the_maximum_and_minimum_add_up_to_the_sum(self, a: Resource, b: Resource) -> None:
        assert a.max_with(b) + a.min_with(b) == a + b

    @given(whole, whole)
    def test_both_fit_their_maximum_and_their_minimum_fits_both(
        self, a: Resource, b: Resource
    ) -> None:
        assert a.fits(a.max_with(b))
        assert b.fits(a.max_with(b))
        assert a.min_with(b).fits(a)
        assert a.min_with(b).fits(b)

    @pytest.mark.parametrize(
        "operation",
        [
            lambda: Resource() + 1,
            lambda: 1 + Resource(),
            lambda: Resource() - {"cpu": 1},
            lambda: Resource() * "2",
            lambda: Resource() * Resource(),
            lambda: Resource() <= 1,
            lambda: Resource() >= None,
        ],
    )
    def test_anything_but_resources_is_a_type_error(self, operation) -> None:
        with pytest.raises(TypeError, match=r"not supported|unsupported operand|multiply"):
            operation()


class TestSubtraction:
    def test_what_is_short_is_an_error_that_names_all_of_it(self) -> None:
        node = Resource(milli_cpu=5, memory=7, scalars={"x": 1, "y": 2})
        task = Resource(milli_cpu=6, memory=7, scalars={"y": 2, "x": 4, "a": 1})
        with pytest.raises(ResourceError) as caught:
            node - task
        assert str(caught.value) == "cannot take 6 of cpu from 5, 1 of a from 0, 4 of x from 1"
        assert isinstance(caught.value, ArithmeticError)
        assert isinstance(caught.value, BatchschedError)

    @pytest.mark.parametrize("dimension", ["milli_cpu", "memory"])
    def test_less_than_epsilon_may_be_missing(self, dimension: str) -> None:
        left = Resource(**{dimension: 1}) - Resource(**{dimension: 1.09})
        assert -EPSILON < getattr(left, dimension) < 0
        with pytest.raises(ResourceError):
            Resource(**{dimension: 1}) - Resource(**{dimension: 1.11})

    def test_less_than_epsilon_of_a_scalar_may_be_missing(self) -> None:
        assert (Resource() - Resource(scalars={"x": 0.09})).get("x") == -0.09
        with pytest.raises(ResourceError, match=r"cannot take 0\.11 of x from 0"):
            Resource() - Resource(scalars={"x": 0.11})

    @given(anything, anything)
    def test_taking_away_fails_only_if_a_dimension_is_short(self, a: Resource, b: Resource) -> None:
        left = {name: amount - a.get(name) for name, amount in amounts_of(b).items()}
        if any(amount < -EPSILON for amount in left.values()):
            assert any(a.get(name) > b.get(name) for name in left)
            with pytest.raises(ResourceError):
                b - a
        else:
            assert amounts_of(b - a) == left

    @given(anything, anything)
    def test_what_fits_can_be_taken_away(self, a: Resource, b: Resource) -> None:
        roomy = a.max_with(b)
        assert a.fits(roomy)
        assert (roomy - a).get("cpu") == roomy.milli_cpu - a.milli_cpu

    @given(small, small)
    def test_whole_amounts_can_be_taken_away_exactly_if_they_fit(
        self, a: Resource, b: Resource
    ) -> None:
        try:
            b - a
        except ResourceError:
            assert not a.fits(b)
        else:
            assert a.fits(b)


class TestFitting:
    @given(anything, anything)
    @example(Resource(), Resource(scalars={"z.com/y": -1}))
    @example(Resource(milli_cpu=1), Resource(milli_cpu=0.9))
    @example(Resource(memory=1), Resource(memory=0.95))
    @example(Resource(scalars={"a.com/x": 1}), Resource(scalars={"z.com/y": 1}))
    def test_it_fits_if_it_is_less_or_nearly_the_same_in_every_dimension(
        self, a: Resource, b: Resource
    ) -> None:
        left, right = amounts_of(a), amounts_of(b)
        expected = all(
            left[name] < EPSILON
            or left[name] < right[name]
            or abs(left[name] - right[name]) < EPSILON
            for name in left
        )
        assert a.fits(b) is expected
        assert (a <= b) is expected
        assert (b >= a) is expected

    @pytest.mark.parametrize(
        "more", [Resource(milli_cpu=0.1), Resource(memory=0.1), Resource(scalars={"x": 0.1})]
    )
    def test_what_differs_by_epsilon_is_not_the_same_and_yet_no_error(self, more: Resource) -> None:
        assert not more.fits(Resource())
        assert not more.is_empty()
        assert Resource().fits(more * -1)  # nothing is asked for
        assert (Resource() - more) == more * -1  # not below -EPSILON

    @given(anything)
    def test_everything_fits_itself(self, a: Resource) -> None:
        assert a.fits(a)

    @given(whole, whole, small)
    def test_adding_to_what_is_there_makes_nothing_fit_less(
        self, a: Resource, b: Resource, more: Resource
    ) -> None:
        assert (b + more).fits(a) <= b.fits(a)
        assert a.fits(b) <= a.fits(b + more)
        assert a.fits(a + more)

    @given(small, small)
    def test_whole_amounts_that_fit_each_other_are_equal(self, a: Resource, b: Resource) -> None:
        assert (a.fits(b) and b.fits(a)) is (a == b)

    @given(anything)
    def test_it_is_empty_if_every_dimension_is_less_than_epsilon(self, a: Resource) -> None:
        assert a.is_empty() is all(amount < EPSILON for amount in amounts_of(a).values())

    @pytest.mark.parametrize(
        ("resource", "empty"),
        [
            (Resource(), True),
            (Resource(scalars={"x": 0}), True),
            (Resource(milli_cpu=0.09, memory=0.09, scalars={"x": 0.09}), True),
            (Resource(milli_cpu=0.1), False),
            (Resource(memory=0.1), False),
            (Resource(scalars={"x": 0, "y": 0.1}), False),
            (Resource(milli_cpu=-5), True),
        ],
    )
    def test_emptiness_by_example(self, resource: Resource, empty: bool) -> None:
        assert resource.is_empty() is empty


class TestEquality:
    @given(signed, signed)
    def test_two_are_equal_if_every_dimension_is(self, a: Resource, b: Resource) -> None:
        assert (a == b) is (amounts_of(a) == amounts_of(b))

    @given(signed, st.sampled_from([int, float]), st.sets(st.sampled_from(NAMES)))
    @example(Resource(scalars={"a.com/x": 0}), int, set())
    def test_equal_resources_have_the_same_hash(
        self, a: Resource, number: type, named: set[str]
    ) -> None:
        """However the same amounts are written down."""
        amounts = {name: number(a.get(name)) for name in NAMES}
        b = Resource(
            milli_cpu=number(a.milli_cpu),
            memory=number(a.memory),
            scalars={name: n for name, n in amounts.items() if n or name in named},
        )
        assert a == b
        assert hash(a) == hash(b)

    def test_the_hash_tells_resources_apart(self) -> None:
        several = [
            Resource(milli_cpu=cpu, memory=memory, scalars={"x": x})
            for cpu in range(5)
            for memory in range(5)
            for x in range(5)
        ]
        assert len({hash(resource) for resource in several}) > 120

    def test_a_scalar_of_nothing_is_a_scalar_not_named(self) -> None:
        assert Resource(scalars={"x": 0}) == Resource()
        assert {Resource(scalars={"x": 0}): "found"}[Resource()] == "found"

    @pytest.mark.parametrize(
        "other",
        [
            Resource(milli_cpu=2, memory=2, scalars={"x": 3}),
            Resource(milli_cpu=1, memory=1, scalars={"x": 3}),
            Resource(milli_cpu=1, memory=2, scalars={"x": 4}),
            Resource(milli_cpu=1, memory=2, scalars={"y": 3}),
            Resource(milli_cpu=1, memory=2, scalars={"x": 3, "y": 1}),
            Resource(milli_cpu=1, memory=2),
        ],
    )
    def test_a_difference_in_any_dimension_counts(self, other: Resource) -> None:
        assert Resource(milli_cpu=1, memory=2, scalars={"x": 3}) != other

    def test_a_resource_is_not_equal_to_anything_else(self) -> None:
        assert Resource() != 0
        assert (Resource() == {}) is False
        assert Resource() == ANY  # the other side may know better


class TestValue:
    @given(anything)
    def test_it_can_be_pickled_and_copied(self, a: Resource) -> None:
        assert pickle.loads(pickle.dumps(a)) == a
        assert copy.deepcopy(a) == a
        assert copy.copy(a) == a

    @given(anything)
    def test_its_repr_makes_an_equal_resource(self, a: Resource) -> None:
        assert eval(repr(a), {"Resource": Resource}) == a

    def test_its_repr_does_not_depend_on_the_order_of_scalars(self) -> None:
        one, other = Resource(scalars={"x": 1, "y": 2}), Resource(scalars={"y": 2, "x": 1})
        assert repr(one) == repr(other)
        assert repr(one) == "Resource(milli_cpu=0, memory=0, scalars={'x': 1, 'y': 2})"

    @pytest.mark.parametrize("scalars", [{1: 2, "x": 3}, [1], "text"])
    def test_even_an_invalid_one_can_be_shown(self, scalars: object) -> None:
        shown = repr(Resource(scalars=scalars))
        assert shown == f"Resource(milli_cpu=0, memory=0, scalars={scalars!r})"

    def test_it_cannot_be_changed(self) -> None:
        given_scalars = {"x": 1}
        resource = Resource(scalars=given_scalars)
        given_scalars["x"] = 2
        assert resource.scalars == {"x": 1}
        with pytest.raises(TypeError):
            resource.scalars["x"] = 2
        with pytest.raises(FrozenInstanceError):
            resource.milli_cpu = 2

    @given(anything, anything)
    def test_arithmetic_leaves_its_operands_as_they_were(self, a: Resource, b: Resource) -> None:
        before = repr(a), repr(b)
        sum_resources([a, b, a + b, a * 2, a.max_with(b), a.min_with(b)])
        assert (repr(a), repr(b)) == before

    @given(anything, anything)
    def test_results_are_frozen_too(self, a: Resource, b: Resource) -> None:
        for made in (a + b, a * 2, a.max_with(b), a.min_with(b), sum_resources([a, b])):
            with pytest.raises(TypeError, match="cannot be changed"):
                made.scalars["gpu"] = 1  # type: ignore[index]

    def test_whole_units_are_counted_in_thousandths_and_bytes(self) -> None:
        made = Resource.of(cpu="1500m", memory=0.5, gpu=2, **{"example.com/license": "1"})
        scalars = {"nvidia.com/gpu": 2000, "example.com/license": 1000}
        assert made == Resource(milli_cpu=1500, memory=1, scalars=scalars)
        assert Resource.of() == Resource()
        assert Resource.of(**{"nvidia.com/gpu": 1}) == Resource.of(gpu=1)

    def test_every_amount_that_cannot_be_is_told(self) -> None:
        with pytest.raises(ArgumentError) as caught:
            Resource.of(cpu="two", memory=-1, gpus=1, gpu=1, **{"nvidia.com/gpu": 1})
        assert [fault.path for fault in caught.value.faults] == [
            *("cpu", "memory", "gpus", "nvidia.com/gpu")
        ]

    def test_positional_arguments_are_refused_because_units_need_names(self) -> None:
        with pytest.raises(TypeError):
            Resource(500)

    def test_dimensions_come_in_a_fixed_order(self) -> None:
        resource = Resource(milli_cpu=1, memory=2, scalars={"z": 3, "a": 4})
        assert list(resource.dimensions()) == [("cpu", 1), ("memory", 2), ("a", 4), ("z", 3)]

    @given(anything)
    def test_each_dimension_can_be_asked_for(self, a: Resource) -> None:
        assert all(a.get(name) == amount for name, amount in a.dimensions())
        assert a.get("not.there/at-all") == 0
