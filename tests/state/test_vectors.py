"""Vectors: what they say is what resources say, and their sums are exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import Resource, sum_resources
from batchsched.state.vectors import LARGEST_IN_ARRAYS, Dimensions, fits, is_empty, minus, plus

AMOUNTS = st.one_of(st.integers(0, 5), st.integers(0, 1 << 60), st.sampled_from([0.0, 3.0, 1e15]))
RESOURCES = st.builds(
    Resource,
    milli_cpu=AMOUNTS,
    memory=AMOUNTS,
    scalars=st.dictionaries(st.sampled_from(["gpu", "fpga", "tpu"]), AMOUNTS),
)
WHOLE = st.builds(
    Resource,
    milli_cpu=st.integers(0, 9),
    memory=st.integers(0, 9),
    scalars=st.dictionaries(st.sampled_from(["gpu", "fpga"]), st.integers(0, 9)),
)


def test_the_clusters_dimensions_come_first_then_those_that_only_tasks_name() -> None:
    dimensions = Dimensions(
        [Resource(scalars={"zeta": 1, "none": 0}), Resource(scalars={"beta": 2})],
        [Resource(scalars={"alpha": 1, "beta": 1, "none": 0})],
    )
    assert dimensions.names == ("cpu", "memory", "beta", "zeta", "alpha", "none")
    assert dimensions.in_cluster == 4
    assert dimensions.zero == (0,) * 6


def test_without_scalars_there_are_cpu_and_memory() -> None:
    dimensions = Dimensions([], [])
    assert dimensions.names == ("cpu", "memory")
    assert dimensions.in_cluster == 2
    assert dimensions.vector(Resource(milli_cpu=3, memory=4)) == (3, 4)


@given(RESOURCES)
def test_a_resource_that_becomes_a_vector_and_comes_back_is_the_same(resource: Resource) -> None:
    dimensions = Dimensions([], [resource])
    assert dimensions.resource(dimensions.vector(resource)) == resource


def test_vectors_are_remembered_by_identity_and_not_mixed_up() -> None:
    dimensions = Dimensions([], [])
    for amount in range(1000):  # resources that are gone by the time of the next one
        assert dimensions.vector(Resource(milli_cpu=amount)) == (amount, 0)
    one = Resource(milli_cpu=1)
    assert dimensions.vector(one) is dimensions.vector(one)


def test_a_resource_with_an_unknown_scalar_has_no_vector() -> None:
    with pytest.raises(KeyError):
        Dimensions([], []).vector(Resource(scalars={"gpu": 1}))


@given(WHOLE, WHOLE)
def test_arithmetic_is_that_of_resources(left: Resource, right: Resource) -> None:
    dimensions = Dimensions([left], [right])
    a, b = dimensions.vector(left), dimensions.vector(right)
    assert dimensions.resource(plus(a, b)) == left + right
    assert plus(minus(a, b), b) == a


@given(RESOURCES, RESOURCES)
def test_fits_and_is_empty_say_what_resources_say(left: Resource, right: Resource) -> None:
    dimensions = Dimensions([left], [right])
    a, b = dimensions.vector(left), dimensions.vector(right)
    assert fits(a, b) == left.fits(right)
    assert is_empty(a) == left.is_empty()


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        ((1, 0), (1, 0), True),
        ((1.09, 0), (1, 0), True),
        ((1.5, 0), (1, 0), False),
        ((0, 1), (5, 0), False),
        ((0.1, 0), (0, 0), False),
        ((0, 0), (-0.05, 0), True),
        ((0, 0), (-0.1, 0), True),  # nothing is asked for
        ((0.09, 1), (-5, 1), True),
        ((0.1, 1), (-5, 1), False),
    ],
)
def test_fits_tolerates_less_than_epsilon(
    wanted: tuple[float, ...], there: tuple[float, ...], expected: bool
) -> None:
    assert fits(wanted, there) is expected


def test_fits_refuses_vectors_of_unlike_length() -> None:
    with pytest.raises(ValueError, match="zip"):
        fits((1,), (1, 2))


@given(st.lists(RESOURCES, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_sums_do_not_depend_on_the_order_of_summation(resources: list[Resource], chance) -> None:
    dimensions = Dimensions([], resources)
    vectors = [dimensions.vector(resource) for resource in resources]

    def total(order: list[tuple[int, ...]]) -> tuple[int, ...]:
        result = dimensions.zero
        for vector in order:
            result = plus(result, vector)
        return result

    assert total(chance.sample(vectors, len(vectors))) == total(vectors)
    assert total(vectors)[0] == sum(int(resource.milli_cpu) for resource in resources)


@given(st.lists(RESOURCES, min_size=1, max_size=8))
def test_what_is_added_and_taken_away_leaves_nothing_behind(resources: list[Resource]) -> None:
    dimensions = Dimensions([], resources)
    account = start = dimensions.vector(resources[0])
    for resource in resources:
        account = plus(account, dimensions.vector(resource))
    for resource in reversed(resources):
        account = minus(account, dimensions.vector(resource))
    assert account == start


@given(st.lists(WHOLE, max_size=5))
def test_the_sum_of_vectors_is_the_vector_of_the_sum(resources: list[Resource]) -> None:
    dimensions = Dimensions([], resources)
    total = dimensions.zero
    for resource in resources:
        total = plus(total, dimensions.vector(resource))
    assert dimensions.resource(total) == sum_resources(resources)


@pytest.mark.parametrize("vector", [(1, 2), (1, 2, 3, 4)])
def test_a_vector_of_other_dimensions_is_no_resource(vector: tuple[int, ...]) -> None:
    dimensions = Dimensions([Resource(scalars={"gpu": 1})], [])
    with pytest.raises(ValueError, match="zip"):
        dimensions.resource(vector)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [((0, 0), True), ((0.09, -5), True), ((0, 0.1), False), ((1, 0), False)],
)
def test_a_vector_is_empty_if_all_of_it_is_less_than_epsilon(
    amounts: tuple[float, ...], expected: bool
) -> None:
    assert is_empty(amounts) is expected


def test_amounts_become_integers() -> None:
    vector = Dimensions([], []).vector(Resource(milli_cpu=5.0, memory=1e20))
    assert vector == (5, 10**20)
    assert [type(amount) for amount in vector] == [int, int]


@pytest.mark.parametrize(
    ("amount", "expected"),
    [(LARGEST_IN_ARRAYS - 1, True), (LARGEST_IN_ARRAYS, False), (5.0, True)],
)
def test_amounts_are_small_as_long_as_all_of_them_fit_arrays(amount: float, expected: bool) -> None:
    dimensions = Dimensions([], [])
    dimensions.vector(Resource(milli_cpu=amount))
    dimensions.vector(Resource(milli_cpu=1))
    assert dimensions.are_small is expected
