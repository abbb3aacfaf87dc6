"""`help` tells what the fields of a class mean, and in which units they are."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

from attrs import frozen

import batchsched
from batchsched import (
    CycleResult,
    JobInfo,
    Resource,
    Scheduler,
    Snapshot,
)
from batchsched.kubernetes import Dump
from batchsched.live import Cluster, TaskFound
from batchsched.model.texts import describe


def test_help_shows_fields_with_units_and_meanings() -> None:
    text = pydoc.render_doc(JobInfo, renderer=pydoc.plaintext)
    for line in (
        "Fields:",
        "    priority: int",
        "        Jobs with a higher priority come first.",
        "        The estimate for tasks without their own `TaskInfo.estimate`, in seconds.",
    ):
        assert line in text
    assert "Thousandths of a cpu." in (inspect.getdoc(Resource) or "")
    assert "binds: " in (inspect.getdoc(CycleResult) or "")
    assert "notices: " in (inspect.getdoc(Dump) or "")
    assert "Bound, Running or Releasing." in (inspect.getdoc(TaskFound) or "")
    assert "_index" not in (inspect.getdoc(Dump) or "")


def test_all_classes_with_fields_that_are_exported_anywhere_are_described() -> None:
    exported = dict(_exported())
    assert {"batchsched.tools.RunComparison", "batchsched.live.Correction"} <= exported.keys()
    told = {name: each.__doc__ or "" for name, each in exported.items()}
    assert [name for name, text in told.items() if "Fields:" not in text] == []
    assert [name for name, text in told.items() if text.count("Fields:") > 1] == []


def _exported() -> Iterator[tuple[str, type]]:
    names = {each.name for each in walk_packages(batchsched.__path__, "batchsched.")}
    # These need NumPy and matplotlib, and have no classes with fields.
    names -= {"batchsched.fast", "batchsched.simulation.plots"}
    for module in map(import_module, ["batchsched", *sorted(names)]):
        for name in getattr(module, "__all__", ()):
            each = getattr(module, name)
            if isinstance(each, type) and _has_told_fields(each):
                yield f"{module.__name__}.{name}", each


def _has_told_fields(given: type) -> bool:
    return bool(getattr(given, "__attrs_attrs__", ())) and '    """' in inspect.getsource(given)


def test_a_class_without_a_source_keeps_its_docstring() -> None:
    made = type("Made", (), {"__doc__": "Something.", "__attrs_attrs__": ()})
    describe(made)
    assert made.__doc__ == "Something."


def test_fields_of_bases_are_shown_too() -> None:
    @frozen
    class Base:
        """Something."""

        size: int
        """How large, in bytes."""

    class Derived(Base):
        pass

    describe(Derived)
    assert Derived.__doc__ == "\n\nFields:\n    size: int\n        How large, in bytes."


def test_schedulers_are_shown_with_what_they_are_configured_with() -> None:
    scheduler = Scheduler()
    told = str(scheduler.config)
    assert told.startswith("allocate, backfill; priority, gang, conformance, protection | drf, ")
    assert repr(scheduler) == f"<Scheduler: {told}>"
    attached = repr(scheduler.attach(Cluster(Snapshot())))
    assert told in attached
    assert "0 nodes" in attached
