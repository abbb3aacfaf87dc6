"""RecentlyUsed forgets what a plain list of uses would forget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from batchsched.state.memory import RecentlyUsed


@given(st.integers(1, 4), st.lists(st.integers(0, 6), max_size=30))
def test_what_was_used_last_stays(most: int, asked: list[int]) -> None:
    kept = RecentlyUsed[int, str](most=most)
    expected: list[int] = []
    for key in asked:
        assert kept.use(key) == (str(key) if key in expected else None)
        if key in expected:
            expected.remove(key)
        else:
            kept.keep(key, str(key))
        expected = [*expected, key][-most:]
        assert list(kept) == expected
