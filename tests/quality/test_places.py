"""What one more part, decision, extension point or shortcut touches does not grow."""

from __future__ import annotations

from statistics import median

import pytest
from tests.support.places import places

MOST = {"part of a snapshot": 3.5, "decision": 3.5, "extension point": 4, "shortcut": 3}


@pytest.mark.parametrize("kind", MOST)
def test_a_thing_of_each_kind_is_named_in_few_modules(kind: str) -> None:
    modules = places()[kind]
    assert median(map(len, modules.values())) <= MOST[kind], modules
    assert all(modules.values()), "a name that no module has: is it counted?"
