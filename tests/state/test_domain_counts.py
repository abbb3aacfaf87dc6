"""The counts of the affinity index: how many there are, and for which nodes that has changed."""

from __future__ import annotations

from batchsched.state.domain_counts import DomainCount

NODES_IN = {"a": [0, 1], "b": [2], "c": [3, 4]}
EVERYWHERE = None


class Told:
    """What a count tells of each addition: where it changed, and where it appeared or vanished."""

    def __init__(self) -> None:
        self.count = DomainCount("zone", NODES_IN)
        self.ends = [0, 0]

    def after_adding(self, zone: str, amount: int) -> list[list[int] | None]:
        self.count.add({"zone": zone, "host": "b"}, amount)
        return self.since()

    def since(self) -> list[list[int] | None]:
        found: list[list[int] | None] = []
        for i, watch in enumerate((self.count.changes, self.count.appearances)):
            self.ends[i], nodes = watch.changed_since(self.ends[i])
            found.append(None if nodes is None else sorted(nodes))
        return found


def test_a_count_tells_where_it_changed_and_where_it_appeared_or_vanished() -> None:
    told = Told()
    assert told.after_adding("a", 1) == [[0, 1], EVERYWHERE]  # the first anywhere
    assert told.after_adding("b", 2) == [[2], [2]]
    assert told.after_adding("c", 1) == [[3, 4], [3, 4]]
    assert told.after_adding("b", -1) == [[2], []]
    assert told.after_adding("b", -1) == [[2], [2]]
    assert told.after_adding("c", -1) == [[3, 4], [3, 4]]
    assert told.after_adding("a", 3) == [[0, 1], []]
    assert told.after_adding("a", -4) == [[0, 1], EVERYWHERE]  # the last anywhere
    assert told.after_adding("c", -5) == [[3, 4], EVERYWHERE]
    assert told.since() == [[], []]


def test_what_changed_several_times_is_told_at_once() -> None:
    told = Told()
    told.after_adding("a", 1)
    for zone, amount in (("b", 1), ("b", 1), ("c", 1), ("b", -1)):
        told.count.add({"zone": zone}, amount)
    assert told.since() == [[2, 3, 4], [2, 3, 4]]


def test_counts_are_by_domain_and_nodes_in_none_count_nothing() -> None:
    told = Told()
    told.count.add({"zone": "a"}, 2)
    told.count.add({"zone": "a"}, 3)
    told.count.add({"zone": "b"}, -1)
    ends = told.since(), told.ends[:]
    told.count.add({"host": "a"}, 7)
    told.count.add({}, 7)
    assert told.since() == [[], []]
    assert ends[1] == told.ends
    assert [told.count.of({"zone": zone}) for zone in "abc"] == [5, -1, 0]
    assert told.count.of({"host": "a"}) == told.count.of({}) == 0
    told.count.add({"zone": "b"}, 1)
    assert told.count.counts == {"a": 5}
