"""The counts of the affinity index: how many there are, and for which nodes that has changed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched.plugin import Watch
from batchsched.state.pod_affinity import ChangeNumber, DomainCount, NetCount

NODES_IN = {"a": [0, 1], "b": [2], "c": [3, 4]}
EVERYWHERE = None


def counts(number: int) -> list[DomainCount]:
    latest = ChangeNumber()
    return [DomainCount("zone", NODES_IN, latest) for _ in range(number)]


class Read:
    """What watches tell of since the last time."""

    def __init__(self, *watches: Watch) -> None:
        self.watches = watches
        self.ends = [watch.changed_since(0)[0] for watch in watches]

    def since(self) -> list[list[int] | None]:
        found: list[list[int] | None] = []
        for i, watch in enumerate(self.watches):
            self.ends[i], nodes = watch.changed_since(self.ends[i])
            found.append(None if nodes is None else sorted(nodes))
        return found


class Told:
    """What a count tells of additions: where it changed, appeared or vanished, and if anywhere."""

    def __init__(self) -> None:
        (self.count,) = counts(1)
        self.read = Read(self.count.changes, *self.count.appearances, self.count.any_appearance)

    def after_adding(self, zone: str, amount: int) -> list[list[int] | None]:
        self.count.add({"zone": zone, "host": "b"}, amount)
        return self.read.since()


def test_a_count_tells_where_it_changed_and_where_it_appeared_or_vanished() -> None:
    told = Told()
    assert told.after_adding("a", 1) == [[0, 1], [0, 1], EVERYWHERE]  # the first anywhere
    assert told.after_adding("b", 2) == [[2], [2], []]
    assert told.after_adding("c", 1) == [[3, 4], [3, 4], []]
    assert told.after_adding("b", -1) == [[2], [], []]
    assert told.after_adding("b", -1) == [[2], [2], []]
    assert told.after_adding("c", -1) == [[3, 4], [3, 4], []]
    assert told.after_adding("a", 3) == [[0, 1], [], []]
    assert told.after_adding("a", -4) == [[0, 1], [0, 1], EVERYWHERE]  # the last anywhere
    assert told.after_adding("c", -5) == [[3, 4], [3, 4], EVERYWHERE]
    assert told.read.since() == [[], [], []]


def test_what_changed_several_times_is_told_at_once() -> None:
    told = Told()
    told.after_adding("a", 1)
    for zone, amount in (("b", 1), ("b", 1), ("c", 1), ("b", -1)):
        told.count.add({"zone": zone}, amount)
    assert told.read.since() == [[2, 3, 4], [2, 3, 4], []]


def test_who_has_read_nothing_yet_may_have_missed_anything() -> None:
    for watch in (counts(1)[0].changes, *counts(1)[0].appearances):
        assert watch.changed_since(0)[1] is EVERYWHERE


def test_counts_are_by_domain_and_nodes_in_none_count_nothing() -> None:
    told = Told()
    told.count.add({"zone": "a"}, 2)
    told.count.add({"zone": "a"}, 3)
    told.count.add({"zone": "b"}, -1)
    ends = told.read.since(), told.read.ends[:]
    told.count.add({"host": "a"}, 7)
    told.count.add({}, 7)
    assert told.read.since() == [[], [], []]
    assert ends[1] == told.read.ends
    assert [told.count.of({"zone": zone}) for zone in "abc"] == [5, -1, 0]
    assert told.count.of({"host": "a"}) == told.count.of({}) == 0
    assert [told.count.is_at({"zone": zone}) for zone in "abc"] == [True, True, False]
    assert not told.count.is_at({"host": "a"})
    told.count.add({"zone": "b"}, 1)
    assert told.count.counts == {"a": 5}
    assert told.count.total == 5


ADDED = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.booleans(), st.booleans()),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(ADDED)
def test_a_net_count_says_what_a_recount_of_those_that_are_no_exceptions_says(
    changes: Sequence[tuple[int, str, bool, bool]],
) -> None:
    """Each task is no exception (0), or one of two kinds; tasks come and go at random."""
    whole, *exceptions = counts(3)
    net = NetCount(whole, exceptions)
    read = Read(*net.appearances, net.any_appearance)
    there: list[tuple[int, str]] = []
    where = set[str]()
    for kind, zone, goes, looks in changes:
        task = (kind, zone)
        sign = -1 if goes and task in there else 1
        (there.append if sign > 0 else there.remove)(task)
        for count in (whole, *exceptions[kind - 1 : kind]) if kind else (whole,):
            count.add({"zone": zone}, sign)
        now = {zone for kind, zone in there if not kind}
        assert [net.is_at({"zone": zone}) for zone in "abc"] == [zone in now for zone in "abc"]
        assert net.is_anywhere is bool(now)
        if looks:
            *told, anywhere = read.since()
            nodes = [node for each in told for node in each or ()]
            assert {node for zone in where ^ now for node in NODES_IN[zone]} <= set(nodes)
            assert anywhere is EVERYWHERE or bool(now) is bool(where)
            where = now


def test_a_net_count_tells_of_nothing_where_only_exceptions_come_and_go() -> None:
    whole, exceptions = counts(2)
    net = NetCount(whole, [exceptions])
    read = Read(*net.appearances, net.any_appearance)
    read.since()
    for count in (whole, exceptions):
        count.add({"zone": "a"}, 1)
    read.since()  # the first may be told of
    for _ in range(3):
        for count in (whole, exceptions):
            count.add({"zone": "a"}, 1)
        assert read.since() == [[], [], []]
    whole.add({"zone": "a"}, 1)
    assert read.since() == [[], [0, 1], EVERYWHERE]
    assert not net.is_at({"host": "a"})


def test_more_exceptions_than_there_are_is_an_error() -> None:
    whole, exceptions = counts(2)
    net = NetCount(whole, [exceptions])
    whole.add({"zone": "a"}, 1)
    exceptions.add({"zone": "a"}, 2)
    with pytest.raises(AssertionError, match="more exceptions than there are in all"):
        net.is_at({"zone": "a"})
