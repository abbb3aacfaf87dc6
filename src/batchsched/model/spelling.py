"""Suggestions for names that are not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean", "similar_name"]


def similar_name(name: str, known: Iterable[str], *, similarity: float = 0.6) -> str | None:
    """Return the known name that is most similar to a name, if one is. O(names x length).

    Args:
        name: what was written.
        known: what might have been meant; among equally similar ones, the order counts.
        similarity: how similar it must be at least, from 0 (anything) to 1 (the same).

    >>> similar_name("unreddy", ["unready", "evictBackfill"])
    'unready'

    """
    close = get_close_matches(name, list(known), n=1, cutoff=similarity)
    return close[0] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question whether a similar name was meant, or nothing if there is none.

    >>> did_you_mean("unreddy", ["unready", "evictBackfill"])
    "did you mean 'unready'?"
    """
    similar = similar_name(name, known)
    return "" if similar is None else f"did you mean {similar!r}?"
