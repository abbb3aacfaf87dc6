"""What `open` may return, and what a registry makes of a class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest
from attrs import fields, frozen
from tests.support.books import opened
from tests.support.clusters import bound, cluster, job, node

from batchsched import (
    Arguments,
    ConfigError,
    PluginError,
    Scheduler,
    SchedulerConfig,
    default_registry,
)
from batchsched.plugin import ExtensionPoints, JobState, SessionView, TaskState, Verdict
from batchsched.session.points import POINTS, points_of


class ShortNamesFirst:
    def open(self, _view: SessionView, /) -> ExtensionPoints:
        return ExtensionPoints(job_order_key=_length_of_name)


def _length_of_name(job: JobState) -> int:
    return len(job.info.name)


@frozen
class WithArguments:
    least: int

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> WithArguments:
        return cls(arguments.integer("least", default=3))

    def open(self, _view: SessionView, /) -> ExtensionPoints:
        return ExtensionPoints(job_order_key=_length_of_name)


class OnlyAdds:
    points: ClassVar[ExtensionPoints] = ExtensionPoints(on_allocate=lambda _task: None)


def test_extension_points_are_those_that_there_are() -> None:
    assert {field.name for field in fields(ExtensionPoints)} == set(POINTS)


def test_only_points_that_are_given_count() -> None:
    opened = ShortNamesFirst().open(None)  # type: ignore[arg-type]
    assert points_of("mine", opened) == {"job_order_key"}


def test_none_at_all_is_an_error() -> None:
    with pytest.raises(PluginError, match="expected an object with extension points"):
        points_of("mine", ExtensionPoints())


def test_what_is_counted_must_be_taken_off_again() -> None:
    with pytest.raises(PluginError, match="expected on_allocate and on_deallocate"):
        points_of("mine", OnlyAdds.points)


class Shielding:
    """It has a method that is named like a hint."""

    def preemptable(self, _claimant: TaskState, candidates: Sequence[TaskState]) -> list[Verdict]:
        return [Verdict.PROTECTED] * len(candidates)

    def shielded(self, _claimant: TaskState, candidates: Sequence[TaskState]) -> list[bool]:
        return [True] * len(candidates)


def test_a_hint_that_is_not_returned_is_an_error() -> None:
    with pytest.raises(PluginError, match="'shielded' is a hint, not an extension point; return"):
        points_of("mine", Shielding())


@pytest.mark.parametrize("answer", [None, {}, {"shielded": None}])
def test_hints_of_another_kind_are_an_error(answer: object) -> None:
    own = ExtensionPoints(hints=lambda: answer)  # type: ignore[arg-type, return-value]
    with pytest.raises(PluginError, match="'own', hints: expected EvictionHints, got"):
        opened(cluster([node("n1", "1C1G")]), [("own", own)])


def test_what_raises_for_its_hints_is_named() -> None:
    own = ExtensionPoints(hints=lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(PluginError, match="'own', hints: ZeroDivisionError"):
        opened(cluster([node("n1", "1C1G")]), [("own", own)])


@pytest.mark.parametrize("named", ["long", "short"])
def test_a_class_that_needs_no_arguments_is_a_factory(named: str) -> None:
    registry = default_registry()
    registry.register_plugin("short-names-first", ShortNamesFirst)
    config = SchedulerConfig.from_mapping(
        {
            "actions": "allocate",
            "tiers": [{"plugins": [{"name": "short-names-first"}, {"name": "predicates"}]}],
        },
        registry=registry,
    )
    snapshot = cluster([node("n1", "1C1G")], job("long-name", "1C1G"), job("short", "1C1G"))
    names = [uid.split("-")[0] for uid in bound(Scheduler(config, registry).schedule(snapshot))]
    assert names == ["short"]


def test_a_class_that_needs_no_arguments_takes_none() -> None:
    registry = default_registry()
    registry.register_plugin("short-names-first", ShortNamesFirst)
    plugin = {"name": "short-names-first", "arguments": {"least": 3}}
    with pytest.raises(ConfigError, match="least"):
        SchedulerConfig.from_mapping(
            {"actions": "allocate", "tiers": [{"plugins": [plugin]}]}, registry=registry
        )


def test_a_class_with_from_arguments_is_made_of_its_arguments() -> None:
    registry = default_registry()
    registry.register_plugin("with-arguments", WithArguments)
    factory = registry.plugin_factory("with-arguments")
    assert factory is not None
    assert factory(Arguments({"least": 4})) == WithArguments(4)
