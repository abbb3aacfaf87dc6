"""The plugin capacity: the order and the limits of queues in a tree, and what each got."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial, reduce
from itertools import compress, count
from operator import ne

from attrs import frozen

from batchsched.causes import UnfitReason
from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import (
    QueueExcess,
    Unfit,
    claims_no_backfill,
    minimum_on_loan,
    over_limit,
    over_share,
)
from batchsched.model.resources import Resource
from batchsched.model.result import QueueOutcome, QueueOutcomes
from batchsched.plugin.arguments import Arguments
from batchsched.plugin.extension_points import Changes, Claim, ClaimTerms, Verdict
from batchsched.plugin.hints import EvictionHints
from batchsched.plugin.queues import QueueTree, QueueUses
from batchsched.plugin.session_view import SessionView
from batchsched.plugins.capacity.accounts import (
    EMPTY,
    ROOT,
    Departure,
    Excess,
    QueueAccounts,
    Share,
    use_of,
)
from batchsched.plugins.capacity.claims import FAIR, RIGHTS, QueueClaim
from batchsched.plugins.capacity.loans import Loans
from batchsched.plugins.capacity.ranks import Preemption
from batchsched.plugins.capacity.remembered_loans import RememberedLoans
from batchsched.plugins.capacity.supply import RememberedSupply, Supply, WholeDevices
from batchsched.state.needs import Need
from batchsched.state.records import JobState, QueueState, SortKey, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import Vector, minus, plus

_Rows = tuple[list[int], ...]
"""The inputs of outcomes, as rows with a number for each position."""


class OutcomesOfQueues:
    """Computes the outcomes of queues in each cycle, and reuses those that have not changed."""

    def __init__(self, resource: Callable[[Vector], Resource]) -> None:
        self._resource = resource
        self._told = QueueOutcomes()
        self._rows: _Rows = ()
        self._promised: Mapping[int, Vector] = {}
        self._covered: list[Vector] = []
        """The covered amount of each queue."""
        self._present: list[Vector] = []
        """The amount that each queue holds on nodes."""
        self._above: set[int] = set()
        """The leaves that exceed their shares."""

    def outcomes(
        self, accounts: QueueAccounts, loans: Loans, promised: Mapping[int, Vector]
    ) -> QueueOutcomes:
        """Return the outcome of each queue, by name.

        O(queues x dimensions) to find those that have changed, plus the units of leaves that
        exceed their shares where they are not known yet: everything within a share is covered.

        Args:
            accounts: the shares and holdings of queues, of the same tree each time.
            loans: what is covered.
            promised: what leaves are charged for that is not yet on nodes, by position.

        """
        tree = accounts.tree
        rows = tuple(map(list, (*accounts.share, *accounts.held, *accounts.guarantee)))
        if not self._rows:
            zero: Vector = (0,) * len(accounts.held)
            self._covered = [zero for _ in tree.names]
            self._present = [zero for _ in tree.names]
            changed = set(range(len(tree.names)))
        else:
            changed = _differing(self._rows, rows)
        self._rows = rows
        looked_at = changed | self._above | self._promised.keys() | promised.keys()
        self._promised = promised
        for leaf in list(looked_at):
            if not tree.children[leaf]:
                self._look_at(leaf, accounts, loans, promised.get(leaf))
            looked_at.update(tree.path(leaf))
        inner = [position for position in looked_at if tree.children[position]]
        for position in sorted(inner, key=lambda position: -len(tree.path(position))):
            children = tree.children[position]
            self._covered[position] = reduce(plus, [self._covered[each] for each in children])
            self._present[position] = reduce(plus, [self._present[each] for each in children])
        new: dict[str, QueueOutcome] = {}
        for position in sorted(looked_at):  # in order of name, like all of them the first time
            outcome = self._outcome(accounts, position)
            name = tree.names[position]
            if self._told.get(name) != outcome:
                new[name] = outcome
        if new:
            self._told = QueueOutcomes({**self._told, **new})
        return self._told

    def _look_at(
        self, leaf: int, accounts: QueueAccounts, loans: Loans, promised: Vector | None
    ) -> None:
        held: Vector = tuple([of_all[leaf] for of_all in accounts.held])
        self._above.discard(leaf)
        if not any(held):
            self._covered[leaf] = self._present[leaf] = (0,) * len(held)
            return
        there = held if promised is None else minus(held, promised)
        self._present[leaf] = there
        if accounts.is_covered(leaf):
            self._covered[leaf] = there
        else:
            self._above.add(leaf)
            self._covered[leaf] = loans.covered_size(leaf)

    def _outcome(self, accounts: QueueAccounts, position: int) -> QueueOutcome:
        resource, queue = self._resource, accounts.tree.queues[position]
        covered = self._covered[position]
        share, held, guarantee = (
            tuple([of_all[position] for of_all in rows])
            for rows in (accounts.share, accounts.held, accounts.guarantee)
        )
        return QueueOutcome(
            parent=queue.parent,
            fair_share=resource(share),
            allocated=resource(held),
            guarantee=resource(guarantee),
            limit=queue.limit,
            covered=resource(covered),
            on_loan=resource(minus(self._present[position], covered)),
        )


def _differing(before: _Rows, now: _Rows) -> set[int]:
    """Return the positions at which any of the rows differ."""
    found: set[int] = set()
    for old, new in zip(before, now, strict=True):
        if old != new:
            found.update(compress(count(), map(ne, old, new)))
    return found


@frozen(kw_only=True)
class CapacityPlugin:
    """Divides the cluster among a tree of queues, and enforces their limits.

    It replaces proportion.
    """

    tolerance: Fraction = Fraction()
    """The fraction by which a fair share may be exceeded before anything of a queue is on loan."""
    levels: bool = False
    """Whether a queue above its share may reclaim from siblings that are even fuller."""
    is_graded: bool = False
    """Whether jobs come first with which all queues above them stay within their shares."""
    guards_shares: bool = True
    """Whether preempt takes nothing that a share covers for what it would not cover."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> CapacityPlugin:
        """Read ``tolerance``, ``level``, ``order`` and ``preemption``.

        ``tolerance`` is a fraction, such as 0.1 (default 0); ``level`` true or false (default);
        ``order`` is ``queue`` (the default) or ``graded``; ``preemption`` is ``shares`` (the
        default) or ``priority``: other plugins alone then say whom preempt evicts in a queue.
        """
        tolerance = arguments.number("tolerance", default=0, minimum=0)
        return cls(
            tolerance=Fraction(str(tolerance)),  # 0.1 is meant to be a tenth
            levels=arguments.boolean("level", default=False),
            is_graded=arguments.choice("order", ("queue", "graded"), default="queue") == "graded",
            guards_shares=arguments.choice("preemption", ("shares", "priority"), default="shares")
            == "shares",
        )

    def open(self, view: SessionView, /) -> object:
        """Open for one cycle."""
        return _GradedCapacity(view, self) if self.is_graded else _Capacity(view, self)


