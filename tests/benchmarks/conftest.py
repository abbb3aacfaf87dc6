import sys
from pathlib import Path

# The benchmarks are a package beside the sources, not a part of the library.
sys.path.insert(0, str(Path(__file__).parents[2]))
