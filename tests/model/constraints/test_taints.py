"""Taints and tolerations: the specification's section 8."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import Taint, TaintEffect, Toleration, TolerationOperator
from batchsched.model.constraints import untolerated

EQUAL, EXISTS = TolerationOperator.EQUAL, TolerationOperator.EXISTS
NO_SCHEDULE, NO_EXECUTE = TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE
PREFER = TaintEffect.PREFER_NO_SCHEDULE

taints = st.builds(
    Taint,
    key=st.sampled_from(["a", "b"]),
    value=st.sampled_from(["", "x", "y"]),
    effect=st.sampled_from(TaintEffect),
)
effects = st.none() | st.sampled_from(TaintEffect)
tolerations = st.one_of(
    st.builds(
        Toleration,
        key=st.sampled_from(["a", "b"]),
        value=st.sampled_from(["", "x", "y"]),
        effect=effects,
    ),
    st.builds(
        Toleration, key=st.sampled_from(["", "a", "b"]), operator=st.just(EXISTS), effect=effects
    ),
)


class TestTolerates:
    @pytest.mark.parametrize(
        ("toleration", "expected"),
        [
            (Toleration(key="a", value="x"), True),
            (Toleration(key="a", value="x", effect=NO_SCHEDULE), True),
            (Toleration(key="a", value="x", effect=NO_EXECUTE), False),
            (Toleration(key="a", value="y"), False),
            (Toleration(key="a"), False),
            (Toleration(key="b", value="x"), False),
            (Toleration(key="a", operator=EXISTS), True),
            (Toleration(key="a", operator=EXISTS, effect=NO_SCHEDULE), True),
            (Toleration(key="a", operator=EXISTS, effect=PREFER), False),
            (Toleration(key="b", operator=EXISTS), False),
            (Toleration(operator=EXISTS), True),
            (Toleration(operator=EXISTS, effect=NO_SCHEDULE), True),
            (Toleration(operator=EXISTS, effect=NO_EXECUTE), False),
        ],
    )
    def test_by_example(self, toleration: Toleration, expected: bool) -> None:
        taint = Taint(key="a", value="x", effect=NO_SCHEDULE)
        assert toleration.tolerates(taint) is expected

    def test_a_taint_without_a_value_is_tolerated_by_equality_with_none(self) -> None:
        assert Toleration(key="a").tolerates(Taint(key="a", effect=NO_EXECUTE))

    def test_equal_is_the_default(self) -> None:
        assert Toleration(key="a").operator is EQUAL

    @given(taints)
    def test_exists_without_key_and_effect_tolerates_everything(self, taint: Taint) -> None:
        assert Toleration(operator=EXISTS).tolerates(taint)

    @given(tolerations, taints)
    def test_every_part_must_agree(self, toleration: Toleration, taint: Taint) -> None:
        expected = (
            toleration.effect in (None, taint.effect)
            and toleration.key in ("", taint.key)
            and (toleration.operator is EXISTS or toleration.value == taint.value)
        )
        assert toleration.tolerates(taint) is expected

    @given(tolerations, taints)
    def test_leaving_out_the_effect_tolerates_at_least_as_much(
        self, toleration: Toleration, taint: Taint
    ) -> None:
        wider = Toleration(key=toleration.key, operator=toleration.operator, value=toleration.value)
        assert toleration.tolerates(taint) <= wider.tolerates(taint)


class TestUntolerated:
    @pytest.mark.parametrize(
        ("effect", "repels"), [(NO_SCHEDULE, True), (NO_EXECUTE, True), (PREFER, False)]
    )
    def test_only_an_effect_that_forbids_repels(self, effect: TaintEffect, repels: bool) -> None:
        taint = Taint(key="a", effect=effect)
        assert taint.repels() is repels
        assert untolerated([taint], ()) is (taint if repels else None)

    @given(st.lists(taints), st.lists(tolerations))
    def test_it_is_the_first_that_repels_and_that_nothing_tolerates(
        self, on_node: list[Taint], on_task: list[Toleration]
    ) -> None:
        left = [
            taint
            for taint in on_node
            if taint.effect is not PREFER and not any(t.tolerates(taint) for t in on_task)
        ]
        assert untolerated(on_node, on_task) is (left[0] if left else None)

    @given(st.lists(taints), st.lists(tolerations), tolerations)
    def test_one_more_toleration_never_hurts(
        self, on_node: list[Taint], on_task: list[Toleration], more: Toleration
    ) -> None:
        if untolerated(on_node, on_task) is None:
            assert untolerated(on_node, [*on_task, more]) is None

    @given(st.lists(taints), tolerations)
    def test_tolerating_everything_leaves_nothing(
        self, on_node: list[Taint], other: Toleration
    ) -> None:
        everything = Toleration(operator=EXISTS)
        assert untolerated(on_node, (other, everything)) is None

    def test_the_order_of_taints_decides_which_is_named(self) -> None:
        first, second = Taint(key="a", effect=NO_SCHEDULE), Taint(key="b", effect=NO_EXECUTE)
        assert untolerated((first, second), ()) is first
        assert untolerated((second, first), ()) is second
        assert untolerated((first, second), (Toleration(key="a"),)) is second


@given(taints, tolerations)
def test_they_are_values(taint: Taint, toleration: Toleration) -> None:
    for value in (taint, toleration):
        again = pickle.loads(pickle.dumps(value))
        assert again == value
        assert hash(again) == hash(value)
