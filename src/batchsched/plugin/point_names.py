"""The names of the extension points, and the detection of those that an object has."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from typing import cast

from attrs import fields

from batchsched.errors import PluginError
from batchsched.model.texts import similar_name
from batchsched.plugin.hints import EvictionHints

__all__ = ["HINTS", "POINTS", "points_of"]

POINTS = (
    "job_order_key",
    "queue_order_key",
    "need_order_key",
    "task_order_key",
    "predicates",
    "node_scores",
    "node_order_on_resource",
    "preemptable",
    "reclaimable",
    "revocable",
    "overused",
    "queue_share",
    "verdict_reasons",
    "job_valid",
    "job_ready",
    "job_pipelined",
    "job_condition_ready",
    "on_allocate",
    "on_deallocate",
    "close",
    "allocatable",
    "claim",
    "queue_outcomes",
    "jobs_admitted",
    "surplus_weights",
    "past_use_key",
    "hints",
)
"""The names of the extension points, which are the names of their methods."""


HINTS: tuple[str, ...] = tuple(field.name for field in fields(EvictionHints))
"""The names of the hints for verdicts."""


def points_of(plugin: str, opened: object) -> frozenset[str]:
    """Return the extension points of the object that a plugin's `open` returned.

    Raises:
        PluginError: it has none, has a method whose name is similar to one, has `on_allocate`
            without `on_deallocate`, or has methods named like hints and no method `hints`.

    """
    kind = opened.__class__
    misspelt = _misspelt(cast("Hashable", kind))
    if misspelt is not None:
        method, point = misspelt
        problem = f"unknown extension point {method!r}; did you mean {point!r}?"
        raise PluginError(plugin, "open", problem)
    points = frozenset(point for point in POINTS if getattr(opened, point, None) is not None)
    if not points:
        known = ", ".join(POINTS)
        problem = f"expected an object with extension points ({known}), got {kind.__name__}"
        raise PluginError(plugin, "open", problem)
    if "on_allocate" in points and "on_deallocate" not in points:
        problem = (
            f"expected on_allocate and on_deallocate, got only on_allocate in {kind.__name__}; "
            "what a placement adds must be subtracted when the placement is undone"
        )
        raise PluginError(plugin, "open", problem)
    if "hints" not in points:
        lost = next((name for name in HINTS if hasattr(kind, name)), None)
        if lost is not None:
            problem = f"{lost!r} is a hint, not an extension point; return it from hints()"
            raise PluginError(plugin, "open", problem)
    return points


@lru_cache(maxsize=256)
def _misspelt(kind: Hashable) -> tuple[str, str] | None:
    """Return a method whose name is similar to an extension point, and the extension point."""
    for method in dir(kind):
        if method.startswith("_") or method in POINTS or not callable(getattr(kind, method)):
            continue
        similar = similar_name(method, POINTS, similarity=0.85)
        if similar is not None:
            return method, similar
    return None
