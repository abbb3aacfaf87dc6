"""Import a target by name, and collect its answers on snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import isclass, signature
from typing import Protocol, cast

from batchsched.config.registry import PluginFactory
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import shown
from batchsched.scheduler import Scheduler
from batchsched.testing.laws.asking import Answers, Kind, ask_all
from batchsched.testing.laws.trial import Subject

__all__ = ["RESULT", "Asked", "answers_of", "find_target", "name_of_target"]

Asked = Mapping[str, str]
"""Question to answer, both as strings that are the same in each process."""

RESULT = "the result"
"""The question to schedulers."""

_KEYS = (Kind.JOB_KEY, Kind.QUEUE_KEY, Kind.TASK_KEY)
_NAME = "under-test"


def name_of_target(target: object) -> str:
    """Return the name, ``"module:name"``, by which another process finds a class or function.

    Raises:
        ValueError: it cannot be imported by that name.
    """
    if isinstance(target, str):
        name = target
    else:
        qualified = getattr(target, "__qualname__", None)
        if qualified is None:
            message = (
                f"expected a class or a function of a module, or its name, got {shown(target)}"
            )
            raise ValueError(message)
        name = f"{getattr(target, '__module__', '')}:{qualified}"
    try:
        found = find_target(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(_not_found(name, str(error))) from None
    if not isinstance(target, str) and found is not target:
        raise ValueError(_not_found(name, "the name refers to something else"))
    if name.startswith("__main__:"):
        raise ValueError(_not_found(name, "__main__ is another module there"))
    return name


def _not_found(name: str, why: str) -> str:
    return (
        f"{name!r} cannot be imported in another process: {why}; give a class or "
        "function of a module that can be imported, or its name: 'module:name'"
    )


def find_target(name: str) -> object:
    """Return the object with a name, ``"module:name"``.

    Raises:
        ImportError: there is no such module.
        AttributeError: there is nothing of this name in it.
        ValueError: the name does not have this form.
    """
    module, separator, path = name.partition(":")
    if not (module and separator and path):
        raise ValueError("expected 'module:name'")
    found: object = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def answers_of(name: str, snapshots: Sequence[Snapshot]) -> list[Asked]:
    """Return all answers on each snapshot: those of a plugin, and the result of a cycle with it.

    For a function without parameters that returns a scheduler, only the result.
    """
    target = find_target(name)
    if not isclass(target) and not signature(cast("Callable[..., object]", target)).parameters:
        made = cast("Callable[[], object]", target)()
        if isinstance(made, Scheduler):
            return [{RESULT: _as_text(made, snapshot)} for snapshot in snapshots]
    subject = Subject(cast("PluginFactory", target), _NAME, {}, None)
    return [_of_plugin(subject, snapshot) for snapshot in snapshots]


def _of_plugin(subject: Subject, snapshot: Snapshot) -> Asked:
    told = _texts(ask_all(subject.open(snapshot)))
    told[RESULT] = _as_text(subject.fresh_scheduler(lambda _: None), snapshot)
    return told


def _as_text(scheduler: Scheduler, snapshot: Snapshot) -> str:
    result = scheduler.schedule(snapshot)
    return json.dumps(result.to_dict(), sort_keys=True)


def _texts(answers: Answers) -> dict[str, str]:
    told: dict[str, str] = {}
    for question, answer in answers.items():
        which = f"[{question.number}]" if question.number else ""
        if question.kind not in _KEYS and question.point != "claimant_key":
            told[f"{question.point}{which} of {question.about}"] = repr(answer)
    # Keys may be of any type, so only their order is compared.
    for kind in _KEYS:
        keyed = [(q, cast("_Ordered", answer)) for q, answer in answers.items() if q.kind is kind]
        for question, key in keyed:
            place = sum(other < key for _, other in keyed)
            told[f"{question.point} of {question.about}"] = f"number {place + 1} of {len(keyed)}"
    return told


class _Ordered(Protocol):
    def __lt__(self, other: object, /) -> bool: ...