class _Capacity:
    votes_on_jobs_alone = True
    refuses_alike = True

    def __init__(self, view: SessionView, plugin: CapacityPlugin) -> None:
        self._view = view
        self._plugin = plugin
        self._dimensions = view.dimensions.names
        self._tree = QueueTree(queue.info for queue in view.queues.values())
        make = Supply if Shortcut.LOANS in view.plain else RememberedSupply
        self._supply = make(view)
        self._devices = WholeDevices(view, self._tree)
        self._uses: QueueUses | None = None
        """What each job holds and requests; None until the state is kept from cycle to cycle."""
        self._held: dict[int, Vector] = {}
        """What leaves hold, by position."""
        self._requests: dict[int, Vector] = {}
        """What leaves hold and wait for, by position."""
        self._touched: set[str] = set()
        """The names of the leaves for which this has changed."""
        self._accounts: QueueAccounts | None = None
        self._loans: Loans | None = None
        self._outcomes = OutcomesOfQueues(view.dimensions.resource)
        self._preemption = Preemption(view, self._leaf_of, lambda: self.loans)

    @property
    def accounts(self) -> QueueAccounts:
        """The shares and holdings of queues."""
        if self._accounts is None:
            self._accounts = self._opened()
        return self._accounts

    def jobs_admitted(self) -> None:
        self._accounts = self._opened()
        self._preemption.forget()
        if self._loans is not None and not self._loans.follow(self._accounts):
            self._loans = None

    def resume(self, changes: Changes, /) -> bool:
        if self._loans is not None:
            for jobs, are_gone in ((changes.jobs_gone, True), (changes.jobs, False)):
                for job in jobs:
                    if job.queue is not None:
                        leaf = self._tree.position[job.queue.name]
                        self._loans.record_change(leaf, job, is_gone=are_gone)
            if changes.nodes or changes.nodes_gone:
                self._loans.forget_nodes()
        self._supply.catch_up(changes)
        self._devices.catch_up(changes)
        if self._uses is None:
            self._uses = QueueUses(partial(use_of, self._view), self._view.jobs.values())
            # The last job of a leaf may have left since this was opened.
            self._touched.update(self._uses.of_queue, map(self._tree.names.__getitem__, self._held))
        else:
            self._touched |= self._uses.catch_up(changes)
        return True

    def _opened(self) -> QueueAccounts:
        zero = self._view.dimensions.zero
        if self._uses is None:
            queues = self._view.queues.values()
            uses = {queue.name: use_of(self._view, queue.jobs) for queue in queues if queue.jobs}
        else:
            self._touched |= self._uses.admit()
            uses = self._uses.of_queue
        for name in uses if self._uses is None else self._touched:
            position, use = self._tree.position[name], uses.get(name)
            self._held[position] = zero if use is None else use.held
            self._requests[position] = zero if use is None else use.request
        self._touched.clear()
        return QueueAccounts(
            self._tree,
            self._dimensions,
            total=self._supply.total(),
            held=self._held,
            requests=self._requests,
            room=self._supply.room,
            units=self._devices.units(),
            before=self._accounts,
            weights=self._surplus_weights if self._view.knows_past else None,
        )

    def _surplus_weights(self, positions: Sequence[int], dimension: int) -> Sequence[int]:
        names, queues = self._tree.names, self._view.queues
        return self._view.surplus_weights([queues[names[p]] for p in positions], dimension)

    # Order

    def queue_order_key(self, queue: QueueState, need: Need | None, /) -> SortKey:
        used = self._view.past_use_key(queue, need)
        if need is None:
            return 0, -queue.info.priority, used, EMPTY
        is_within, full = self.accounts.standing(need, self._tree.position[queue.name])
        return int(not is_within), -queue.info.priority, used, full

    # Limits

    def allocatable(self, queue: QueueState, need: Need, /) -> Unfit | None:
        accounts = self.accounts
        leaf = self._tree.position[queue.name]
        if need.leaving:  # there may be less room once they have left
            return self._refusal(leaf, need, accounts.once_gone(need.leaving))
        if Shortcut.LOANS in self._view.plain:
            return self._refusal(leaf, need, None)
        asked = leaf, need.request
        try:
            return accounts.refusals[asked]
        except KeyError:
            refusal = accounts.refusals[asked] = self._refusal(leaf, need, None)
            return refusal

    def _refusal(self, leaf: int, need: Need, departure: Departure | None) -> Unfit | None:
        refusal: Unfit | None = None
        for excess in self.accounts.excesses(leaf, need.request, need.dimensions, departure):
            refusal = self._over_limit(excess, need)
            if refusal.reason is not UnfitReason.INSUFFICIENT_RESOURCE:
                break  # a limit applies whatever becomes free
        return refusal

    def most_allocatable(self, queue: QueueState, /) -> Sequence[float]:
        return self.accounts.most(self._tree.position[queue.name])

    def _over_limit(self, excess: Excess, need: Need) -> Unfit:
        position, dimension, wanted, most = excess
        name = self._dimensions[dimension]
        if position == ROOT:
            held = self.accounts.held[dimension]
            used = sum(held[top] for top in self._tree.tops)
            if used + need.request[dimension] > most:  # even without guarantees
                return Unfit(UnfitReason.INSUFFICIENT_RESOURCE, plugin="capacity", detail=name)
        queue = "" if position == ROOT else self._tree.names[position]
        over = QueueExcess(dimension=name, would_hold=wanted, most=most, queue=queue)
        return over_limit(over, "capacity", need.request[dimension])

    # Claims

    def claim(self, need: Need, terms: ClaimTerms, /) -> Claim | Unfit:
        """Return what a job may reclaim by the rights that its queue has, or by levelling."""
        accounts, loans, queue = self.accounts, self.loans, need.job.queue
        assert queue is not None
        leaf = self._tree.position[queue.name]
        if any(task.is_backfill for task in need.tasks):
            return claims_no_backfill(queue.name, "capacity")
        # What is charged nothing is no part of what a queue deserves.
        possible = RIGHTS if need.dimensions else (FAIR,)
        within = [each for each in possible if accounts.is_within_share(leaf, need, each.within)]
        rights = [each for each in within if loans.covers_core(leaf, need.job, each.within)]
        if not rights and not self._plugin.levels:
            if within:
                return minimum_on_loan(queue.name, "capacity")
            return self._would_exceed_share(leaf, need)
        return QueueClaim(
            accounts=accounts,
            loans=loans,
            leaf=leaf,
            need=need,
            rights=rights,
            protected_by=terms.protected_by,
        )

    def _would_exceed_share(self, leaf: int, need: Need) -> Unfit:
        """Return the refusal of a claim for which a leaf has no right, by fair or nominal share."""
        fair = self._beyond(Share.FAIR, leaf, need)
        nominal = self._beyond(Share.NOMINAL, leaf, need)
        lacking = {each.dimension: each for each in nominal}
        excess = next((each for each in fair if each.dimension in lacking), fair[0])
        deserved = lacking.get(excess.dimension, next(iter(nominal), None))
        if deserved is not None and not deserved.most:
            deserved = None
        return over_share(excess, "capacity", deserved)

    def _beyond(self, share: Share, leaf: int, need: Need) -> list[QueueExcess]:
        """Return what a leaf would hold beyond a share, in each dimension of a need."""
        found: list[QueueExcess] = []
        for dimension in need.dimensions:
            held = self.accounts.held[dimension][leaf]
            most = self.accounts.amounts(share)[dimension][leaf]
            if held + need.request[dimension] > most:
                excess = QueueExcess(
                    dimension=self._dimensions[dimension],
                    would_hold=held + need.request[dimension],
                    most=most,
                    queue=self._tree.names[leaf],
                    held=held,
                )
                found.append(excess)
        return found

    @property
    def loans(self) -> Loans:
        """What is covered and what is on loan now."""
        if self._loans is None:
            view = self._view
            make = Loans if Shortcut.LOANS in view.plain else RememberedLoans
            queues = list(view.queues.values())
            self._loans = make(
                self.accounts,
                queues,
                view.task_order_key,
                view.protects_any,
                self._plugin.tolerance,
            )
        return self._loans

    # Preemption within a queue

    def preemptable(
        self, claimant: TaskState, candidates: Sequence[TaskState], /
    ) -> Sequence[Verdict]:
        if not self._plugin.guards_shares:
            return [Verdict.NO_SAY] * len(candidates)
        return self._preemption.verdicts(claimant, candidates)

    def verdict_reasons(
        self, claimant: TaskState, candidates: Sequence[TaskState], verdict: Verdict, /
    ) -> Sequence[str]:
        if verdict is not Verdict.PROTECTED:
            return [""] * len(candidates)
        return self._preemption.reasons(claimant, candidates)

    def hints(self) -> EvictionHints:
        if not self._plugin.guards_shares:
            return EvictionHints(claimant_key=_same_for_all)
        if Shortcut.LOANS in self._view.plain:
            return EvictionHints()
        return EvictionHints(claimant_key=self._preemption.key)

    def _leaf_of(self, job: JobState) -> int:
        assert job.queue is not None
        return self._tree.position[job.queue.name]

    # Outcomes

    def queue_share(self, queue: QueueState, /) -> tuple[Vector, Vector] | None:
        """Return the fair share of any queue, and what it holds."""
        accounts, position = self.accounts, self._tree.position[queue.name]
        share = tuple([of_all[position] for of_all in accounts.share])
        return share, tuple([of_all[position] for of_all in accounts.held])

    def queue_outcomes(
        self, _task_order_key: Callable[[TaskState], SortKey], /
    ) -> Mapping[str, QueueOutcome]:
        promised: dict[int, Vector] = {}
        zero = self._view.dimensions.zero
        for job in self._view.jobs_having(TaskStatus.PIPELINED, TaskStatus.CONDITIONAL):
            if job.queue is not None:
                leaf = self._tree.position[job.queue.name]
                tasks = (t for t in job.tasks if t.status.charged and not t.status.occupies)
                for task in tasks:
                    if not task.is_backfill:
                        promised[leaf] = plus(promised.get(leaf, zero), task.resreq)
        return self._outcomes.outcomes(self.accounts, self.loans, promised)

    # Events

    def on_allocate(self, task: TaskState, /) -> None:
        self._charge(task, 1)

    def on_deallocate(self, task: TaskState, /) -> None:
        self._charge(task, -1)

    def _charge(self, task: TaskState, sign: int) -> None:
        if task.job is None or task.job.queue is None:
            return
        self._preemption.forget()
        leaf = self._tree.position[task.job.queue.name]
        self._supply.record_move(task)
        if task.is_backfill:
            self.accounts.room_changed()
        else:
            self.accounts.charge(leaf, task.resreq, sign)
        if self._loans is not None:
            self._loans.record_change(leaf, task.job)


def _same_for_all(_claimant: TaskState, /) -> None:
    return None


class _GradedCapacity(_Capacity):
    """Takes jobs first, in the whole tree, with which all queues stay within their shares.

    Otherwise a job that would exceed a share can be the next job of its queue, and a job behind
    it that would not must wait although its queue is entitled to what it needs.
    """

    def need_order_key(self, need: Need, /) -> int:
        queue = need.job.queue
        assert queue is not None
        accounts = self.accounts
        for above in self._tree.path(self._tree.position[queue.name]):
            if not accounts.is_within_share(above, need):
                return 1
        return 0

    def queue_order_key(self, queue: QueueState, need: Need | None, /) -> SortKey:
        # Rank siblings by this too: otherwise the job of another subtree could come first.
        grade = 0 if need is None else self.need_order_key(need)
        return grade, *super().queue_order_key(queue, need)
