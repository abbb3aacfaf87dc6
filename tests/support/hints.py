"""Hints on verdicts, from methods that are named like them."""

from __future__ import annotations

from batchsched.plugin import EvictionHints
from batchsched.session.plugins import HINTS

__all__ = ["WithHints", "hints_of"]


def hints_of(opened: object) -> EvictionHints:
    """The hints whose methods an object has."""
    methods = {name: getattr(opened, name, None) for name in HINTS}
    return EvictionHints(**methods)  # type: ignore[arg-type]


class WithHints:
    """What a plugin opens, with hints if it has methods that are named like them."""

    def hints(self) -> EvictionHints:
        return hints_of(self)
