"""Runs in which property tests draw few examples."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import settings


def limit_examples(items: Iterable[pytest.Item], most: int) -> None:
    """Let no property test and no state machine draw more examples, however many it asks for."""
    for item in items:
        test = getattr(item, "obj", None)
        test = getattr(test, "__func__", test)  # of a method, its function
        asked = getattr(test, "_hypothesis_internal_use_settings", None)
        if asked is not None and asked.max_examples > most:
            few = settings(asked, max_examples=most)
            test._hypothesis_internal_use_settings = few  # type: ignore[union-attr]
        machine = getattr(item, "cls", None)
        if item.name == "runTest" and isinstance(getattr(machine, "settings", None), settings):
            machine.settings = settings(machine.settings, max_examples=most)
