"""Calls functions of plugins, combines their answers, and attributes errors to plugins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Concatenate, ParamSpec, TypeVar, cast

from batchsched.errors import PluginError, plugin_error
from batchsched.model.validation.values import shown
from batchsched.plugin.verdicts import Vote
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState, TaskState

__all__ = [
    "Named",
    "asked_first",
    "by_tier",
    "combine_votes",
    "guarded",
    "listed",
    "takes_need",
    "voting",
    "without_need",
]

FunctionT = TypeVar("FunctionT")
ItemT = TypeVar("ItemT")
AskedT = ParamSpec("AskedT")
AnswerT = TypeVar("AnswerT")

Named = tuple[str, FunctionT]
"""A plugin's name and one of its functions."""


def listed(
    name: str, point: str, function: Callable[[], Iterable[object]], kind: type[ItemT]
) -> list[ItemT]:
    """Return what a plugin lists at an extension point; all items must be of one type."""
    try:
        given = list(function())
    except Exception as error:
        raise plugin_error(name, point, error) from error
    items: list[ItemT] = []
    for item in given:
        if not isinstance(item, kind):
            raise PluginError(name, point, f"expected a {kind.__name__}, got {shown(item)}")
        items.append(item)
    return items


def by_tier(
    functions: Iterable[tuple[str, int, FunctionT]],
) -> list[list[Named[FunctionT]]]:
    """Return functions by tier, in order."""
    tiers: dict[int, list[Named[FunctionT]]] = {}
    for name, tier, function in functions:
        tiers.setdefault(tier, []).append((name, function))
    return [tiers[tier] for tier in sorted(tiers)]


def combine_votes(
    tiers: list[list[Named[Callable[[JobState], Vote | bool]]]], job: JobState, point: str
) -> bool:
    """Return the combined vote: tier by tier, a rejection decides, or else a permission."""
    for tier in tiers:
        permitted = False
        for name, function in tier:
            try:
                vote = function(job)
            except Exception as error:
                raise plugin_error(name, point, error) from error
            if vote is True or vote is Vote.PERMIT:
                permitted = True
            elif vote is False or vote is Vote.REJECT:
                return False
            elif vote is not Vote.ABSTAIN:
                raise PluginError(name, point, (f"expected a Vote or a bool, got {shown(vote)}"))
        if permitted:
            return True
    return True


def voting(
    tiers: list[list[Named[Callable[[JobState], Vote | bool]]]], point: str
) -> Callable[[JobState], bool]:
    """Return a function like `combine_votes` that is faster if only one plugin votes."""
    voters = [voter for tier in tiers for voter in tier]
    if len(voters) != 1:
        return lambda job: combine_votes(tiers, job, point)
    ((name, function),) = voters

    def ask(job: JobState) -> bool:
        # Called several times for each task; nearly all votes take this path.
        try:
            vote = function(job)
        except Exception as error:
            raise plugin_error(name, point, error) from error
        if vote is True or vote is False:
            return vote
        return combine_votes([[(name, lambda _job: vote)]], job, point)

    return ask


def asked_first(
    functions: list[Named[Callable[AskedT, AnswerT]]],
    point: str,
    check: Callable[Concatenate[str, AnswerT, AskedT], None],
) -> Callable[AskedT, AnswerT] | None:
    """Return the first function, with errors attributed to its plugin; None if there is none.

    `check` raises an error for an answer that makes no sense; it gets the plugin's name, the
    answer, and what the function got.
    """
    if not functions:
        return None
    name, function = functions[0]

    def ask(*arguments: AskedT.args, **named: AskedT.kwargs) -> AnswerT:
        try:
            answer = function(*arguments, **named)
        except Exception as error:
            raise plugin_error(name, point, error) from error
        check(name, answer, *arguments, **named)
        return answer

    return ask


def guarded(
    name: str, point: str, function: Callable[[TaskState], None]
) -> Callable[[TaskState], None]:
    """Return the function with errors attributed to its plugin."""

    def tell(task: TaskState) -> None:
        try:
            function(task)
        except Exception as error:
            raise plugin_error(name, point, error) from error

    return tell


def takes_need(function: object) -> bool:
    """Return whether a `queue_order_key` takes a need in addition to the queue."""
    try:
        parameters = signature(cast("Callable[[], object]", function)).parameters.values()
    except (TypeError, ValueError):  # built-in functions may have no signature
        return False
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in positional and p.default is Parameter.empty]
    return len(required) > 1


def without_need(
    function: Callable[[QueueState], object],
) -> Callable[[QueueState, Need | None], object]:
    """Return a `queue_order_key` that takes a need and ignores it."""
    return lambda queue, _need: function(queue)
