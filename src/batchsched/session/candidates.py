"""Sets of nodes that plugins offer: in which order a need is tried in them, and with which parts.

A set is one trial: all tasks of the need are placed in it, in one statement, or none. Sets are
tried for each stage in turn; stages in which no node differs from the one before are passed over.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import NamedTuple, Protocol, TypeVar, cast

from attrs import evolve

from batchsched.causes import UnfitReason
from batchsched.errors import PluginError, plugin_error
from batchsched.model.cluster import TaskStatus
from batchsched.model.immutable import EMPTY, FrozenMap
from batchsched.model.reasons import Unfit
from batchsched.model.texts import counted
from batchsched.model.validation.values import shown
from batchsched.plugin.candidates import NodeSet, Part, SecondTry
from batchsched.plugin.session_view import Besides
from batchsched.session.outlook import accepts_without
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import need_of
from batchsched.session.victims import EvictionScope
from batchsched.state.groups import Counting, GroupState, JobGroups
from batchsched.state.memory import DependsOn
from batchsched.state.needs import (
    Need,
    Stage,
    TasksByGroup,
    TasksLeft,
    need_of_job,
    need_of_task,
    need_of_tasks,
)
from batchsched.state.records import Fit, JobState, NodeState, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import Vector, plus, total_of

MOST_SETS = 64
"""The most sets in which one need is tried in one stage."""


class Books(Protocol):
    """Records where tasks are placed in a trial, and undoes it, as a statement does."""

    within: NodeSet | None
    """The only nodes on which tasks are placed from now on."""
    kept: Mapping[str, Mapping[str, Hashable]]
    """What plugins must choose for tasks, by UID."""

    def __len__(self) -> int:
        """Return the number of operations."""
        ...

    def rollback(self, length: int) -> None:
        """Undo all operations after the first ones."""
        ...


S = TypeVar("S", bound=Books)
PlaceIn = Callable[[S, TaskState, "Stage | None"], bool]
"""Places a task, on nodes of the set in which the books are, in a stage (None: as without sets);
returns whether there was a node."""


Place = PlaceIn[Statement]


class Trial(NamedTuple):
    """A set of nodes in which a need is to be tried."""

    need: Need
    nodes: NodeSet
    stage: Stage


def need_in_sets(
    session: Session, job: JobState, left: TasksLeft, stage: Stage = Stage.NOW
) -> Need | None:
    """Return what a job needs next if plugins determine in which nodes; None: they do not.

    `stage`: the first in which it is to be tried.
    """
    need = need_of(session, job, left) if left and _may_offer(session, job) else None
    return need if need is not None and _are_offered(session, need, stage) else None


def _may_offer(session: Session, job: JobState) -> bool:
    """Return whether plugins may offer sets of nodes for what a job needs. O(its tasks)."""
    plugins = session.plugins
    return bool(plugins.candidate_nodes) and (
        Shortcut.ATTEMPTS in session.plain or plugins.may_offer_sets(job)
    )


def offers_sets(session: Session, need: Need, stage: Stage) -> bool:
    """Return whether plugins determine in which nodes a need is to be tried in a stage."""
    return _may_offer(session, need.job) and _are_offered(session, need, stage)


def _are_offered(session: Session, need: Need, stage: Stage) -> bool:
    asked = need.at(stage)
    sets = _sets_of(session, asked, whole_cluster(session))
    if sets is None:
        return False
    session.sets_asked = asked, sets
    return True


def may_go_anywhere(session: Session, job: JobState) -> bool:
    """Return whether no plugin determines in which nodes tasks of a job must be placed."""
    if not _may_offer(session, job):
        return True
    pending = session.in_task_order(job.having(TaskStatus.PENDING))
    tasks = tuple([task for task in pending if not task.is_best_effort] or pending)
    if not tasks:
        return True
    need = need_of_job(job, tasks) or need_of_tasks(job, tasks)
    return _sets_of(session, need.at(Stage.EVICTING), whole_cluster(session)) is None


def refusal_beside_its_job(session: Session, task: TaskState) -> Unfit | None:
    """Return why a task may not be where it is, beside the others of its job that have places.

    That is so where a plugin offers an `Unfit` in place of sets for the task, or for a group around
    it. It is asked for the stage `EMPTY`: neither room nor who holds it may matter.
    """
    job = task.job
    if job is None or not _may_offer(session, job):
        return None
    around: list[GroupState | None] = [None]
    if job.groups is not None and job.info.groups:
        around += [g for g in job.groups.leaf_of(task).path() if g is not job.groups.root]
    need = need_of_task(task)
    for group in around:
        asked = evolve(need, group=group, stage=Stage.EMPTY)
        refusal = _sets_of(session, asked, whole_cluster(session))
        if isinstance(refusal, Unfit):
            return refusal
    return None


def first_set(session: Session, need: Need, stage: Stage) -> Trial | None:
    """Return the first set in which a need is to be tried in a stage; None: there is none."""
    return next(_sets_for(session, need.at(stage)), None)


def try_in_turn(
    session: Session,
    statement: Statement,
    need: Need,
    place: Callable[[Statement, TaskState], bool],
    stages: Iterable[Stage] = (Stage.NOW,),
    left: Collection[TaskState] = (),
) -> Trial | None:
    """Place all tasks of a need in the first set where that is possible; return that, or None.

    If there is none, the statement is as it was. See `sets_in_turn`.
    """
    begin = len(statement)
    for trial in sets_in_turn(session, need, left, stages):
        is_done = try_in(session, statement, trial, lambda on, task, _: place(on, task))
        statement.within = None
        if is_done:
            return trial
        statement.rollback(begin)
    return None


def sets_in_turn(
    session: Session, need: Need, left: Collection[TaskState], stages: Iterable[Stage]
) -> Iterator[Trial]:
    """Yield the sets in which a need is to be tried, in order.

    Args:
        session: the session.
        need: the need.
        left: what the job has left to place, from which tasks that fit on no node are replaced.
        stages: the stages, in order.

    """
    stages = tuple(stages)
    for stage in stages:
        if (
            stage is not stages[0]
            and stage in (Stage.LATER, Stage.CONDITIONALLY)
            and not _may_differ(session)
        ):
            continue
        asked = need.at(stage)
        yield from _sets_for(session, asked)
        # Of what was just tried in vain, a task may fit on no node at all.
        others = _with_others(session, asked, left)
        if others is not asked:
            yield from _sets_for(session, others)


def needs_in_turn(
    session: Session,
    need: Need,
    left: Collection[TaskState],
    finds_place: Callable[[Need], bool],
    counting: Counting = Counting.HOPED,
) -> Iterator[Need]:
    """Yield a need, and, each time that it found no place, what the job needs instead.

    Where a job does not need all of its groups, one that finds no place is left out, and others are
    needed in its place. If each finds one alone, the largest is left out.

    Args:
        session: the session.
        need: the need.
        left: the tasks that the job has to place.
        finds_place: tries a need, undoes it, and returns whether it found a place.
        counting: which tasks of the groups count as placed.

    """
    yield need
    groups = need.job.groups
    if groups is None or (groups.needs_all and not groups.is_satisfied(Counting.READY)):
        return
    while True:
        instead = [
            (group, other, rest)
            for group in _groups_of(need, groups)
            if (rest := [task for task in left if group not in groups.leaf_of(task).path()])
            and (other := need_of(session, need.job, TasksByGroup(groups, rest), counting))
        ]
        if not instead:
            return
        chosen = max(instead, key=lambda each: _tasks_in(each[0], need))
        if len(instead) > 1:
            alone = (each for each in instead if not finds_place(_part_in(each[0], need)))
            chosen = next(alone, chosen)
        _, need, left = chosen
        yield need


def try_what_is_needed(
    session: Session,
    statement: Statement,
    job: JobState,
    tasks: Collection[TaskState],
    attempt: Callable[[Need], bool],
    counting: Counting = Counting.HOPED,
) -> Need | None:
    """Try what a job needs, and, each time that it fails, what it needs instead.

    Args:
        session: the session.
        statement: what `attempt` records in; it is as it was where that fails.
        job: the job.
        tasks: the tasks that it has to place.
        attempt: tries a need; returns whether it succeeded.
        counting: which tasks of its groups count as placed.

    Returns:
        What succeeded; None: nothing did.

    """
    need = need_of(session, job, tasks, counting)
    if need is None:
        return None
    begin = len(statement)

    def finds_place(part: Need) -> bool:
        found = attempt(part)
        statement.rollback(begin)
        return found

    for asked in needs_in_turn(session, need, tasks, finds_place, counting):
        if attempt(asked):
            return asked
        statement.rollback(begin)
    return None


def try_in_turn_what_is_needed(
    session: Session,
    statement: Statement,
    job: JobState,
    tasks: Collection[TaskState],
    place: Callable[[Statement, TaskState], bool],
    stages: Iterable[Stage] = (Stage.NOW,),
) -> Need | None:
    """Place what a job needs, or what it needs instead, in one set; return that, or None."""
    return try_what_is_needed(
        session,
        statement,
        job,
        tasks,
        lambda need: try_in_turn(session, statement, need, place, stages) is not None,
    )


def _groups_of(need: Need, groups: JobGroups) -> Sequence[GroupState]:
    """Return the groups of the tasks of a need, the lowest first."""
    found: dict[GroupState, int] = {}
    for task in need.tasks:
        path = [group for group in groups.leaf_of(task).path() if group.parent is not None]
        found.update((group, -depth) for depth, group in enumerate(reversed(path)))
    return sorted(found, key=found.__getitem__)


def _part_in(group: GroupState, need: Need) -> Need:
    """Return the part of a need that is of a group."""
    leaves = {leaf.name for leaf in group.leaves()}
    tasks = tuple([task for task in need.tasks if task.info.group in leaves])
    return evolve(need_of_tasks(need.job, tasks), stage=need.stage)


def _tasks_in(group: GroupState, need: Need) -> int:
    return len(_part_in(group, need).tasks)


def _sets_for(session: Session, need: Need) -> Iterator[Trial]:
    stage = need.stage
    assert stage is not None
    asked, session.sets_asked = session.sets_asked, None
    if asked is not None and asked[0].stage is need.stage and asked[0].tasks is need.tasks:
        sets: Iterable[NodeSet] | Unfit | None = asked[1]
    else:
        sets = _sets_of(session, need, whole_cluster(session))
    if sets is None:
        sets = (whole_cluster(session),)  # such as for a wish, which takes no right away
    if isinstance(sets, Unfit):
        return iter(())
    # Mostly the first one does: an iterator that is dropped costs less than a generator.
    return map(Trial, repeat(need), islice(sets, MOST_SETS), repeat(stage))


MayGo = Callable[[TaskState, Sequence[TaskState]], Sequence[TaskState]]
"""Returns those of some tasks that may leave for a claimant, as far as each alone says."""


def count_beside(
    session: Session,
    claimant: TaskState,
    scope: EvictionScope,
    *,
    cures: bool = False,
    may_go: MayGo | None = None,
) -> None:
    """Let counts leave aside what a claimant may evict, in the stage `EVICTING`, from now on.

    Args:
        session: the session.
        claimant: the first of the tasks that would be placed.
        scope: who may leave at all.
        cures: whether nodes that refuse it count if they will accept it once others have left.
        may_go: which of those; None: all of them.

    """
    judges = session.plugins.judges[scope.point]

    def others_on(node: NodeState) -> Sequence[TaskState]:
        found = scope.candidates(claimant, session.running_on(node), judges)
        return found if may_go is None or not found else may_go(claimant, found)

    count_as_gone(session, others_on, cures=cures)


def count_as_gone(
    session: Session,
    others_on: Callable[[NodeState], Collection[TaskState]],
    *,
    cures: bool = False,
) -> None:
    """Let counts leave some tasks on nodes aside, in the stage `EVICTING`, from now on.

    `cures`: whether nodes that refuse a task count if they will accept it once these have left.
    """
    zero = session.dimensions.zero

    def has(node: NodeState, stage: Stage) -> Vector:
        if stage is Stage.EMPTY:
            return session.state.node_room.to_reserve(node)
        held = total_of([other.resreq for other in others_on(node)], zero)
        return plus(node.room(Fit.LATER), held)

    def leaving(node: NodeState) -> int:
        releasing = [t for t in node.tasks.values() if t.status is TaskStatus.RELEASING]
        return len(others_on(node)) + len(releasing)

    def accepts(task: TaskState, node: NodeState) -> bool:
        return not node.is_closed and accepts_without(session, task, node, others_on(node))

    besides = Besides(has, leaving, accepts) if cures else Besides(has)
    session.state.view.count_beside(besides)


def sets_to_evict_in(
    session: Session, task: TaskState, scope: EvictionScope, *, cures: bool, may_go: MayGo
) -> Iterator[NodeSet | None]:
    """Yield the sets in which others are to be evicted for a single task; None: anywhere."""
    if task.job is not None and _may_offer(session, task.job):
        count_beside(session, task, scope, cures=cures, may_go=may_go)
        need = evolve(need_of_task(task), stage=Stage.EVICTING)
        sets = _sets_of(session, need, whole_cluster(session))
        if sets is not None:
            if not isinstance(sets, Unfit):
                yield from islice(sets, MOST_SETS)
            return
    yield None


def _with_others(session: Session, need: Need, left: Collection[TaskState]) -> Need:
    """Return a need in which others of the same groups replace tasks that fit on no node."""
    fits: dict[int, bool] = {}
    stage = need.stage
    assert stage is not None

    def fits_somewhere(task: TaskState) -> bool:
        kind = session.placement.kind(task)
        known = None if kind is None else fits.get(kind)
        if known is None:
            known = any(session.placement.best(task, fit) is not None for fit in stage.ladder)
            if kind is not None:
                fits[kind] = known
        return known

    if not left or stage in _NOT_NOW or all(map(fits_somewhere, need.tasks)):
        return need
    chosen = [task for task in need.tasks if fits_somewhere(task)]
    others = (task for task in left if task not in need.tasks and fits_somewhere(task))
    lacking = Counter(task.info.group for task in need.tasks)
    lacking.subtract(Counter(task.info.group for task in chosen))
    for task in others:
        if lacking[task.info.group] > 0:
            lacking[task.info.group] -= 1
            chosen.append(task)
    if len(chosen) < len(need.tasks):
        return need
    tasks = tuple(session.in_task_order(chosen))
    return need_of_tasks(need.job, tasks).at(stage)


_NOT_NOW = (Stage.EVICTING, Stage.EMPTY)
"""The stages in which it does not matter whether a task fits now."""


def why_no_set(session: Session, need: Need) -> Unfit | None:
    """Return why a need is in none of the sets that plugins offer, as it is now.

    None: none offers any, or the whole cluster is among them.
    """
    asked, everywhere = need.at(None), whole_cluster(session)
    sets = _sets_of(session, asked, everywhere)
    if sets is None or isinstance(sets, Unfit):
        return sets
    tried = list(islice(sets, MOST_SETS))
    if everywhere in tried:
        return None
    part = part_without_set(session, asked)
    if part is not None:
        return part[1]
    # It was asked already, so it raises nothing and does not answer otherwise.
    plugin = next(
        name
        for name, offer in session.plugins.candidate_nodes
        if offer(asked, everywhere) is not None
    )
    detail = f"plugin {plugin} offers no set of nodes for it"
    if tried and parts_by_group(session, asked, None):
        detail = "not all of its groups have room at once, each on nodes that plugin "
        detail += f"{plugin} allows"
    elif tried:
        count, needed = counted(len(tried), "set"), len(need.tasks)
        detail = f"in none of {count} of plugin {plugin} is room for {needed} together"
        counts = session.state.view.counts(asked, Stage.NOW)
        if counts is not None:
            detail += f" (most: {min(needed - 1, max(map(counts.of, tried)))})"
    return Unfit(UnfitReason.NO_DOMAIN, plugin=plugin, detail=detail)


def part_without_set(session: Session, need: Need) -> tuple[Need, Unfit] | None:
    """Return the need of a group of a job for which there is no set even alone, and why.

    None: there is no such group, as far as plugins tell.
    """
    for part in parts_by_group(session, need, None):
        told = _sets_of(session, part, whole_cluster(session))
        refusal = told if isinstance(told, Unfit) else None
        no_domain = None if refusal is None else refusal.no_domain
        if no_domain is not None and (
            no_domain.home is not None or no_domain.best < no_domain.needed
        ):
            assert refusal is not None
            return part, refusal
        below = part_without_set(session, part)
        if below is not None:
            return below
    return None


def whole_cluster(session: Session) -> NodeSet:
    """Return all nodes, the same object as long as they are the same."""
    known = session.remembered_nodes
    if known is None:
        known = session.remembered_nodes = NodeSet("the cluster", session.nodes)
    return known


def _may_differ(session: Session) -> bool:
    """Return whether there is any node on which more may fit later than now. O(nodes changed)."""
    having = session.ledger.jobs_having
    if any(having[status.index] for status in (TaskStatus.RELEASING, *_PROMISED)):
        return True

    def look_again(diverging: set[int], stale: set[int] | None) -> None:
        assert stale is not None
        diverging -= stale
        diverging.update(slot for slot in stale if session.slots[slot].divergence_count)

    def look() -> set[int]:
        return {node.slot for node in session.nodes if node.divergence_count}

    return bool(session.remembered.recall("diverging", look, look_again, DependsOn.NODES))


_PROMISED = (TaskStatus.PIPELINED, TaskStatus.CONDITIONAL)


def _sets_of(
    session: Session, need: Need, within: NodeSet, after: int = 0
) -> Iterable[NodeSet] | Unfit | None:
    """Return the sets of all plugins from one on: those of each within those of the one before."""
    functions = session.plugins.candidate_nodes
    if after == len(functions):
        return None
    name, function = functions[after]
    try:
        sets = cast("object", function(need, within))
    except Exception as error:
        raise plugin_error(name, "candidate_nodes", error) from error
    if sets is None:
        return _sets_of(session, need, within, after + 1)
    if isinstance(sets, Unfit):
        return sets
    if not isinstance(sets, Iterable):
        problem = f"expected NodeSets, an Unfit or None, got {shown(sets)}"
        raise PluginError(name, "candidate_nodes", problem)
    given = cast("Iterable[object]", sets)
    return _within_each(session, need, name, given, within, after + 1)


def _within_each(
    session: Session,
    need: Need,
    name: str,
    sets: Iterable[object],
    within: NodeSet,
    after: int,
) -> Iterator[NodeSet]:
    given = iter(sets)
    while True:
        try:
            each = next(given, None)
        except Exception as error:
            raise plugin_error(name, "candidate_nodes", error) from error
        if each is None:
            return
        if not isinstance(each, NodeSet):
            raise PluginError(name, "candidate_nodes", f"expected a NodeSet, got {shown(each)}")
        if within is not whole_cluster(session) and not each.slots <= within.slots:
            problem = f"expected nodes of {within!r} alone, got {each!r}"
            raise PluginError(name, "candidate_nodes", problem)
        inner = _sets_of(session, need, each, after)
        if inner is None:
            yield each
        elif not isinstance(inner, Unfit):
            yield from inner


# Trials


def try_in_order(
    tasks: Iterable[TaskState], place: Callable[[TaskState], bool], *, all_of_them: bool = False
) -> bool:
    """Place tasks one after the other; those that must be near others again after each placement.

    Each may have a place of its own, which may refuse it until another task has started. It ends
    with the first that has none if `all_of_them` must; returns whether they have.
    """
    waiting, aside, failed = deque(tasks), list[TaskState](), False
    while waiting:
        task = waiting.popleft()
        if place(task):
            if aside:
                waiting.extendleft(reversed(aside))
                aside.clear()
        elif task.must_be_near:
            aside.append(task)
        elif all_of_them:
            return False
        else:
            failed = True
    return not (aside or failed)


def try_in(
    session: Session,
    statement: S,
    trial: Trial,
    place: PlaceIn[S],
    again: Callable[[S, Sequence[TaskState], Stage], bool] | None = None,
) -> bool:
    """Place all tasks of a need in a set; return whether that was possible.

    If not, the statement still has what was placed. Parts are placed in order. Without them, groups
    of the job that need tasks get sets of their own within the set, and are tried in reverse if
    that failed. `again` places once more, from the beginning, tasks that did not all find a place.
    """
    need, within, stage = trial

    def place_part(part: Part) -> bool:
        if part.need is not None:
            asked = part.need.at(stage)
            return _try_group(session, statement, asked, part.nodes, stage, place, again)
        statement.kept = {
            task.uid: each for task, each in zip(part.tasks, part.choices, strict=False)
        }
        is_placed = place_all(part.tasks, part.nodes)
        statement.kept = EMPTY
        return is_placed

    def place_all(tasks: Sequence[TaskState], nodes: NodeSet) -> bool:
        begin = len(statement)
        statement.within = nodes
        if try_in_order(tasks, lambda task: place(statement, task, stage), all_of_them=True):
            return True
        if again is None:
            return False
        statement.rollback(begin)
        return again(statement, tasks, stage)

    if within.parts:
        if not _place_parts(statement, within.parts, place_part):
            return False
        placed = {task.uid for part in within.parts for task in part.tasks}
        return place_all([task for task in need.tasks if task.uid not in placed], within)
    groups = () if need.near else parts_by_group(session, need, stage)
    if not groups:
        return place_all(need.tasks, within)
    begin = len(statement)
    for order in (groups, groups[::-1]) if len(groups) > 1 else (groups,):
        if all(_try_group(session, statement, each, within, stage, place, again) for each in order):
            return True
        statement.rollback(begin)
    return False


def _place_parts(statement: Books, parts: Iterable[Part], place: Callable[[Part], bool]) -> bool:
    """Place parts in order; those with tasks that must be near others, once others are placed."""
    waiting, aside = deque(parts), list[Part]()
    while waiting:
        part, begin = waiting.popleft(), len(statement)
        if place(part):
            waiting.extendleft(reversed(aside))
            aside.clear()
        elif any(task.must_be_near for task in part.tasks):
            statement.rollback(begin)
            aside.append(part)
        else:
            return False
    return not aside


def _try_group(
    session: Session,
    statement: S,
    need: Need,
    within: NodeSet,
    stage: Stage,
    place: PlaceIn[S],
    again: Callable[[S, Sequence[TaskState], Stage], bool] | None,
) -> bool:
    sets = _sets_of(session, need, within)
    if isinstance(sets, Unfit):
        return False
    begin = len(statement)
    for each in [within] if sets is None else islice(sets, MOST_SETS):
        if try_in(session, statement, Trial(need, each, stage), place, again):
            return True
        statement.rollback(begin)
    return False


def parts_by_group(session: Session, need: Need, stage: Stage | None) -> Sequence[Need]:
    """Return the needs of the groups directly in that of a need, in the order of plugins."""
    groups = need.job.groups
    if groups is None or not need.job.info.groups:
        return ()
    above = groups.root if need.group is None else need.group
    if not above.children:
        return ()
    tasks: dict[GroupState, list[TaskState]] = {}
    for task in need.tasks:
        path = list(groups.leaf_of(task).path())
        tasks.setdefault(path[path.index(above) - 1], []).append(task)
    needs = [
        evolve(need_of_tasks(need.job, tuple(tasks[group])), group=group, stage=stage)
        for group in sorted(tasks, key=lambda group: group.place)
    ]
    return sorted(needs, key=session.plugins.group_order_key)


# What a job needs is placed once more, undoing choices that leave a later task without a place.


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
