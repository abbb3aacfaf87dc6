"""Rankings and orders: the best first, whatever changed since."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from batchsched.placement.score_index import Order, Raw, Scored, ScoreIndex

INDEX = st.integers(0, 9)
SCORE = st.one_of(st.integers(-3, 3), st.sampled_from([0.5, -0.5, 1e-17, -0.0]))
RAW = st.integers(0, 2).map(lambda raw: (raw,))


class Compared(RuleBasedStateMachine):
    """A ranking and an order, and a dict that is sorted each time."""

    grouped = True

    def __init__(self) -> None:
        super().__init__()
        self.ranking = ScoreIndex()
        self.order = Order()
        self.plain: dict[int, tuple[Raw, float]] = {}

    def entries(self, drawn: dict[int, tuple[Raw, float]]) -> list[Scored]:
        return [(i, raw if self.grouped else (), score) for i, (raw, score) in drawn.items()]

    @rule(drawn=st.dictionaries(INDEX, st.tuples(RAW, SCORE), max_size=5))
    def put(self, drawn: dict[int, tuple[Raw, float]]) -> None:
        scored = self.entries(drawn)
        self.ranking.put(scored)
        self.order.put(scored)
        self.plain.update({index: (raw, score) for index, raw, score in scored})

    @rule(indices=st.sets(INDEX, max_size=4))
    def discard(self, indices: set[int]) -> None:
        self.ranking.discard(indices)
        self.order.discard(indices)
        for index in indices:
            self.plain.pop(index, None)

    @rule(drawn=st.dictionaries(INDEX, st.tuples(RAW, SCORE), max_size=8))
    def load(self, drawn: dict[int, tuple[Raw, float]]) -> None:
        scored = self.entries(drawn)
        self.ranking, self.order = ScoreIndex(), Order()
        self.ranking.load(scored)
        self.order.load(scored)
        self.plain = {index: (raw, score) for index, raw, score in scored}

    def groups(self) -> dict[Raw, list[tuple[float, int]]]:
        groups: dict[Raw, list[tuple[float, int]]] = {}
        for index, (raw, score) in self.plain.items():
            groups.setdefault(raw, []).append((-score, index))
        return {raw: sorted(entries) for raw, entries in groups.items()}

    @rule()
    def ask_for_the_best(self) -> None:
        expected = {raw: (-entries[0][0], entries[0][1]) for raw, entries in self.groups().items()}
        if self.grouped:
            tops = self.ranking.tops()
            assert {raw: (score, index) for raw, score, index in tops} == expected
            assert len(tops) == len(expected)
        else:
            assert self.ranking.best() == expected.get(())

    @invariant()
    def the_order_is_the_plain_one(self) -> None:
        assert self.order.indices() == sorted(self.plain)
        groups = [(raw, list(entries)) for raw, entries in self.order.groups()]
        assert dict(groups) == self.groups()
        assert len(groups) == len(self.groups())


class ComparedWithoutGroups(Compared):
    """The same where no scores are normalised."""

    grouped = False


TestTheBestOfEachGroupIsAlwaysTheBest = Compared.TestCase
TestTheBestIsAlwaysTheBest = ComparedWithoutGroups.TestCase
for case in (TestTheBestOfEachGroupIsAlwaysTheBest, TestTheBestIsAlwaysTheBest):
    case.settings = settings(max_examples=120, stateful_step_count=25, deadline=None)
del case


def test_an_empty_ranking_has_no_best() -> None:
    assert ScoreIndex().best() is None
    assert ScoreIndex().tops() == []
    assert Order().groups() == []


def test_among_equals_the_first_in_node_order_is_the_best_whenever_it_came() -> None:
    ranking = ScoreIndex()
    ranking.put([(5, (), 1), (3, (), 1)])
    assert ranking.best() == (1, 3)
    ranking.put([(1, (), 1)])
    assert ranking.best() == (1, 1)
    ranking.discard([1])
    assert ranking.best() == (1, 3)


def test_a_score_that_comes_back_counts_once() -> None:
    ranking = ScoreIndex()
    ranking.put([(1, (), 5), (2, (), 4)])
    assert ranking.best() == (5, 1)
    for score in (3, 5, 3, 5):
        ranking.put([(1, (), score)])
    assert ranking.best() == (5, 1)
    ranking.discard([1])
    assert ranking.best() == (4, 2)
    ranking.discard([2])
    assert ranking.best() is None
