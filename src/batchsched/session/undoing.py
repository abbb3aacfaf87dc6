"""Places what a job needs once more, and undoes choices that leave a later task without a place."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import islice

from batchsched.errors import plugin_error
from batchsched.model.immutable import FrozenMap
from batchsched.plugin.candidates import SecondTry
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.state.needs import Need
from batchsched.state.records import Fit, NodeState, TaskState

MOST_CHOICES = 8
"""How many choices of a plugin are tried for one task on one node."""

_Option = tuple[Fit, NodeState, Mapping[str, Hashable]]


def second_try(session: Session, need: Need) -> tuple[str, SecondTry] | None:
    """Return how a need that found no place is tried once more, and the plugin that says so."""
    for name, function in session.plugins.second_try:
        try:
            found = function(need)
        except Exception as error:
            raise plugin_error(name, "second_try", error) from error
        if found is not None:
            return name, found
    return None


def place_with_undoing(
    session: Session,
    statement: Statement,
    name: str,
    plan: SecondTry,
    fits: Sequence[Fit] = (Fit.NOW, Fit.LATER),
) -> bool:
    """Place tasks depth first; return whether all found a place, on nodes of the statement's set.

    A task that finds none undoes the choice before it, up to `SecondTry.undo` times. If not all
    did, the statement still has what was placed.
    """
    tasks = plan.tasks
    within = statement.within
    among = None if within is None else within.slots

    def options_of(task: TaskState) -> Iterator[_Option]:
        return _options(session, task, statement.kept_for(task), name, plan, fits, among)

    options = [options_of(tasks[0])]
    marks: list[int] = []
    undone = 0
    while options:
        option = next(options[-1], None)
        if option is None:
            options.pop()
            if not options:
                return False
            statement.rollback(marks.pop())
            undone += 1
            if undone >= plan.undo:
                return False
            continue
        fit, node, kept = option
        task = tasks[len(options) - 1]
        marks.append(len(statement))
        if fit is Fit.NOW:
            statement.allocate(task, node, kept=kept)
        else:
            statement.pipeline(task, node, kept=kept)
        if len(options) == len(tasks):
            return True
        options.append(options_of(tasks[len(options)]))
    return False


def _options(
    session: Session,
    task: TaskState,
    kept: Mapping[str, Hashable],
    name: str,
    plan: SecondTry,
    fits: Sequence[Fit],
    among: Collection[int] | None,
) -> Iterator[_Option]:
    """Yield where a task may go, and with which choice: now, then later, the best node first.

    `kept`: what plugins must choose for it.
    """
    for fit in fits:
        feasible = session.placement.feasible(task, among)
        nodes = [node for node in feasible if session.fits(task, node, fit, kept=kept)]
        while nodes:
            node = session.state.evaluator.best(task, nodes)
            nodes.remove(node)
            try:
                choices = list(islice(plan.choices(task, node, fit), MOST_CHOICES))
            except Exception as error:
                raise plugin_error(name, "second_try", error) from error
            if name in kept:
                choices = [kept[name]]
            for choice in choices or [None]:
                yield fit, node, kept if choice is None else FrozenMap({**kept, name: choice})
