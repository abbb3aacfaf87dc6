"""Attempts: what a job needs next is tried as a whole, in a statement, and kept or rolled back.

`Attempts.serve` tries the goals of a turn, one after the other, each in a statement of its own.
What is tried differs with what the job is:

=============== =================================== ======================================
..              a job without groups                a job with groups
=============== =================================== ======================================
goal            all tasks left, until it is enough  the tasks that it needs next, all of them
no place        the next task in order              another task of the same group
not near yet    set aside                           set aside, and replaced only at the end
out of tasks    is kept if it is enough             a new goal, without those that had no place
nothing kept    --                                  part of what it needs may be held or reserved
=============== =================================== ======================================

There is one way to try (`Session.attempt`): a statement is begun, something is attempted in it, and
the action says whether what was placed is kept; else it is as if it had not been. What is attempted
here is one of three things: each task of a goal, wherever it finds a place; all tasks of a need in
a set of nodes, of which the whole cluster may be one; or all of them once more, undoing choices of
plugins.

*Not near yet* is a task that must be near others, while no node accepts it: it is tried again as
soon as another task of the turn was placed, which may be the one that it waits for.

That is the definition. Attempts that are known to fail (`batchsched.session.failures`) are
not made: the turn then has no goals, and everything is recorded as if they had been made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from attrs import define, field

from batchsched.model.cluster import TaskStatus
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.candidates import NodeSet, SecondTry
from batchsched.session.candidates import (
    MayGo,
    Place,
    Trial,
    count_beside,
    first_set,
    may_go_anywhere,
    need_in_sets,
    needs_in_turn,
    offers_sets,
    place_with_undoing,
    second_try,
    sets_in_turn,
    try_in,
    whole_cluster,
)
from batchsched.session.failures import AlikeTasks, FailedTurns
from batchsched.session.outlook import nodes_for
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import (
    Turn,
    may_take,
    may_take_task,
    need_of,
    passed_over,
    record_failed_again,
    record_no_set,
    tasks_to_place,
)
from batchsched.session.victims import EvictionScope
from batchsched.state.groups import Counting, GroupState
from batchsched.state.needs import Need, Stage, TasksByGroup, TasksInOrder, need_of_tasks
from batchsched.state.records import Fit, JobState, NodeState, TaskState
from batchsched.state.vectors import dominant_share

Keeps = Callable[["Statement", "Goal"], bool]
"""Returns whether what was placed for a goal is to be committed."""


class SetRank(NamedTuple):
    """What it costs to place a need in a set of nodes."""

    cost: tuple[tuple[float, ...], int]
    """The smallest is the best."""
    is_least: bool
    """Whether nothing can cost less."""


_what_nodes_take = attrgetter(
    *("namespace", "labels", "node_selector", "node_affinity", "tolerations"),
    *("pod_affinity", "pod_anti_affinity", "host_ports", "claims"),
)
"""What decides, besides amounts, which nodes take a task, and which others beside it."""

# Members of enums are slow to find.
_RESERVED = TaskStatus.RESERVED
_WITHOUT_PLACE = (TaskStatus.PENDING, TaskStatus.RESERVED)

Reserve = Callable[[TaskState], bool]
"""Reserves a node for a task; returns whether there was one."""


class _Cheapest:
    """The set in which a need costs least, of those that were tried, if the action ranks them."""

    def __init__(self, rank: Callable[[Statement], SetRank] | None, keeps: Keeps) -> None:
        self._rank, self._keeps = rank, keeps
        self._cost: tuple[tuple[float, ...], int] | None = None
        self.trial: Trial | None = None
        """The best, which is to be tried again; None: there is none."""

    def keeps(self, trial: Trial, statement: Statement, goal: Goal) -> bool:
        """Return whether what was placed in a set is kept at once: if nothing can cost less."""
        if not self._keeps(statement, goal):
            return False
        if self._rank is None:
            return True
        rank = self._rank(statement)
        if self._cost is not None and self._cost <= rank.cost:
            return False
        self.trial, self._cost = trial, rank.cost
        return rank.is_least


def retries_largest_first(
    arguments: Arguments, choices: Sequence[str] = ("none", "largest-first")
) -> bool:
    """Read ``retry``: by default ``largest-first`` in configurations that name no tiers."""
    default = choices[-1] if arguments.has_default_tiers else "none"
    return arguments.choice("retry", choices, default=default) != "none"


def tasks_needed(
    session: Session, job: JobState, counting: Counting = Counting.HOPED
) -> list[TaskState]:
    """Return the tasks that a job has to place, in task order; with groups, those it needs next.

    Args:
        session: the session.
        job: the job.
        counting: which tasks count towards the minimums of its groups.

    """
    tasks = tasks_to_place(session, job)
    return tasks if job.groups is None else list(_tasks_of(need_of(session, job, tasks, counting)))


def _tasks_of(need: Need | None) -> Sequence[TaskState]:
    return () if need is None else need.tasks


def waits_for_company(session: Session, task: TaskState, *, ahead: bool) -> bool:
    """Return whether a task must be near others and no node accepts it. O(nodes) if so.

    `ahead`: whether nodes are asked as they will be, too; see `Attempts.asks_ahead`.
    """
    near = task.info.pod_affinity
    if not (near and near.required):
        return False
    return not any(nodes_for(session, task, ahead=ahead))


def _compared(trial: Trial) -> tuple[Stage, Need, int] | None:
    """Return which trials are compared by what may follow; None: the first one counts."""
    room = trial.nodes.more
    return None if room is None or not trial.need.more else (trial.stage, trial.need, room.rank)


def _is_possible(session: Session, statement: Statement, trial: Trial, place: Place) -> bool:
    begin = len(statement)
    is_possible = try_in(session, statement, trial, place)
    statement.within = None
    statement.rollback(begin)
    return is_possible


class Goal:
    """Tasks of a job that are tried in one statement.

    Iterate over it to try them, and tell it of each whether it found a place. This is the goal of
    a job without groups: any of its tasks will do.
    """

    may_be_partial = True
    """Whether what was placed may be held although it is not enough, and nodes reserved."""

    def __init__(self, attempts: Attempts, job: JobState, left: TasksInOrder) -> None:
        self._attempts = attempts
        self.job = job
        self._left = left
        self._order: deque[TaskState] = left
        self._aside: list[TaskState] = []
        """The tasks that are set aside, in the order in which they were tried."""
        self._is_enough = False
        self.placed: list[TaskState] = []
        """The tasks that found a place, in order."""
        self.nodes: list[NodeState | None] = []
        """Where they found it."""
        self.failed: list[TaskState] = []
        """The tasks that found no place, in order."""
        self.reserved: list[TaskState] = []
        """Those of them for which a node was reserved."""
        self.is_complete = True
        """Whether as many tasks were placed or reserved as the goal asks for."""
        self.is_kept = False
        """Whether the statement was committed."""

    def in_order(self, tasks: Iterable[TaskState]) -> Goal:
        """Try the tasks, which are all that are left, in another order."""
        self._order = deque(tasks)
        return self

    def __iter__(self) -> Iterator[TaskState]:
        """Yield the tasks to try, until they are enough or none is left."""
        order, left = self._order, self._left
        while order and not self._is_enough:
            task = order.popleft()
            if order is not left:
                left.remove(task)
            yield task

    def found_place(self, task: TaskState) -> None:
        """Record that a task was placed."""
        self.placed.append(task)
        self.nodes.append(task.node)
        self._is_enough = self._attempts.is_enough(self.job)
        if self._aside:
            again = self._take_up_again()
            self._order.extendleft(again)
            if self._order is not self._left:
                in_order = self._attempts.session.in_task_order([*again, *self._left])
                self._left.clear()
                self._left.extend(in_order)

    def _take_up_again(self) -> list[TaskState]:
        """Return the tasks that were set aside, the last first; they have not failed yet."""
        again = self._aside[::-1]
        self.failed = [task for task in self.failed if task not in again]
        self._aside.clear()
        return again

    def found_places(self, tasks: Sequence[TaskState]) -> None:
        """Record what became of tasks that were tried together in a set of nodes."""
        self.reserved = [task for task in tasks if task.status is _RESERVED]
        self.placed = [task for task in tasks if task.status not in _WITHOUT_PLACE]
        self.is_complete = len(self.placed) + len(self.reserved) == len(tasks)

    def found_none(self, task: TaskState, reserve: Reserve | None = None) -> bool:
        """Record that a task found no place; return whether to go on without it.

        Args:
            task: the task.
            reserve: reserves a node for a task in place of those that found none.

        """
        attempts, job = self._attempts, self.job
        attempts.session.record_failure(task)
        self.failed.append(task)
        if reserve is not None and reserve(task):
            self.reserved.append(task)
            return True
        waits = task.info.pod_affinity is not None and waits_for_company(
            attempts.session, task, ahead=attempts.asks_ahead
        )
        if waits:
            self._aside.append(task)
        if not attempts.substitutes:
            return waits
        if attempts.tries_all:
            return not attempts.is_enough(job)
        to_place = len(self._left) + len(self._aside)
        return job.lacks(Counting.HOPED) <= to_place or attempts.session.plugins.job_ready(job)

    def keeps_reservations(self) -> bool:
        """Return whether reservations that it made are of use."""
        session = self._attempts.session
        return session.plugins.job_ready(self.job) or session.plugins.job_condition_ready(self.job)


class GroupGoal(Goal):
    """The tasks that a job with groups needs next: all of them, or others of the same groups."""

    may_be_partial = False

    def __init__(
        self, attempts: Attempts, job: JobState, left: TasksByGroup, tasks: Sequence[TaskState]
    ) -> None:
        super().__init__(attempts, job, TasksInOrder())
        self._by_group = left
        self._tasks = tasks
        self._waiting = deque(tasks)
        self._others: dict[GroupState, Iterator[TaskState]] = {}
        self._reserve: Reserve | None = None
        self.is_complete = False

    def __iter__(self) -> Iterator[TaskState]:
        """Yield the tasks to try."""
        while self._waiting:
            yield self._waiting.popleft()
            # Where the turn would end without them, others take the places of those set aside.
            while not self._waiting and self._aside:
                if not self._is_replaced(self._aside.pop(0), self._reserve):
                    return

    def found_place(self, task: TaskState) -> None:
        """Record that a task was placed."""
        self.placed.append(task)
        self._waiting.extendleft(self._take_up_again())
        self._check_complete()

    def _check_complete(self) -> None:
        self.is_complete = len(self.placed) + len(self.reserved) == len(self._tasks)

    def found_none(self, task: TaskState, reserve: Reserve | None = None) -> bool:
        """Record that a task found no place; return whether another one, or a node, replaces it."""
        session = self._attempts.session
        session.record_failure(task)
        if waits_for_company(session, task, ahead=self._attempts.asks_ahead):
            self._aside.append(task)
            self._reserve = reserve
            return True
        return self._is_replaced(task, reserve)

    def _is_replaced(self, task: TaskState, reserve: Reserve | None) -> bool:
        self.failed.append(task)
        leaf = self._by_group.groups.leaf_of(task)
        if leaf not in self._others:
            wanted = {task.uid for task in self._tasks}
            of_group = self._by_group.of(leaf) if self._attempts.substitutes else iter(())
            self._others[leaf] = (other for other in of_group if other.uid not in wanted)
        another = next(self._others[leaf], None)
        if another is not None:
            self._waiting.appendleft(another)
            return True
        return reserve is not None and self._reserves_in(leaf, reserve)

    def _reserves_in(self, leaf: GroupState, reserve: Reserve) -> bool:
        for task in self.failed:
            is_here = self._by_group.groups.leaf_of(task) is leaf and task not in self.reserved
            if is_here and reserve(task):
                self.reserved.append(task)
                self._check_complete()
                return True
        return False


class PartGoal(GroupGoal):
    """What a job with groups that cannot start yet may hold, or have reserved, meanwhile."""

    may_be_partial = True

    def keeps_reservations(self) -> bool:
        """Return whether reservations that it made are of use: only if no task is missing.

        What is not held is rolled back anyway, reservations and all.
        """
        return self.is_complete or not self._attempts.holds_part


@define(kw_only=True, eq=False)
class Attempts:
    """How an action tries what jobs need next."""

    session: Session
    is_enough: Callable[[JobState], bool]
    """Whether what was placed for a job is enough to keep it."""
    asks_ahead: bool = False
    """Whether nodes are those that accept a task as they will be, as for actions that evict."""
    asks_queue: bool = False
    """Whether to require, for a job that is not ready, that its queue may take all that it lacks
    within its limits."""
    tries_all: bool = False
    """Whether tasks of jobs without groups are tried although too few are left to be enough."""
    substitutes: bool = True
    """Whether other tasks are tried in place of those that find no place."""
    retries_largest_first: bool = False
    """Whether what was rolled back is tried once more, with the largest tasks first."""
    keeps_part: Callable[[JobState], bool] | None = None
    """Whether part of what a job with groups needs may be kept if it cannot start; None: never."""
    holds_part: bool = False
    """Whether what was placed is held although it is not enough."""
    reserve: Callable[[Statement, TaskState], bool] | None = None
    """Reserves a node for a task that found none; returns whether there was one. None: never."""
    may_reserve: Callable[[JobState], bool] | None = None
    """Whether nodes may be reserved for a job's tasks, so that it is tried even if its queue may
    not take all that it lacks while others hold so much. None: never."""
    stages: Sequence[Stage] = (Stage.NOW, Stage.LATER, Stage.CONDITIONALLY)
    """In which stages it is tried in sets of nodes, where plugins offer any."""
    is_settled: Callable[[JobState], bool] | None = None
    """Whether what was kept for a job is more than a part that it may hold; what finds no place,
    or is not settled, is tried once more, as plugins say. None: it is not."""
    evicts: EvictionScope | None = None
    """Whom the action may evict for what is tried; None: nobody."""
    may_go: MayGo | None = None
    """Which of those may leave for a task; None: nobody says."""
    records_search: Callable[[Need], None] | None = None
    """Records that nobody was found to evict for a need, where no set has room even without those
    who may go. None: nothing is recorded."""
    cures: bool = False
    """Whether it evicts also on nodes that accept what is tried only once others have left."""
    rank_sets: Callable[[Statement], SetRank] | None = None
    """Ranks what was evicted in a set; the first of the best is kept. None: the first is."""
    depends_on_nodes_alone: bool = False
    """Whether an attempt of a job comes out the same as long as the job and the nodes are."""

    _failed_turns: FailedTurns | None = field(init=False)
    """The attempts that are known to fail again, if they are recorded and the nodes decide."""

    def __attrs_post_init__(self) -> None:
        session = self.session
        self._failed_turns = session.memory.turns if self.depends_on_nodes_alone else None

    def serve(self, turn: Turn, place: Place, keeps: Keeps) -> Goal | None:
        """Try what a turn is to try, each goal in a statement; return the last, None: nothing.

        A turn that is known to fail is not tried, but recorded as if it had been. Where plugins
        offer sets of nodes for what the job needs, it is tried in these. What was tried in vain, or
        kept only in part, is tried once more, if a plugin says how.

        Args:
            turn: the turn.
            place: places a task.
            keeps: returns whether what was placed for a goal is committed, or rolled back.

        """
        session, job, is_settled = self.session, turn.job, self.is_settled
        known = self._failed_turns
        failed = None if known is None else known.find(job, session.placement)
        if failed is not None:
            record_failed_again(session, job, failed)
            return None
        second = None if is_settled is None else self._second_try(turn)
        need = part = None
        if session.plugins.candidate_nodes:
            need = need_in_sets(session, job, turn.left, self.stages[0])
            part = self._part_in_sets(turn) if need is None else None
        if need is not None:
            goal = self._serve_in_sets(turn, need, place, keeps)
        elif part is not None:
            goal = self._serve_in_part(turn, part, place, keeps)
        else:
            goal = self._serve_anywhere(turn, place, keeps)
        if not (second and is_settled) or (goal and goal.is_kept and is_settled(job)):
            return goal
        return self._undo_choices(turn, second, goal, keeps)

    def _try(
        self,
        goal: Goal,
        attempt: Callable[[Statement], bool],
        keeps: Keeps,
        *,
        within: NodeSet | None = None,
        is_trial: bool = False,
    ) -> bool:
        """Attempt a goal in a statement, and commit that or roll it back; return which.

        Args:
            goal: the goal.
            attempt: places tasks; returns whether it may be kept.
            keeps: returns whether it is.
            within: the only nodes on which tasks are placed; None: any.
            is_trial: whether reasons do not mention what is placed and rolled back.

        """
        goal.is_kept = self.session.attempt(
            lambda statement: attempt(statement) and keeps(statement, goal),
            is_trial=is_trial,
            within=within,
        )
        return goal.is_kept

    def _serve_anywhere(self, turn: Turn, place: Place, keeps: Keeps) -> Goal | None:
        goal: Goal | None = None
        if self.tries_all and AlikeTasks.apply(self.session, turn.job):
            place = AlikeTasks(self.session, place).place
        for goal in self._goals(turn):
            self._try(goal, partial(self._place_each, goal, place), keeps)
        return goal

    def _place_each(self, goal: Goal, place: Place, statement: Statement) -> bool:
        """Place the tasks of a goal one after the other, wherever they find a place."""
        reserve = self.reserve if goal.may_be_partial else None
        reserves = None if reserve is None else partial(reserve, statement)
        for task in goal:
            if place(statement, task, None):
                goal.found_place(task)
            elif not goal.found_none(task, reserves):
                break
        return True

    def _part_in_sets(self, turn: Turn) -> Need | None:
        """Return what a job with groups may hold, or have reserved, in sets of nodes.

        None: it may need all of its groups together, or plugins offer no sets.
        """
        session, job = self.session, turn.job
        if (
            job.groups is None
            or not self._keeps_part(job)
            or need_of(session, job, turn.left) is not None
        ):
            return None
        need = need_of(session, job, turn.left, Counting.RESERVED)
        if need is None or not offers_sets(session, need, Stage.EMPTY):
            return None
        left, counting = turn.left, Counting.RESERVED
        return need if may_take(session, job, left, counting=counting) else None

    def _keeps_part(self, job: JobState) -> bool:
        ready = self.session.plugins.job_ready
        return self.keeps_part is not None and self.keeps_part(job) and not ready(job)

    def _serve_in_sets(self, turn: Turn, need: Need, place: Place, keeps: Keeps) -> Goal | None:
        """Try a need in one set of nodes after the other; the first where all of it fits counts.

        Nothing is remembered of failures: a set that fails says nothing of the next one.
        """
        session, job = self.session, turn.job
        everywhere, goal = whole_cluster(session), None
        if self.asks_queue and not self._may_take(turn):
            return None
        if self.evicts is not None:
            first, scope = need.tasks[0], self.evicts
            count_beside(session, first, scope, cures=self.cures, may_go=self.may_go)
        again = None if self.is_settled is None else partial(self._place_again, job)
        was_tried = has_evicted = False
        cheapest = _Cheapest(self.rank_sets, keeps)
        for trial in self._trials(turn, need, place):
            best = cheapest.trial
            if best is not None and (trial.nodes is everywhere or trial.need is not best.need):
                break  # only sets for the same tasks in the same stage are compared
            if trial.nodes is everywhere:
                found = None if was_tried else self._serve_anywhere(turn, place, keeps)
                was_tried = True
                if found is not None and found.is_kept:
                    return found
                turn.take_up_again()
                if not (again and second_try(session, need)):
                    continue
            has_evicted = has_evicted or trial.stage is Stage.EVICTING
            goal = self._try_set(turn, trial, place, partial(cheapest.keeps, trial), again)
            if goal.is_kept:
                return goal
        if cheapest.trial is not None:
            return self._try_set(turn, cheapest.trial, place, keeps, again)
        if (self.holds_part or self.reserve is not None) and not session.plugins.job_ready(job):
            goal = self._serve_in_part(turn, need, place, keeps) or goal
        if goal is None or not goal.is_kept:
            record_no_set(session, need)
            if self.records_search is not None and not (has_evicted or was_tried):
                self.records_search(need)
        if goal is None and not was_tried:
            self._remember_no_set(job, need, tuple(turn.left))
        return goal

    def _try_set(
        self,
        turn: Turn,
        trial: Trial,
        place: Place,
        keeps: Keeps,
        again: Callable[[Statement, Sequence[TaskState], Stage], bool] | None = None,
        *,
        is_trial: bool = True,
    ) -> Goal:
        """Try a need in a set."""
        goal, left, tasks = Goal(self, turn.job, TasksInOrder()), turn.left, trial.need.tasks

        def attempt(statement: Statement) -> bool:
            is_done = try_in(self.session, statement, trial, place, again)
            goal.found_places(tasks if is_done else ())
            return is_done

        if self._try(goal, attempt, keeps, within=trial.nodes, is_trial=is_trial):
            left.take_out(tasks)
        return goal

    def _trials(self, turn: Turn, need: Need, place: Place) -> Iterator[Trial]:
        """Return the sets in which a need is tried, then those for what is needed in its place."""
        if not need.job.info.groups and len(turn.left) == len(need.tasks):
            return sets_in_turn(self.session, need, tuple(turn.left), self.stages)
        return self._trials_by_rank(turn, need, place)

    def _trials_by_rank(self, turn: Turn, need: Need, place: Place) -> Iterator[Trial]:
        """Yield them, where more may follow, or groups may be needed instead of others."""
        session, stages = self.session, self.stages

        def finds_place(part: Need) -> bool:
            with session.statement(is_trial=True) as statement:
                trials = sets_in_turn(session, part, (), stages)
                return any(_is_possible(session, statement, trial, place) for trial in trials)

        has_groups = bool(need.job.info.groups)
        needs = needs_in_turn(session, need, turn.left, finds_place) if has_groups else (need,)
        for asked in needs:
            left: Collection[TaskState] = turn.left
            if asked is not need:
                left = [task for task in left if task in asked.tasks]
                if self.asks_queue and not may_take(session, turn.job, left):
                    continue
            trials = sets_in_turn(session, asked, tuple(left), stages)
            if len(left) == len(asked.tasks):
                yield from trials
            else:
                for kind, some in groupby(trials, key=_compared):
                    if kind is None:
                        yield from some
                    else:
                        yield from self._with_most_room(some, place)

    def _with_most_room(self, trials: Iterable[Trial], place: Place) -> Iterator[Trial]:
        """Yield the first of some trials after which most of what may follow finds a place too."""
        session, most, best = self.session, -1, None
        for trial in trials:
            room, more = trial.nodes.more, trial.need.more
            with session.statement(is_trial=True) as statement:
                if room is None or not try_in(session, statement, trial, place):
                    continue
                statement.within = room.nodes
                count = sum(place(statement, task, trial.stage) for task in more)
            if count > most:
                most, best = count, trial
            if count == len(more):
                break
        if best is not None:
            yield best

    def _place_again(
        self, job: JobState, statement: Statement, tasks: Sequence[TaskState], stage: Stage
    ) -> bool:
        """Place tasks that did not all find a place, undoing choices, if a plugin says how."""
        found = second_try(self.session, need_of_tasks(job, tuple(tasks)))
        fits = [fit for fit in stage.ladder if fit is not Fit.CONDITIONALLY]
        return found is not None and place_with_undoing(self.session, statement, *found, fits)

    def _second_try(self, turn: Turn) -> tuple[str, SecondTry] | None:
        """Return how what a job needs is tried once more anywhere, and the plugin that says so."""
        session, job = self.session, turn.job
        if not (turn.left and may_go_anywhere(session, job)):
            return None
        need = need_of(session, job, turn.left)
        if need is None or not may_take(session, job, turn.left, need=turn.offered):
            return None
        return second_try(session, need)

    def _undo_choices(
        self, turn: Turn, second: tuple[str, SecondTry], tried: Goal | None, keeps: Keeps
    ) -> Goal | None:
        """Try once more what was tried in vain, or kept in part, undoing choices of a plugin."""
        part = tried.placed if tried is not None and tried.is_kept else ()
        goal = Goal(self, turn.job, TasksInOrder())
        goal.may_be_partial = False
        tasks = second[1].tasks

        def attempt(statement: Statement) -> bool:
            for task in reversed(part):
                statement.unallocate(task)
            goal.placed = list(tasks)
            return place_with_undoing(self.session, statement, *second)

        if not self._try(goal, attempt, keeps, is_trial=True):
            return tried
        if any(task.status is TaskStatus.PENDING for task in part):
            turn.take_up_again()
        turn.left.take_out([task for task in tasks if task in turn.left])
        return goal

    def _serve_in_part(self, turn: Turn, need: Need, place: Place, keeps: Keeps) -> Goal | None:
        """Place of a need what can be in the set where nodes would be reserved, and reserve nodes.

        Without reservations, what finds no place is left out if what was placed may be held. What
        cannot be had is tried with what the job needs instead.
        """
        session, job = self.session, turn.job
        goal: Goal | None = None
        if not offers_sets(session, need, Stage.EMPTY):
            turn.take_up_again()
            return self._serve_anywhere(turn, place, keeps)
        place_or_reserve = self._or_reserve(place)

        def finds_place(part: Need) -> bool:
            trial = first_set(session, part, Stage.EMPTY)
            with session.statement(is_trial=True) as statement:
                return trial is not None and _is_possible(
                    session, statement, trial, place_or_reserve
                )

        counting, may_reserve = Counting.RESERVED, self._may_reserve(job)
        for asked in needs_in_turn(session, need, tuple(turn.left), finds_place, counting):
            some = asked.tasks
            if asked is not need and not may_take(
                session, job, some, counting=counting, may_reserve=may_reserve
            ):
                continue
            trial = first_set(session, asked, Stage.EMPTY)
            if trial is not None:
                goal = self._try_set(turn, trial, place_or_reserve, keeps, is_trial=False)
                if goal.is_kept:
                    break
        return goal

    def _or_reserve(self, place: Place) -> Place:
        """Return what places a task, or reserves a node for it."""
        session, reserve = self.session, self.reserve

        def place_or_reserve(on: Statement, task: TaskState, _stage: Stage | None) -> bool:
            if place(on, task, None):
                return True
            session.record_failure(task)
            return (reserve is not None and reserve(on, task)) or self.holds_part

        return place_or_reserve

    def _goals(self, turn: Turn) -> Iterable[Goal]:
        """Yield what a turn is to try, until something was kept or nothing is left to try."""
        job, left = turn.job, turn.left
        if not left:
            return ()
        if isinstance(left, TasksByGroup):
            return self._goals_by_group(job, left)
        if self.asks_queue and not self._may_take(turn):
            return ()
        if not self.substitutes:
            self._pass_over(job, left)
        return self._goals_in_order(job, left)

    def _may_take(self, turn: Turn) -> bool:
        job, may_reserve = turn.job, self._may_reserve(turn.job)
        return may_take(self.session, job, turn.left, need=turn.offered, may_reserve=may_reserve)

    def _may_reserve(self, job: JobState) -> bool:
        return self.may_reserve is not None and self.may_reserve(job)

    def _pass_over(self, job: JobState, left: TasksInOrder) -> None:
        """Drop tasks that the job does not need, because its queue can never have them."""
        needed = _tasks_of(need_of(self.session, job, left))
        if not needed or left[len(needed) - 1] is needed[-1]:
            return
        beyond = passed_over(needed, left)
        for task in beyond:
            may_take_task(self.session, task)  # which says why not
        left.take_out(beyond)

    def _goals_in_order(self, job: JobState, left: TasksInOrder) -> Iterator[Goal]:
        """Yield all tasks in task order; then, if they were rolled back, in another order."""
        remembers = self._failed_turns is not None
        to_place = list(left) if remembers or self.retries_largest_first else []
        goal = Goal(self, job, left)
        yield goal
        retries = self.retries_largest_first and not goal.is_kept
        again = self._in_another_order(to_place) if retries else []
        if remembers and not again and not (goal.is_kept and goal.placed):
            slots = {node.slot for node in goal.nodes if node is not None}
            self._remember(job, to_place, goal.placed, goal.failed, slots)
        if again and not goal.is_kept:
            left.clear()
            left.extend(to_place)
            yield Goal(self, job, left).in_order(again)

    def _goals_by_group(self, job: JobState, left: TasksByGroup) -> Iterator[Goal]:
        """Yield what the job needs next, each time without the tasks that found no place before."""
        session = self.session
        while True:
            tasks = _tasks_of(need_of(session, job, left))
            if not tasks or (self.asks_queue and not may_take(session, job, left)):
                if left:
                    session.reports.of_job(job).asked_in_part = True
                break
            first = goal = GroupGoal(self, job, left, tasks)
            yield goal
            if not goal.is_complete and self.retries_largest_first:
                again = self._in_another_order(tasks)
                if again:
                    goal = GroupGoal(self, job, left, again)
                    yield goal
            if goal.is_complete:
                left.take_out(goal.failed)
                if goal.is_kept:
                    left.take_out(goal.placed)
                    return
                break
            left.take_out(first.failed)
            if not self.substitutes:
                break
        if self._keeps_part(job):
            yield from self._part_to_keep(job)
            left.take_out(list(left))  # the rest waits for the next cycle

    def _part_to_keep(self, job: JobState) -> Iterator[Goal]:
        """Yield what a job with groups lacks, counting what is reserved for it.

        Each time without the tasks that could neither be placed nor have a node reserved.
        """
        assert job.groups is not None
        left = TasksByGroup(job.groups, tasks_to_place(self.session, job))
        counting, may_reserve = Counting.RESERVED, self._may_reserve(job)
        while True:
            tasks = _tasks_of(need_of(self.session, job, left, counting))
            if not tasks or not may_take(
                self.session, job, left, counting=counting, may_reserve=may_reserve
            ):
                return
            goal = PartGoal(self, job, left, tasks)
            yield goal
            if goal.is_complete or (goal.is_kept and goal.placed):
                return
            left.take_out(goal.failed)

    def _in_another_order(self, tasks: Iterable[TaskState]) -> list[TaskState]:
        """Sort by decreasing dominant share; reverse tasks of one size that are not alike.

        Returns [] if that changes nothing.
        """
        in_order = list(tasks)
        if all(task.init_resreq == in_order[0].init_resreq for task in in_order):
            asked = [_what_nodes_take(task.info) for task in in_order]
            return [] if asked.count(asked[0]) == len(asked) else in_order[::-1]
        cluster = self.session.ledger.cluster[: self.session.ledger.dimensions.in_cluster]
        by_size = sorted(in_order, key=lambda task: -dominant_share(task.init_resreq, cluster))
        return by_size if by_size != in_order else []

    # Attempts that are known to fail

    def _remember_no_set(self, job: JobState, need: Need, left: Sequence[TaskState]) -> None:
        """Remember that no set of nodes was offered for a need, if that depends on rooms alone."""
        session = self.session
        if (
            self._failed_turns is not None
            and session.plugins.sets_by_room
            and len(left) == len(tasks_to_place(session, job))
        ):
            self._failed_turns.remember(
                job,
                session.placement,
                tasks=left,
                failed=left,
                undone=(),
                slots=(),
                need=need,
                in_sets=True,
            )

    def _remember(
        self,
        job: JobState,
        to_place: Sequence[TaskState],
        placed: Sequence[TaskState],
        failed: Sequence[TaskState],
        slots: Collection[int],
    ) -> None:
        """Remember that an attempt failed, if the nodes alone decided that."""
        session = self.session
        assert self._failed_turns is not None
        if len(to_place) < len(tasks_to_place(session, job)):
            return  # some of its tasks were tried in an earlier turn of this cycle
        if session.plugins.limits_queues and (
            placed or any(session.reports.about(task).refusal is not None for task in failed)
        ):
            return
        self._failed_turns.remember(
            job,
            session.placement,
            tasks=to_place,
            failed=failed,
            undone=placed,
            slots=slots,
            need=need_of(session, job, to_place),
            in_every_way=not (job.backfilling or session.plugins.job_ready(job)),
        )
