"""Puts the modules that these tests share within reach."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(_TESTS / "core"), str(_TESTS / "scenarios")]
