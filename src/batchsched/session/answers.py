"""Checks what plugins answer, and attributes answers that make no sense to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from numbers import Integral, Real
from typing import cast

from batchsched.errors import PluginError
from batchsched.model.reasons import JobCondition, Unfit
from batchsched.model.result import QueueOutcome
from batchsched.model.validation.values import shown
from batchsched.plugin.claims import Claim
from batchsched.state.needs import Need
from batchsched.state.records import QueueState

__all__ = [
    "check_bool",
    "check_claim",
    "check_condition",
    "check_outcomes",
    "check_past_use",
    "check_refusal",
    "check_share",
    "check_weights",
    "no_order_key",
]

_OF_A_CLAIM = ("at_most", "changes", "nodes", "short_of_limits", "victims", "why_not")
_SHARE = ("what the queue deserves", "what it has")


def no_order_key(name: str, point: str, key: float) -> PluginError:
    """Return an error for a key that is not a number, which has no place in an order."""
    return _wrong(name, point, "a key that can be ordered", key)


def check_condition(name: str, point: str, condition: object) -> None:
    """Raise an error unless the reason to refuse a job is a `JobCondition`."""
    if not isinstance(condition, JobCondition):
        raise _wrong(name, point, "a JobCondition", condition)


def check_refusal(name: str, refusal: object) -> None:
    """Raise an error unless the refusal of a queue's limits is an `Unfit`."""
    if not isinstance(refusal, Unfit):
        raise _wrong(name, "allocatable", "an Unfit or None", refusal)


def check_claim(name: str, claim: Claim | Unfit) -> None:
    """Raise an error unless an answer is a claim or the reason why there is none."""
    if not isinstance(claim, Unfit) and not all(hasattr(claim, each) for each in _OF_A_CLAIM):
        raise _wrong(name, "claim", "a Claim or Unfit", claim)


def check_outcomes(name: str, outcomes: object) -> None:
    """Raise an error unless outcomes are a mapping of names to outcomes. O(queues)."""
    if not isinstance(outcomes, Mapping):
        expected = "a mapping of the names of queues to QueueOutcomes"
        raise _wrong(name, "queue_outcomes", expected, outcomes)
    given = cast("Mapping[object, object]", outcomes)
    if {*map(type, given)} <= {str} and {*map(type, given.values())} <= {QueueOutcome}:
        return  # the usual case, with thousands of queues
    for queue, outcome in given.items():
        if not isinstance(queue, str):
            raise _wrong(name, "queue_outcomes", "the name of a queue", queue)
        if not isinstance(outcome, QueueOutcome):
            expected = f"a QueueOutcome for queue {queue!r}"
            raise _wrong(name, "queue_outcomes", expected, outcome)


def check_share(name: str, share: object) -> None:
    """Raise an error unless a queue's share is two vectors."""
    parts = _items(share)
    if parts is None or len(parts) != len(_SHARE):
        expected = f"{' and '.join(_SHARE)}, or None"
        raise _wrong(name, "queue_share", expected, share)


def check_weights(
    name: str, weights: object, siblings: Sequence[QueueState], _dimension: int
) -> None:
    """Raise an error unless weights are one integer, 0 or more, for each sibling. O(siblings)."""
    items = _items(weights)
    if (
        items is None
        or len(items) != len(siblings)
        or any(not isinstance(weight, Integral) or weight < 0 for weight in items)
    ):
        expected = f"{len(siblings)} integers, 0 or more, one for each queue"
        raise _wrong(name, "surplus_weights", expected, weights)


def check_past_use(name: str, key: object, _queue: QueueState, _need: Need | None) -> None:
    """Raise an error unless past use is a number, which may be infinite."""
    if not isinstance(key, Real) or isnan(key):
        raise _wrong(name, "past_use_key", "a number", key)


def check_bool(name: str, point: str, answer: object) -> None:
    """Raise an error unless an answer is True or False, or equal to one, as of numpy."""
    if answer not in (True, False):
        raise _wrong(name, point, "a bool", answer)


def _wrong(name: str, point: str, expected: str, answer: object) -> PluginError:
    """Return an error for an answer that is not what an extension point expects."""
    return PluginError(name, point, f"expected {expected}, got {shown(answer)}")


def _items(answer: object) -> Sequence[object] | None:
    return cast("Sequence[object]", answer) if isinstance(answer, Sequence) else None
