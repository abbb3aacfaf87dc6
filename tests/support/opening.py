"""Plugins that open an object of a class for every cycle, and how broken ones are caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from batchsched import Arguments
from batchsched.plugin import Plugin, SessionView
from batchsched.testing import LawViolation, check_plugin
from tests.support.hints import WithHints


class OpensA:
    """A plugin that opens an object of a class for every cycle."""

    def __init__(self, kind: Callable[[SessionView], object]) -> None:
        self._kind = kind

    def open(self, view: SessionView, /) -> object:
        return self._kind(view)


class Opened(WithHints):
    def __init__(self, view: SessionView) -> None:
        self.view = view


def violation_of(plugin: Plugin | Callable[[Arguments], Plugin]) -> LawViolation:
    """Return the violation that a broken plugin is caught with, not shrunk."""
    with pytest.raises(LawViolation) as caught:
        check_plugin(plugin, name="broken", max_examples=600, shrink=False)
    violation = caught.value
    assert violation.plugin == "broken"
    assert str(violation).startswith(f"plugin 'broken', {violation.extension_point}: ")
    assert any("Snapshot(" in note for note in violation.__notes__)
    return violation
