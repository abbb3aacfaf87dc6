"""Imports every module of the package before doctests are collected from its files.

pytest reads a module file for its doctests without entering it among the imported modules; one
that was not imported before would then exist twice, with classes that are not each other's.
"""

import importlib
import pkgutil
from contextlib import suppress

import batchsched

for _found in pkgutil.walk_packages(batchsched.__path__, "batchsched."):
    with suppress(ImportError):  # what needs an extra that is not installed
        importlib.import_module(_found.name)
