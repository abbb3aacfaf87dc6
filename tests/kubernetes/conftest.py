import importlib.util
import sys
from pathlib import Path

# Tests are imported without their folder on the path (import mode importlib), so the module
# of objects that they share is put in place by hand.
_specification = importlib.util.spec_from_file_location(
    "kubernetes_test_objects", Path(__file__).parent / "objects.py"
)
assert _specification is not None
assert _specification.loader is not None
_module = importlib.util.module_from_spec(_specification)
sys.modules["kubernetes_test_objects"] = _module
_specification.loader.exec_module(_module)
