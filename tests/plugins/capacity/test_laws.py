"""The laws that every plugin keeps, as asked of capacity."""

from __future__ import annotations

from batchsched.plugins.capacity import CapacityPlugin
from batchsched.testing import check_plugin


def test_the_plugin_keeps_all_laws() -> None:
    check_plugin(CapacityPlugin.from_arguments, name="own-capacity", max_examples=20)
