"""Reasons: values whose texts are made only when asked for."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import (
    ConditionReason,
    JobCondition,
    NodeTally,
    PendingReason,
    Unfit,
    UnfitReason,
    WhyPending,
)

SHORT_OF_CPU = Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail="cpu")
SHORT_OF_GPU = Unfit(UnfitReason.INSUFFICIENT_RESOURCE, detail="nvidia.com/gpu")
TAINTED = Unfit(UnfitReason.UNTOLERATED_TAINT, plugin="predicates")

unfits = st.builds(
    Unfit,
    st.sampled_from(UnfitReason),
    plugin=st.sampled_from(["", "predicates", "mine"]),
    detail=st.sampled_from(["", "cpu", "{braces}", "100%"]),
)
tallies = st.builds(
    NodeTally,
    total=st.integers(0, 9),
    available=st.integers(0, 9),
    unfit=st.dictionaries(unfits, st.integers(1, 9)),
)


OF_QUEUES = (
    UnfitReason.BEYOND_QUOTA,
    UnfitReason.NEVER_LENT,
    UnfitReason.QUEUE_LIMIT,
    UnfitReason.ABOVE_FAIR_SHARE,
    UnfitReason.NOT_ITS_TURN,
)


class TestUnfit:
    @pytest.mark.parametrize(
        ("unfit", "text"),
        [
            (SHORT_OF_CPU, "lacks free cpu"),
            (SHORT_OF_GPU, "lacks free GPUs"),
            (TAINTED, "has a taint that it does not tolerate"),
            (Unfit(UnfitReason.RESERVED), "is reserved for other tasks"),
            (
                Unfit(UnfitReason.REFUSED_BY_PLUGIN, plugin="mine", detail="no {room}"),
                "is refused by plugin mine: no {room}",
            ),
        ],
    )
    def test_its_text(self, unfit: Unfit, text: str) -> None:
        assert unfit.text == text

    @pytest.mark.parametrize("reason", UnfitReason)
    def test_every_reason_has_a_text_of_its_own(self, reason: UnfitReason) -> None:
        # What a queue may not take is told in the detail alone, which names queue and amount.
        texts = Counter(
            Unfit(each, plugin="p", detail=each.value if each in OF_QUEUES else "d").text
            for each in UnfitReason
        )
        detail = reason.value if reason in OF_QUEUES else "d"
        assert texts[Unfit(reason, plugin="p", detail=detail).text] == 1

    @given(unfits)
    def test_any_detail_can_be_told(self, unfit: Unfit) -> None:
        tells_detail = unfit.reason in (
            UnfitReason.INSUFFICIENT_RESOURCE,
            UnfitReason.REFUSED_BY_PLUGIN,
        )
        assert not tells_detail or unfit.text.endswith(unfit.detail)
        if unfit.reason is UnfitReason.REFUSED_BY_PLUGIN:
            assert unfit.plugin in unfit.text

    @given(unfits, unfits)
    def test_it_is_a_value(self, one: Unfit, other: Unfit) -> None:
        same = (one.reason, one.plugin, one.detail) == (other.reason, other.plugin, other.detail)
        assert (one == other) is same
        assert hash(pickle.loads(pickle.dumps(one))) == hash(one)
        assert pickle.loads(pickle.dumps(one)) == one


class TestNodeTally:
    def test_its_text_is_that_of_the_specification(self) -> None:
        tally = NodeTally(total=5, available=0, unfit={TAINTED: 2, SHORT_OF_CPU: 3})
        expected = "3 lack free cpu, 2 have a taint that it does not tolerate"
        assert tally.unfit_text == expected
        expected = f"0/5 nodes are available: {expected}"
        assert tally.text == expected
        assert str(tally) == expected

    def test_the_most_frequent_comes_first_then_the_alphabet(self) -> None:
        tally = NodeTally(3, 0, {TAINTED: 1, SHORT_OF_GPU: 1, SHORT_OF_CPU: 1})
        assert tally.text == (
            "0/3 nodes are available: 1 has a taint that it does not tolerate, "
            "1 lacks free GPUs, 1 lacks free cpu"
        )

    def test_reasons_that_read_the_same_are_counted_together(self) -> None:
        tally = NodeTally(
            total=5,
            available=0,
            unfit={
                Unfit(UnfitReason.UNTOLERATED_TAINT, plugin="predicates", detail="a"): 1,
                Unfit(UnfitReason.UNTOLERATED_TAINT, plugin="predicates", detail="b"): 2,
                SHORT_OF_CPU: 2,
            },
        )
        assert tally.text == (
            "0/5 nodes are available: 3 have a taint that it does not tolerate, 2 lack free cpu"
        )

    def test_without_refusals_there_is_only_the_count(self) -> None:
        assert NodeTally(total=4, available=4).text == "4/4 nodes are available"
        assert NodeTally(total=0, available=0, unfit={}).text == "0/0 nodes are available"

    @given(tallies)
    def test_it_does_not_depend_on_the_order_of_reasons(self, tally: NodeTally) -> None:
        backwards = NodeTally(
            total=tally.total,
            available=tally.available,
            unfit=dict(reversed(tally.unfit.items())),
        )
        assert backwards == tally
        assert hash(backwards) == hash(tally)
        assert backwards.text == tally.text

    @given(tallies)
    def test_its_text_counts_every_refusal(self, tally: NodeTally) -> None:
        head, _, rest = tally.text.partition(": ")
        assert head == f"{tally.available}/{tally.total} nodes are available"
        counts = [int(part.split(" ", 1)[0]) for part in rest.split(", ")] if rest else []
        assert sum(counts) == sum(tally.unfit.values())
        assert counts == sorted(counts, reverse=True)

    @given(tallies)
    def test_it_is_a_value(self, tally: NodeTally) -> None:
        again = pickle.loads(pickle.dumps(tally))
        assert again == tally
        assert hash(again) == hash(tally)
        assert copy.deepcopy(tally) == tally
        assert again.text == tally.text

    def test_it_is_frozen(self) -> None:
        counts = {SHORT_OF_CPU: 3}
        tally = NodeTally(total=3, available=0, unfit=counts)
        counts[SHORT_OF_CPU] = 4
        assert tally.unfit == {SHORT_OF_CPU: 3}


class TestPendingReason:
    TALLY = NodeTally(total=1, available=0, unfit={SHORT_OF_CPU: 1})

    @pytest.mark.parametrize(
        ("reason", "text"),
        [
            (PendingReason(WhyPending.NOT_REACHED), "NotReached"),
            (PendingReason(WhyPending.JOB_INVALID, detail="too few tasks"), "too few tasks"),
            (
                PendingReason(WhyPending.NO_NODE, TALLY),
                "0/1 nodes are available: 1 lacks free cpu",
            ),
            (
                PendingReason(WhyPending.NO_NODE, TALLY, "the queue has room"),
                "0/1 nodes are available: 1 lacks free cpu; the queue has room",
            ),
            (
                PendingReason(WhyPending.GANG_INCOMPLETE, TALLY, "1 of 2 tasks placed"),
                "1 of 2 tasks placed; 0/1 nodes are available: 1 lacks free cpu",
            ),
        ],
    )
    def test_its_text(self, reason: PendingReason, text: str) -> None:
        assert reason.text == text
        assert str(reason) == text

    def test_it_is_a_value(self) -> None:
        reason = PendingReason(WhyPending.NO_NODE, self.TALLY, "x")
        again = pickle.loads(pickle.dumps(reason))
        assert again == reason
        assert hash(again) == hash(reason)
        assert reason != PendingReason(WhyPending.GANG_INCOMPLETE, self.TALLY, "x")
        assert reason != PendingReason(WhyPending.NO_NODE, None, "x")
        assert reason != PendingReason(WhyPending.NO_NODE, self.TALLY, "y")


def test_a_condition_reads_as_reason_and_message() -> None:
    condition = JobCondition(ConditionReason.NOT_ENOUGH_TASKS, "2 of 3", plugin="gang")
    assert str(condition) == "NotEnoughTasks: 2 of 3"
    assert pickle.loads(pickle.dumps(condition)) == condition
    assert condition != JobCondition(ConditionReason.NOT_ENOUGH_TASKS, "2 of 3", plugin="mine")


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        (
            UnfitReason,
            (
                "InsufficientResource TooManyTasks NodeNotReady NodeNetworkUnavailable "
                "NodeUnschedulable NodeSelectorMismatch HostPortConflict UntoleratedTaint "
                "NodeUnderMemoryPressure NodeUnderDiskPressure NodeUnderPIDPressure "
                "PodAffinityMismatch PodAntiAffinityConflict ExistingPodAntiAffinityConflict "
                "NodeResourceReserved RefusedByPlugin"
            ),
        ),
        (
            WhyPending,
            "NoNode GangIncomplete NotReached QueueOverused JobInvalid QueueUnknown NotConsidered",
        ),
        (ConditionReason, "NotEnoughResources NotEnoughTasks QueueUnknown RefusedByPlugin"),
    ],
)
def test_codes_are_stable(kind: type[Enum], codes: str) -> None:
    """Users keep them in databases: a new one may be added, none may change."""
    assert set(codes.split()) <= {reason.value for reason in kind}
