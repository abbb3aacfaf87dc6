from __future__ import annotations

import copy
import json
import pickle
from collections import OrderedDict, deque
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched.errors import ArgumentError
from batchsched.model.immutable import (
    EMPTY,
    FrozenMap,
    frozen_map,
    kept_in_order,
    kept_map,
    kept_tuple,
)

contents = st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=4)


@given(contents)
def test_it_equals_a_dict_with_the_same_content(content: dict[str, int]) -> None:
    frozen = FrozenMap(content)
    assert frozen == content
    assert content == frozen
    assert dict(frozen) == content
    assert [*frozen] == [*content]


@given(contents, contents)
def test_two_are_equal_if_their_content_is_and_then_have_the_same_hash(
    one: dict[str, int], other: dict[str, int]
) -> None:
    assert (FrozenMap(one) == FrozenMap(other)) is (one == other)
    if one == other:
        assert hash(FrozenMap(one)) == hash(FrozenMap(other))


@given(contents)
def test_its_hash_does_not_depend_on_the_order_or_on_being_asked_before(
    content: dict[str, int],
) -> None:
    frozen = FrozenMap(content)
    backwards = FrozenMap(reversed(content.items()))
    assert hash(frozen) == hash(frozen) == hash(backwards)
    assert {frozen: 1}[backwards] == 1


def test_the_hash_tells_contents_apart() -> None:
    hashes = {hash(FrozenMap({"a": n})) for n in range(100)}
    assert len(hashes) > 90


def test_an_unhashable_value_makes_it_unhashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(FrozenMap({"a": []}))


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.__setitem__("a", 2),
        lambda m: m.__delitem__("a"),
        lambda m: m.__ior__({"b": 2}),
        lambda m: m.clear(),
        lambda m: m.pop("a"),
        lambda m: m.pop("b", None),
        lambda m: m.popitem(),
        lambda m: m.setdefault("a", 1),
        lambda m: m.setdefault("b", 1),
        lambda m: m.update({"b": 2}),
        lambda m: m.update(b=2),
        lambda m: m.update(),
    ],
)
def test_nothing_changes_it(change) -> None:
    frozen = FrozenMap({"a": 1})
    with pytest.raises(TypeError, match="a FrozenMap cannot be changed"):
        change(frozen)
    assert frozen == {"a": 1}


def test_it_has_no_attributes_to_set() -> None:
    with pytest.raises(AttributeError):
        FrozenMap().note = 1


@given(contents)
def test_it_can_be_pickled(content: dict[str, int]) -> None:
    frozen = FrozenMap(content)
    hash(frozen)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(frozen, protocol))
        assert type(again) is FrozenMap
        assert again == frozen
        assert hash(again) == hash(frozen)


def test_a_copy_is_the_same_object() -> None:
    frozen = FrozenMap({"a": 1})
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen


def test_a_dict_made_from_it_can_be_changed() -> None:
    frozen = FrozenMap({"a": 1})
    for loose in (frozen.copy(), frozen | {"b": 2}, {**frozen}):
        loose["a"] = 3
        assert loose["a"] == 3
    assert frozen == {"a": 1}


def test_it_reads_and_prints_like_a_dict() -> None:
    frozen = FrozenMap({"a": 1})
    assert repr(frozen) == "{'a': 1}"
    assert json.dumps(frozen) == '{"a": 1}'
    assert frozen.get("b", 5) == 5


class TestFrozenMapFunction:
    def test_a_frozen_map_is_returned_itself(self) -> None:
        frozen = FrozenMap({"a": 1})
        assert frozen_map(frozen) is frozen

    def test_what_is_empty_shares_one_map(self) -> None:
        assert frozen_map({}) is EMPTY
        assert frozen_map(MappingProxyType({})) is EMPTY

    @given(contents)
    def test_any_mapping_is_copied(self, content: dict[str, int]) -> None:
        for given_mapping in (content, MappingProxyType(content), OrderedDict(content)):
            frozen = frozen_map(given_mapping)
            assert type(frozen) is FrozenMap
            assert frozen == content
        frozen = frozen_map(content)
        content["new"] = 1
        assert frozen != content

    @pytest.mark.parametrize("wrong", [None, [], [("a", 1)], "ab", 0, {"a"}])
    def test_anything_else_is_a_type_error_that_shows_it(self, wrong: object) -> None:
        with pytest.raises(TypeError) as caught:
            frozen_map(wrong)
        assert str(caught.value) == f"expected a mapping such as a dict, got {wrong!r}"


class TestKeeping:
    """What fields are converted with: never an error, so that a snapshot can list all."""

    @pytest.mark.parametrize("keep", [kept_map])
    def test_mappings_are_frozen(self, keep) -> None:
        frozen = FrozenMap({"a": "b"})
        assert keep(frozen) is frozen
        assert keep({}) is EMPTY
        for mapping in ({"a": "b"}, MappingProxyType({"a": "b"})):
            assert type(keep(mapping)) is FrozenMap
            assert keep(mapping) == frozen

    @pytest.mark.parametrize("keep", [kept_map])
    @pytest.mark.parametrize("wrong", [None, [], [("a", "b")], "ab", 0])
    def test_what_is_no_mapping_is_kept(self, keep, wrong: object) -> None:
        assert keep(wrong) is wrong

    @pytest.mark.parametrize("keep", [kept_tuple])
    @pytest.mark.parametrize("given_as", [tuple, list, iter, dict.fromkeys, deque])
    def test_collections_become_tuples(self, keep, given_as) -> None:
        items = given_as("ab")
        assert keep(items.keys() if isinstance(items, dict) else items) == ("a", "b")

    @pytest.mark.parametrize("keep", [kept_tuple])
    @pytest.mark.parametrize("wrong", [None, 5, "ab", b"ab", {"a": 1}, MappingProxyType({}), int])
    def test_what_is_no_collection_of_items_is_kept(self, keep, wrong: object) -> None:
        assert keep(wrong) is wrong

    def test_a_tuple_is_returned_itself(self) -> None:
        items = (1, 2)
        assert kept_tuple(items) is items

    @pytest.mark.parametrize("keep", [kept_tuple, lambda items: kept_in_order(items, str)])
    def test_an_error_in_a_generator_is_not_swallowed(self, keep) -> None:
        def failing():
            yield 1
            raise TypeError("from inside")

        with pytest.raises(ArgumentError, match="from inside"):
            keep(failing())

    @given(st.lists(st.text(max_size=2)))
    def test_items_are_put_in_order(self, items: list[str]) -> None:
        assert kept_in_order(items, str) == tuple(sorted(items))
        assert kept_in_order(iter(items), len) == tuple(sorted(items, key=len))

    @pytest.mark.parametrize("wrong", [None, 5, "", "ba", {}, {"b": 1}])
    def test_what_is_no_collection_of_items_is_not_put_in_order(self, wrong: object) -> None:
        assert kept_in_order(wrong, str) is wrong

    @pytest.mark.parametrize("items", [("b", None, "a"), (3, "a", 2), (1j, 0)])
    def test_items_that_have_no_order_stay_as_they_are(self, items: tuple[object, ...]) -> None:
        assert kept_in_order(list(items), lambda item: item) == items
