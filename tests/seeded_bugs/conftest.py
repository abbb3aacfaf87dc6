"""Puts the modules that these tests share within reach."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]
