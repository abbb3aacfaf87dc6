"""What each status implies: the specification's section 1 and the counts of section 6."""

from __future__ import annotations

import copy
import pickle

import pytest

from batchsched import JobPhase, TaskStatus

OCCUPYING = {"Allocated", "Binding", "Bound", "Running"}


def names(attribute: str) -> set[str]:
    return {status.value for status in TaskStatus if getattr(status, attribute)}


def test_the_statuses_are_those_of_the_specification() -> None:
    assert [status.value for status in TaskStatus] == [
        "Pending",
        "Allocated",
        "Pipelined",
        "Conditional",
        "Reserved",
        "Binding",
        "Bound",
        "Running",
        "Releasing",
        "Succeeded",
        "Failed",
        "Unknown",
    ]


@pytest.mark.parametrize(
    ("attribute", "statuses"),
    [
        ("occupies", OCCUPYING),
        ("holds", OCCUPYING | {"Releasing", "Unknown"}),
        ("charged", OCCUPYING | {"Pipelined", "Conditional"}),
        ("ready", OCCUPYING | {"Succeeded"}),
        ("waiting", {"Pipelined"}),
        (
            "conditionally_ready",
            OCCUPYING | {"Succeeded", "Pipelined", "Conditional", "Reserved"},
        ),
        (
            "valid",
            OCCUPYING | {"Succeeded", "Pipelined", "Pending", "Conditional", "Reserved"},
        ),
        (
            "in_snapshot",
            {status.value for status in TaskStatus} - {"Allocated", "Conditional"},
        ),
        ("to_place", {"Pending", "Reserved", "Pipelined"}),
        ("ended", {"Succeeded", "Failed"}),
    ],
)
def test_what_a_status_implies(attribute: str, statuses: set[str]) -> None:
    assert names(attribute) == statuses


@pytest.mark.parametrize("status", TaskStatus)
def test_counts_are_numbers_and_the_rest_is_true_or_false(status: TaskStatus) -> None:
    for count in (status.ready, status.waiting, status.conditionally_ready, status.valid):
        assert type(count) is int
        assert count in (0, 1)
    flags = (status.occupies, status.holds, status.charged, status.in_snapshot)
    for flag in (*flags, status.to_place, status.ended):
        assert type(flag) is bool


@pytest.mark.parametrize("status", TaskStatus)
def test_valid_is_ready_or_waiting_or_could_still_be(status: TaskStatus) -> None:
    could_be = status.value in ("Pending", "Conditional", "Reserved")
    assert status.valid == status.ready + status.waiting + could_be


def test_the_index_is_the_position() -> None:
    assert [status.index for status in TaskStatus] == list(range(len(TaskStatus)))


@pytest.mark.parametrize("status", TaskStatus)
def test_a_status_is_one_object_that_can_be_found_pickled_and_copied(status: TaskStatus) -> None:
    assert TaskStatus(status.value) is status
    assert TaskStatus[status.name] is status
    assert status.name == status.value.upper()
    assert pickle.loads(pickle.dumps(status)) is status
    assert copy.deepcopy(status) is status


def test_an_unknown_status_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="'running' is not a valid TaskStatus"):
        TaskStatus("running")


def test_the_phases_are_those_of_volcanos_pod_groups() -> None:
    assert [phase.value for phase in JobPhase] == ["Pending", "Running", "Unknown", "Completed"]
