"""Hints on verdicts, from methods that are named like them."""

from __future__ import annotations

from attrs import fields

from batchsched.plugin import EvictionHints

__all__ = ["HINTS", "WithHints", "hints_of"]

HINTS = tuple(field.name for field in fields(EvictionHints))
"""The names of the hints for verdicts."""


def hints_of(opened: object) -> EvictionHints:
    """The hints whose methods an object has."""
    methods = {name: getattr(opened, name, None) for name in HINTS}
    return EvictionHints(**methods)  # type: ignore[arg-type]


class WithHints:
    """What a plugin opens, with hints if it has methods that are named like them."""

    def hints(self) -> EvictionHints:
        return hints_of(self)
