"""What queues hold and have kept: as counted anew, after any number of changes."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.reference.queue_shares import DemandedTree

from batchsched import Queue
from batchsched.plugin.queues import QueueTree
from batchsched.plugins.capacity.accounts import ROOT, Departure, QueueAccounts, fullness
from batchsched.testing import queue_trees

DIMENSIONS = ("cpu", "memory")

Holdings = dict[str, tuple[int, int]]


@st.composite
def trees_with_holdings(draw: DrawFn) -> tuple[tuple[Queue, ...], Holdings, tuple[int, int]]:
    queues = draw(queue_trees(max_queues=8, in_whole_units=False))
    inner = {queue.parent for queue in queues}
    amounts = st.tuples(st.integers(0, 9), st.integers(0, 9))
    held = {queue.name: draw(amounts) for queue in queues if queue.name not in inner}
    return queues, held, draw(st.tuples(st.integers(0, 40), st.integers(0, 40)))


def accounts_of(queues: tuple[Queue, ...], held: Holdings, total: tuple[int, int]) -> QueueAccounts:
    tree = QueueTree(queues)
    vectors = {tree.position[name]: vector for name, vector in held.items()}
    return QueueAccounts(tree, DIMENSIONS, total=total, held=vectors, requests=vectors)


def counted(queues: tuple[Queue, ...], held: Holdings) -> list[DemandedTree]:
    return [
        DemandedTree(
            queues,
            dimension,
            requests={},
            allocated={name: vector[d] for name, vector in held.items()},
        )
        for d, dimension in enumerate(DIMENSIONS)
    ]


CHANGES = st.lists(
    st.tuples(st.integers(0, 7), st.tuples(st.integers(0, 5), st.integers(0, 5)), st.booleans()),
    max_size=6,
)


def changed(held: Holdings, who: int, amounts: tuple[int, int], *, less: bool) -> Holdings:
    name = sorted(held)[who % len(held)]
    sign = -1 if less else 1
    now = tuple(max(0, h + sign * a) for h, a in zip(held[name], amounts, strict=True))
    return {**held, name: (now[0], now[1])}


@given(trees_with_holdings(), CHANGES)
def test_what_is_held_and_kept_is_what_counting_anew_gives(
    world: tuple[tuple[Queue, ...], Holdings, tuple[int, int]],
    changes: list[tuple[int, tuple[int, int], bool]],
) -> None:
    queues, held, total = world
    accounts = accounts_of(queues, held, total)
    tree = accounts.tree
    for who, amounts, less in changes:
        after = changed(held, who, amounts, less=less)
        name = sorted(held)[who % len(held)]
        by = tuple(abs(a - b) for a, b in zip(after[name], held[name], strict=True))
        accounts.charge(tree.position[name], by, -1 if less else 1)
        held = after
    for d, exact in enumerate(counted(queues, held)):
        assert accounts.held[d] == [exact.allocated(name) for name in tree.names]
        assert accounts.kept[d] == [exact.hold(name) for name in tree.names]


@given(
    trees_with_holdings(),
    st.integers(0, 7),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    CHANGES,
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_what_is_too_much_is_found_as_if_it_were_held(
    world: tuple[tuple[Queue, ...], Holdings, tuple[int, int]],
    who: int,
    request: tuple[int, int],
    leaving: list[tuple[int, tuple[int, int], bool]],
    lost: tuple[int, int],
) -> None:
    """Also where the ceiling falls with the tasks that leave, as it does on lost devices."""
    queues, held, total = world
    accounts = accounts_of(queues, held, total)
    tree = accounts.tree
    leaf = sorted(held)[who % len(held)]
    needed = [d for d, amount in enumerate(request) if amount]
    gone: list[tuple[int, tuple[int, int]]] = []
    then = held
    for other, amounts, _ in leaving:
        after = changed(then, other, amounts, less=True)
        name = sorted(held)[other % len(held)]
        by = (then[name][0] - after[name][0], then[name][1] - after[name][1])
        gone.append((tree.position[name], by))
        then = after
    ceiling = (total[0] - lost[0], total[1] - lost[1]) if gone else total
    then = changed(then, who, request, less=False)
    departure = Departure(gone, ceiling) if gone else None
    found = [*accounts.excesses(tree.position[leaf], request, needed, departure)]
    expected: list[tuple[int, int, int, int]] = []
    for d in needed:
        before, after_all = counted(queues, held)[d], counted(queues, then)[d]
        for name in after_all.path(leaf):
            now, limit = after_all.hold(name), after_all.limit(name)
            if limit is None or now <= limit:
                continue
            # What alone exceeds a limit does so whatever leaves.
            if now > before.hold(name) or request[d] > limit:
                expected.append((tree.position[name], d, now, limit))
        tops = [name for name in tree.names if before.queues[name].parent is None]
        now, earlier = sum(map(after_all.hold, tops)), sum(map(before.hold, tops))
        if now - ceiling[d] > max(0, earlier - total[d]):
            expected.append((ROOT, d, now, ceiling[d]))
    assert found == expected
    # Asking changes nothing.
    for d, exact in enumerate(counted(queues, held)):
        assert accounts.kept[d] == [exact.hold(name) for name in tree.names]


@given(trees_with_holdings(), st.integers(0, 7), st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_what_is_let_in_never_breaks_the_limits_nor_the_total(
    world: tuple[tuple[Queue, ...], Holdings, tuple[int, int]],
    who: int,
    request: tuple[int, int],
) -> None:
    queues, held, total = world
    nothing: Holdings = dict.fromkeys(held, (0, 0))
    accounts = accounts_of(queues, nothing, total)
    tree = accounts.tree
    begun = [sum(accounts.kept[d][top] for top in tree.tops) for d in range(2)]
    for _ in range(4):
        name = sorted(held)[who % len(held)]
        leaf = tree.position[name]
        needed = [d for d, amount in enumerate(request) if amount]
        if next(accounts.excesses(leaf, request, needed), None) is None:
            accounts.charge(leaf, request, 1)
        who += 1
    for d in range(2):
        assert sum(accounts.kept[d][top] for top in tree.tops) <= max(total[d], begun[d])
        for kept, limit in zip(accounts.kept[d], accounts.limit[d], strict=True):
            assert limit is None or kept <= limit


class TestFullness:
    """How queues are compared: exactly, and also where a share is 0."""

    def test_quotients_that_are_one_float_are_told_apart(self) -> None:
        huge = 1 << 60
        emptier, fuller = (huge, huge + 2), (huge, huge + 1)
        assert emptier[0] / emptier[1] == fuller[0] / fuller[1]
        assert fullness([(*emptier, 0)]) < fullness([(*fuller, 0)])

    def test_equal_quotients_are_equal(self) -> None:
        assert fullness([(1, 3, 0)]) == fullness([(2, 6, 0)])
        assert fullness([(0, 0, 5)]) == fullness([(0, 7, 5)])

    def test_what_is_held_of_no_share_comes_after_all_and_is_compared_by_the_total(self) -> None:
        assert fullness([(99, 1, 0)]) < fullness([(1, 0, 8)]) < fullness([(2, 0, 8)])
        assert fullness([(2, 0, 8)]) < fullness([(1, 0, 2)])  # in another dimension
        assert fullness([(1, 0, 0)]) == fullness([(1, 0, 1)])


AMOUNT = st.integers(0, 9)


@given(
    st.lists(st.tuples(AMOUNT, AMOUNT, AMOUNT), min_size=1),
)
def test_fullness_orders_like_rational_numbers(given_: list[tuple[int, int, int]]) -> None:
    def rank(one: tuple[int, int, int]) -> tuple[bool, Fraction]:
        held, share, total = one
        if held and not share:
            return True, Fraction(held, max(total, 1))
        return False, Fraction(held, share) if held else Fraction()

    assert sorted(given_, key=lambda one: fullness([one])) == sorted(given_, key=rank)


@given(st.lists(st.tuples(AMOUNT, AMOUNT, AMOUNT), min_size=1))
def test_the_fullest_dimension_counts(parts: list[tuple[int, int, int]]) -> None:
    assert fullness(parts) == max(fullness([part]) for part in parts)
