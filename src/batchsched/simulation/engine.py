"""Policies, and the general engine: jobs on nodes, stopped, resized and resumed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop
from math import inf
from typing import Final, Never, Protocol, cast

from batchsched.errors import Fault
from batchsched.model.cluster import JobInfo
from batchsched.model.validation.tasks import has_requests, levels_of, requests_problems
from batchsched.model.validation.values import is_of, is_text, shown
from batchsched.simulation.arrivals import (
    ARRIVAL,
    CORRECTION,
    DUE,
    END,
    INCIDENT,
    RESERVATION,
    WAKE,
    Arrivals,
    Ended,
    Events,
)
from batchsched.simulation.books import Holding, NodeChoice, books_of_machine
from batchsched.simulation.checks import (
    JobId,
    SimulationError,
    faults_of_part,
    is_number,
    refuse,
    shortened,
)
from batchsched.simulation.decisions import Decision, Resize, Start, Stop, WaitingJob, Wake
from batchsched.simulation.pool import Pool, PoolScheduler, run_on_pool
from batchsched.simulation.predictors import (
    Corrector,
    Predictor,
    corrected,
    faults_of_beliefs,
    predicted,
    prediction_of,
)
from batchsched.simulation.settings import (
    Incident,
    JobCancelled,
    JobFailed,
    NodeDown,
    NodeDrained,
    NodesOfRun,
    NodeUp,
    Outcome,
    Passes,
    QueueSet,
    Settings,
    faults_of_incidents,
    in_order,
)
from batchsched.simulation.state import Job, SimulationState, at_or_after, exact
from batchsched.simulation.view import View
from batchsched.simulation.work import Checkpoint
from batchsched.simulation.workload import Workload


class Decides(Protocol):
    """Decides in one simulation."""

    def decide(self, view: View, /) -> Iterable[Decision]:
        """Return what to do now."""
        ...


Order = Callable[[WaitingJob, float], object]
"""Returns the key of a waiting job at a time; jobs with smaller keys come first."""


class Policy(ABC):
    """Decides which jobs start when and where, and which are stopped or resized.

    To write your own, implement `decide`:

    >>> from batchsched.simulation import Job, Workload, simulate
    >>> class WidestFirst(Policy):
    ...     def order(self, job, now):
    ...         return -job.processors
    ...     def decide(self, view):
    ...         for job in view.waiting:
    ...             places = view.place(job)
    ...             if places is not None:
    ...                 yield Start(job.id, places)
    >>> jobs = [Job(id=n, submit=0, run=60, processors=n) for n in (1, 2, 3)]
    >>> simulate(Workload(jobs).on(nodes=4), WidestFirst(), passes="instant").jobs["start"]
    [0, 60, 0]

    Policies hold their parameters, and no state of a simulation: one policy may be used in many
    simulations, and in other processes. What a policy remembers belongs into the object that
    `begin` returns. A policy of an engine of its own overrides `run`.
    """

    predictor: Predictor | None = None
    """Predicts run times, if the policy uses predictions."""
    corrector: Corrector | None = None
    """Corrects the predictions of jobs that run longer. (No pass follows a correction.)"""
    # Pyright takes a method that overrides an attribute for a function of three arguments.
    order: Order | Callable[[Never, WaitingJob, float], object] | None = None
    """A method `(job, now)`: the key by which waiting jobs are sorted at each pass, equal ones by
    arrival. None: all by arrival."""
    placement: NodeChoice | None = None
    """Chooses equal nodes for jobs that are started without places. None: the first that fit."""
    passes: Passes | None = None
    """When it decides, unless `simulate` says so. None: after each event."""
    checkpoint: Checkpoint | None = None
    """When jobs save their work, unless they or `simulate` say so. None: never."""
    is_scheduler: bool = False
    """Whether the library's own scheduler decides, which asks the predicates of its plugins."""

    def begin(self, workload: Workload, /) -> Decides:  # noqa: ARG002
        """Return what decides in a new simulation: an object with the method `decide`."""
        return self

    @abstractmethod
    def decide(self, view: View, /) -> Iterable[Decision]:
        """Return what to do now: `Start`, `Stop`, `Resize`, `Wake`, or ids of jobs to start.

        Called after each event, or once an instant; see `passes`. All that is returned is one
        step: first jobs give back what they lose, then they take what they get, in this order. If
        nothing starts while nothing runs and nothing will happen, the simulation ends and lists
        the jobs that are left.
        """

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate a workload whose jobs have the given work, in seconds at speed 1."""
        fast = self.fast_scheduler(workload)
        why_not = list(why_not_fast(self, workload, settings, has_one=fast is not None))
        if fast is None or takes_general(settings, why_not):
            return run_on_nodes(workload, runs, settings, self)
        return run_on_pool(
            workload, runs, fast, settings, predictor=self.predictor, corrector=self.corrector
        )

    def fast_scheduler(self, workload: Workload) -> Callable[[Pool], PoolScheduler] | None:  # noqa: ARG002
        """Return what makes the policy's scheduler of the fast engine; None: it has none."""
        return None

    def faults_of(self, workload: Workload, settings: Settings) -> Iterable[Fault]:  # noqa: ARG002
        """Yield what keeps the policy from simulating a workload."""
        return ()

    def __str__(self) -> str:
        return type(self).__name__


def why_not_fast(
    policy: Policy, workload: Workload, settings: Settings, *, has_one: bool
) -> Iterator[str]:
    """Yield why the fast engine cannot simulate this."""
    machine = workload.machine
    if not has_one:
        yield "it does not know this policy, or not with these arguments"
    if machine is not None and machine.infos:
        yield "it knows processors alone, not nodes"
    for name in ("info", "speed"):
        if workload.has_column(name):
            yield f"it knows no {name} of jobs"
    checkpoints: list[object] = [settings.checkpoint, policy.checkpoint]
    if workload.has_column("checkpoint"):
        checkpoints += workload.column("checkpoint")
    if any(isinstance(each, Checkpoint) and each.has_costs for each in checkpoints):
        yield "it knows no costs"
    if workload.has_dependencies and any(isinstance(each, tuple) for each in workload.after):
        yield "it knows no conditions but the end of one other job"
    if settings.incidents or settings.reservations:
        yield "it knows no incidents and no reservations"
    if settings.round_ends is not None:
        yield "it does not round ends"


def takes_general(settings: Settings, why_not: Sequence[str]) -> bool:
    """Return whether the general engine simulates, given why the fast one cannot.

    Raises:
        SimulationError: The fast one should, and cannot.
    """
    if settings.engine == "fast" and why_not:
        message = f"expected 'auto' or 'general', since {'; '.join(why_not)}"
        raise SimulationError.at("engine", message)
    return bool(why_not) or settings.engine == "general"


_DECISIONS: Final = (Start, Stop, Resize)
_MOST_PASSES: Final = 100
"""The most passes in a row that a policy may ask for at once."""
_MOST_IDLE: Final = 1000
"""The most passes in a row that a policy may ask for while nothing runs or will arrive."""
_NEED: Final = "need the policy Scheduled"


def run_on_nodes(
    workload: Workload, runs: Sequence[float], settings: Settings, policy: Policy
) -> Outcome:
    """Simulate a workload under any policy.

    Cost: an event is logarithmic in the number of events to come, plus the cost of the pass that
    follows it.

    Args:
        workload: The jobs and the machine.
        runs: The work of each job, in seconds at speed 1.
        settings: How to simulate.
        policy: The policy that decides.
    """
    return SimulationOnNodes(workload, runs, settings, policy).run()


class SimulationOnNodes:
    """One simulation under any policy, event by event and pass by pass."""

    def __init__(
        self, workload: Workload, runs: Sequence[float], settings: Settings, policy: Policy
    ) -> None:
        assert workload.machine is not None
        self._workload = workload
        self._settings = settings
        self._policy = policy
        self._runs = runs
        names_nodes = bool(settings.reservations) or any(
            is_of(each, kind)
            for each in settings.incidents
            for kind in (NodeDown, NodeDrained, NodeUp)
        )
        as_pool = policy.placement is None and not names_nodes and not policy.is_scheduler
        faults: list[Fault] = []
        if policy.placement is not None:
            faults += faults_of_part("placement", policy.placement, "begin", "FirstFit()")
            if not workload.machine.is_equal:
                message = "expected equal nodes, got others; use a policy without a placement"
                faults.append(Fault("placement", message))
        self._state = state = SimulationState(
            workload,
            runs,
            settings,
            books_of_machine(workload.machine, as_pool=as_pool),
            None if faults else policy.placement,
            policy.checkpoint,
            is_scheduler=policy.is_scheduler,
        )
        named = state.books.named
        self._node_of: dict[int | str, int] = {}
        for name, at in named.items():
            self._node_of |= {name: at, at: at}
        self._check(faults)
        state.who = str(policy)
        self._order = cast("Callable[[WaitingJob, float], object] | None", policy.order)
        self._reserve()
        count = len(workload)
        self._ends: list[float | None] = [None] * count
        self._endings = dict[int, str]()
        self._down_since = dict[int, float]()
        self._down: list[tuple[int, float, float | None]] = []
        self._events = Events(settings.ties, count)
        self._wakes_at: float = inf
        self._again = False
        self._ended = Ended(settings.progress, count)
        push = self._events.push
        self._arrivals = Arrivals(workload, lambda time, job: push(time, ARRIVAL, job, job))
        self._prediction = prediction_of(policy.predictor, workload, runs, state)
        self._decider = policy.begin(workload)
        self._once_an_instant = (settings.passes or policy.passes) == "instant"
        self._pending = False
        """Whether something has happened that the policy is to be told."""
        self._again_in_a_row = 0
        self._was_wake = False
        """Whether the last event was one that the policy asked for."""
        self._is_assessed = True
        """Whether it is known of the last event whether anything can follow from it."""
        self._idle = 0
        self._is_over = False
        for number, one in enumerate(settings.reservations):
            push(one.start, RESERVATION, number, version=1)
            push(one.end, RESERVATION, number, version=0)
        for number, incident in enumerate(settings.incidents):
            push(incident.at, INCIDENT, number)
        self._arrivals.push_next()

    # What is wrong

    def _check(self, faults: list[Fault]) -> None:
        workload, settings, policy = self._workload, self._settings, self._policy
        faults += faults_of_beliefs(policy.predictor, policy.corrector)
        faults += faults_of_incidents(
            settings.incidents, settings.reservations, self._node_of, workload.ids
        )
        faults += policy.faults_of(workload, settings)
        refuse(SimulationError, faults, shortened(list(self._faults_of_jobs()), "more faults"))

    def _faults_of_jobs(self) -> Iterator[Fault]:
        state, columns = self._state, self._state.columns
        known = dict[object, str | None]()
        labels = {label for node in state.books.nodes for label in node.info.labels}
        for index, each in enumerate(state.ids):
            info, speed = columns.infos[index], columns.speeds[index]
            if speed is not None and speed.label and speed.label not in labels:
                message = f"expected a label of some node, got {speed.label!r}"
                yield Fault(f"jobs[{each!r}].speed.label", message)
            tasks = self._workload.tasks(index)
            key = (columns.sizes[index] if tasks is None else -1 - tasks.number, speed)
            if key not in known:
                known[key] = self._problem_of(index, info)
            problem = known[key]
            if problem is not None:
                what = "processors" if info is None else "info"
                yield Fault(f"jobs[{each!r}].{what}", problem)

    def _problem_of(self, index: int, info: JobInfo | None) -> str | None:
        state, policy = self._state, self._policy
        if info is not None and not policy.is_scheduler:
            if policy.placement is not None:
                return f"expected processors, which the placement {policy.placement} needs"
            for task in info.tasks:
                if task.host_ports or task.pod_affinity or task.pod_anti_affinity or task.claims:
                    return "host ports, affinity to other tasks and claims of devices " + _NEED
            if has_requests(info):
                return "what it asks of topologies " + _NEED
        if info is not None and has_requests(info):
            levels = levels_of(self._state.machine.topologies)
            found = [f"{below}: {message}" for below, message in requests_problems(info, levels)]
            if found:
                return "; ".join(found)
        shape, speed = state.shape_of(index), state.columns.speeds[index]
        if shape is None:
            return "it needs something that no node offers"
        if speed is not None and not speed.of_tasks(shape.need):
            return f"expected a speed of the {shape.need} tasks that it needs, got none"
        if policy.is_scheduler or policy.placement is not None:
            return None
        empty = {node.index: (node.capacity, 0) for node in state.books.nodes}
        if state.first_fit(shape, shape.need, dict(empty), lambda _: True) is None:
            return (
                "it does not fit on the machine, even if nothing else runs; leave it out with "
                "workload.where(...), or use a larger machine"
            )
        return None

    def _reserve(self) -> None:
        """Tell the nodes their reservations."""
        for one in self._settings.reservations:
            jobs = frozenset(self._state.index_of[job] for job in one.jobs)
            for node in one.nodes:
                book = self._state.books.nodes[self._node_of[node]]
                book.reservations.append((one.start, one.end, jobs))
                self._state.books.has_reservations = True

    # The loop

    def run(self) -> Outcome:
        """Go on to the end."""
        while (view := self.to_pass()) is not None:
            self.carry_out(self._decider.decide(view))
        return self.outcome()

    @property
    def now(self) -> float:
        """The time of the last event, or that was passed to `pass_time`."""
        return self._state.now

    @property
    def next_time(self) -> float | None:
        """The time of the next event, or pass; None: there is none."""
        if self._decides_again():
            return self._state.now
        return self._events.heap[0][0] if self._events.heap else None

    def pass_time(self, now: float) -> None:
        """Let time pass until the next event, at most."""
        self._state.now = now

    def view(self) -> View:
        """Return what is there now, outside of a pass."""
        return View(self._state, self._order, ())

    def decisions(self, view: View) -> Iterable[Decision]:
        """Return what the policy decides in a pass."""
        return self._decider.decide(view)

    def to_pass(self) -> View | None:
        """Go on until the policy is to decide; return what it sees. None: it is over."""
        while self.has_next():
            view = self.next_event()
            if view is not None:
                return view
        return None

    def has_next(self) -> bool:
        """Return whether an event, or another pass at this instant, is to come."""
        if self._is_over or self._decides_again():
            return not self._is_over
        events = self._events.heap
        if not self._is_assessed:
            self._is_assessed = True
            is_idle = self._was_wake and not self._state.running and self._wakes_at < inf
            self._idle = self._idle + 1 if is_idle and len(events) == 1 else 0
        self._is_over = self._idle > _MOST_IDLE or not events
        return not self._is_over

    def _decides_again(self) -> bool:
        events = self._events.heap
        is_last = not (events and events[0][0] == self._state.now)
        return self._again and (is_last or self._again_in_a_row > 0)

    def next_event(self) -> View | None:
        """Let the next event happen; return what the policy sees if it is to decide then."""
        state, events = self._state, self._events.heap
        if self._decides_again():
            self._again = False
            self._again_in_a_row += 1
            if self._again_in_a_row > _MOST_PASSES:
                message = f"asked for more than {_MOST_PASSES} passes in a row; it never settles"
                raise state.wrong(message)
            state.cause("wake")
            return self._open_pass()
        self._again_in_a_row = 0
        now, _, _, kind, which, version = heappop(events)
        state.now = now
        if kind == ARRIVAL:
            self._arrivals.arrived(which)
            self._pending |= self._arrive(which)
        elif kind == END:
            self._pending |= self._end(which, version)
        elif kind == DUE:
            job = state.jobs[which]
            if job is not None and job.version == version:
                self._release(job)
        elif kind == CORRECTION:
            self._correct(which, version)
        elif kind == WAKE:
            if now == self._wakes_at:
                self._wakes_at = inf
                state.cause("wake")
                self._pending = True
        elif kind == INCIDENT:
            self._pending |= self._apply(self._settings.incidents[which])
        else:
            self._pending |= self._set_reservation(which, starts=version == 1)
        self._was_wake, self._is_assessed = kind == WAKE, False
        if self._pending and not (self._once_an_instant and events and events[0][0] == now):
            self._pending = False
            return self._open_pass()
        return None

    def _open_pass(self) -> View:
        causes, self._state.causes = tuple(self._state.causes), []
        return View(self._state, self._order, causes)

    # Events

    def _arrive(self, index: int) -> bool:
        if index in self._endings:
            return False
        estimate = None
        if self._prediction is not None:
            estimate = predicted(self._prediction, index, self._workload)
        self._state.arrive(index, estimate)
        self._state.cause("arrival", self._state.ids[index])
        return True

    def _end(self, index: int, version: int) -> bool:
        job = self._state.jobs[index]
        if job is None or version not in (job.version, job.released):
            return False
        if not job.released:
            self._release(job)
        self._finish(job)
        return True

    def _release(self, job: Job) -> None:
        """Let a job release what it holds; its end may be processed later at the same instant."""
        early = job.expected > self._state.now
        version = job.version
        self._let_go(job)
        job.released = version
        self._state.cause("end", job.id, early=early)

    def _finish(self, job: Job) -> None:
        now = self._state.now
        self._ends[job.index] = now
        job.released = 0
        job.version += 1
        job.seen = job.info = job.uids = None  # they may be asked for again, but seldom are
        self._state.unended.pop(job.index, None)
        if self._prediction is not None:
            self._prediction.ended(job.index, self._runs[job.index])
        self._arrivals.happened(job.index, now, "started", "ended", "succeeded")
        self._ended.add()

    def _let_go(self, job: Job) -> None:
        holding = job.holding
        assert holding is not None
        self._state.change_holding(job, None)
        self._state.give_back(job, holding, None)

    def _correct(self, index: int, version: int) -> None:
        state, job, corrector = self._state, self._state.jobs[index], self._policy.corrector
        if job is None or job.version != version or corrector is None:
            return
        requested = state.columns.requested[index]
        estimate = corrected(
            corrector, job.first_estimate, job.estimate, job.corrections, requested
        )
        if estimate == job.estimate:
            return
        job.estimate = estimate
        job.corrections += 1
        job.seen = None
        job.duration = state.duration(job)
        del state.running[bisect_left(state.running, (job.expected, index))]
        job.advance(exact(state.now))
        end = state.expect(job)
        self._push_expected(job, end)

    def _push_expected(self, job: Job, end: float, sequence: int | None = None) -> None:
        """Push what happens when a job is expected to end."""
        if job.expected == inf:
            return
        if self._policy.corrector is not None and end > job.expected:
            self._events.push(job.expected, CORRECTION, job.index, version=job.version)
        elif end == job.expected and self._events.due_first:
            self._events.push(job.expected, DUE, job.index, sequence, job.version)

    def _push_end(self, job: Job) -> None:
        """Push the end of a job that holds something, if it works."""
        end = self._state.expect(job)
        if end < inf:
            self._events.push(end, END, job.index, version=job.version)
            self._push_expected(job, end, self._events.sequence)

    # Incidents and reservations

    def _apply(self, incident: Incident) -> bool:
        """Apply an incident; return whether anything has happened."""
        state = self._state
        match incident:
            case NodeDown() | NodeDrained() | NodeUp():
                return self._set_node(incident)
            case QueueSet():
                state.queues_set[incident.queue.name] = incident
                state.cause("queue", incident.queue.name)
                return True
            case JobCancelled():
                index = state.index_of[incident.job]
                if self._ends[index] is not None or index in self._endings:
                    return False
                return self._leave(index, "cancelled")
            case JobFailed():
                index = state.index_of[incident.job]
                job = state.jobs[index]
                if job is None or job.holding is None or not job.began:
                    return False
                if not self._settings.resubmit_failed:
                    return self._leave(index, "failed")
                self._stop(job, told=True)
                return True

    def _leave(self, index: int, ending: str) -> bool:
        """Remove a job that has not ended; return whether it had arrived."""
        state, job = self._state, self._state.jobs[index]
        self._endings[index] = ending
        if job is not None:
            early = job.holding is not None and job.expected > state.now
            if job.holding is not None:
                self._let_go(job)
            else:
                self._state.unqueue(job)
            job.version += 1
            state.unended.pop(index, None)
            state.cause("failed" if ending == "failed" else "cancelled", job.id, early=early)
            if state.starts[index] is not None:
                self._ends[index] = state.now
        self._arrivals.happened(index, state.now, "started", "ended", "failed")
        return job is not None

    def _set_node(self, incident: NodeDown | NodeDrained | NodeUp) -> bool:
        state, index = self._state, self._node_of[incident.node]
        node, name, now = state.books.nodes[index], state.books.nodes[index].info.name, state.now
        if isinstance(incident, NodeUp):
            if node.in_service and not node.drained:
                return False
            if not node.in_service:
                self._down.append((index, self._down_since.pop(index), now))
            state.books.set_node(node, in_service=True, drained=False)
            state.cause("up", name, early=True)
            return True
        if not node.in_service or (node.drained and isinstance(incident, NodeDrained)):
            return False
        if isinstance(incident, NodeDrained):
            state.books.set_node(node, in_service=True, drained=True)
            state.cause("drained", name)
            return True
        self._stop_all_on(index, frozenset())
        state.books.set_node(node, in_service=False, drained=False)
        self._down_since[index] = now
        state.cause("down", name)
        return True

    def _stop_all_on(self, node: int, spared: frozenset[int]) -> None:
        for index in list(self._state.books.nodes[node].held):
            job = self._state.jobs[index]
            if job is not None and index not in spared:
                self._stop(job, told=True)

    def _set_reservation(self, number: int, *, starts: bool) -> bool:
        state, one = self._state, self._settings.reservations[number]
        jobs = frozenset(state.index_of[job] for job in one.jobs)
        for node in dict.fromkeys(self._node_of[node] for node in one.nodes):
            if starts:
                self._stop_all_on(node, jobs)
            state.books.nodes[node].reserved = (one, jobs) if starts else None
        state.cause("reserved" if starts else "unreserved", one.name)
        return True

    # Stops, and the queue

    def _stop(self, job: Job, *, told: bool = False) -> None:
        """Stop a job: it waits again with what it kept, or has ended, if that is all."""
        state = self._state
        job.advance(exact(state.now))
        began = job.began
        if began:
            job.kept = job.saved()
            state.lost[job.index] += job.done - job.kept
            job.done = job.kept
        early = job.expected > state.now
        self._let_go(job)
        state.unended.pop(job.index, None)
        if began and job.kept >= job.run:
            state.cause("end", job.id, early=early)
            self._finish(job)
            return
        if began:
            job.stops += 1
        state.enqueue(job)
        if told:
            state.cause("stop", job.id, early=True)

    # Decisions

    def carry_out(self, given: Iterable[Decision]) -> None:
        """Carry out what was decided in a pass, as one step."""
        state = self._state
        try:
            decisions = list(given)
        except TypeError as cause:
            if is_of(given, Iterable):  # type: ignore[type-abstract]
                raise
            message = f"expected decisions, got {shown(given)}; return a list, or yield them"
            raise state.wrong(message) from cause
        if decisions:
            self._carry_out(decisions)

    def _carry_out(self, decisions: Iterable[Decision]) -> None:
        """Carry out decisions as one step: first what is given back, then what is taken."""
        state = self._state
        taking: list[tuple[Start | Resize, Job, Holding | None]] = []
        touched: dict[int, str] = {}
        for each in decisions:
            if isinstance(each, Wake):
                self._wake(each.at)
                continue
            decision: Start | Stop | Resize
            decision = each if isinstance(each, _DECISIONS) else Start(each)
            if not isinstance(decision, Stop):
                faults = decision.cost is not None and not is_number(decision.cost, least=0)
                if faults:
                    raise state.error(decision.job, f"was given the cost {decision.cost!r}")
            job = self._job_of(decision, touched)
            if isinstance(decision, Stop):
                self._stop(job)
            elif isinstance(decision, Resize):
                after = state.holding_of(job, decision.places, decision.devices)
                assert job.holding is not None
                if after.counts != job.holding.counts:
                    state.give_back(job, job.holding, after)
                taking.append((decision, job, after))
            else:
                taking.append((decision, job, None))
        for decision, job, holding in taking:
            if isinstance(decision, Resize):
                assert holding is not None
                self._resize(decision, job, holding)
            elif self._ends[job.index] is None:
                self._start(decision, job)

    def _job_of(self, decision: Start | Stop | Resize, touched: dict[int, str]) -> Job:
        """Return the job of a decision.

        Raises:
            PolicyError: It does not wait, or does not run, or is decided on twice.
        """
        state = self._state
        each = decision.job
        index = state.index_of.get(each) if is_of(each, int) or is_text(each) else None
        job = None if index is None else state.jobs[index]
        if job is None or index is None:
            raise state.error(each, "does not wait: there is no such job yet")
        before = touched.get(index, "holds" if job.holding is not None else "waits")
        if job.holding is None and before == "waits" and self._has_gone(job):
            before = "has ended"
        wanted = "waits" if isinstance(decision, Start) else "holds"
        if before != wanted:
            what = "does not wait" if wanted == "waits" else "does not run"
            raise state.error(job, what)
        touched[index] = "waits" if isinstance(decision, Stop) else "was decided on"
        return job

    def _has_gone(self, job: Job) -> bool:
        return bool(self._ends[job.index] is not None or job.index in self._endings or job.released)

    def _wake(self, at: float) -> None:
        now = self._state.now
        if not (is_number(at, least=now) or at == inf):
            raise self._state.wrong(f"asked to wake at {at!r}, in the past")
        if at == now:
            self._again = True
        elif at != self._wakes_at:
            self._wakes_at = at
            if at < inf:
                self._events.push(at, WAKE, -1)

    def _start(self, decision: Start, job: Job) -> None:
        state = self._state
        places = state.usual_places(job) if decision.places is None else decision.places
        if places is None:
            raise state.error(job, "does not fit")
        devices = None if decision.places is None else decision.devices
        holding = state.holding_of(job, places, devices)
        cost = state.restart_cost(job) if decision.cost is None else exact(decision.cost)
        state.take(job, holding, None)
        self._state.unqueue(job)
        state.change_holding(job, holding)
        job.owed = cost
        self._begun(job)

    def _resize(self, decision: Resize, job: Job, after: Holding) -> None:
        state = self._state
        before = job.holding
        assert before is not None
        is_same = before.holds_the_same(after)
        began = job.began
        cost = 0 if decision.cost is None else exact(decision.cost)
        if decision.cost is None and began and not is_same:
            cost = exact(job.checkpoint.resize)
        if is_same and not cost:
            return
        if not is_same:
            state.take(job, after, before)
            if began and before.tasks == after.tasks:
                state.moves[job.index] += 1
            elif began:
                state.resizes[job.index] += 1
        state.change_holding(job, after)
        job.owed += cost
        self._begun(job)

    def _begun(self, job: Job) -> None:
        """Push the end of a job that was given places."""
        state = self._state
        if job.start is not None and not job.began:
            job.began = True
            self._arrivals.happened(job.index, state.now, "started")
        self._push_end(job)

    # The outcome

    def outcome(self) -> Outcome:
        """Return when jobs started and ended so far."""
        self._ended.tell()
        state = self._state
        held: list[float] = [0] * len(self._workload)
        for _, index in state.running:  # jobs that hold resources for ever
            job = state.jobs[index]
            assert job is not None
            state.intervals.append((index, job.interval_since, state.now))
        for index, start, end in state.intervals:
            held[index] += end - start
        jobs = state.jobs
        predicted = [0 if job is None else job.first_estimate for job in jobs]
        down = [*self._down, *((node, since, None) for node, since in self._down_since.items())]
        books = state.books
        order = in_order(state.pieces)
        parents = getattr(self._decider, "queue_parents", dict[str, str])
        return Outcome(
            starts=state.starts,
            ends=self._ends,
            eligible=self._arrivals.eligible,
            unfinished=dict(self._unfinished()),
            endings=self._endings,
            predicted=predicted if self._prediction is not None else None,
            held=held,
            preemptions=[0 if job is None else job.stops for job in jobs],
            intervals=sorted(state.intervals),
            parents=parents(),
            resizes=state.resizes,
            moves=state.moves,
            lost_work=[at_or_after(each) for each in state.lost],
            overhead=[0 if job is None else at_or_after(job.overhead) for job in jobs],
            nodes=NodesOfRun(
                names=tuple(node.info.name for node in books.nodes),
                dimensions=books.dimensions,
                capacity=tuple(node.capacity for node in books.nodes),
                pieces=[state.pieces[number] for number in order],
                devices={
                    place: state.devices[number]
                    for place, number in enumerate(order)
                    if number in state.devices
                },
                down=tuple(sorted(down, key=lambda each: each[:2])),
            ),
            engine="general",
        )

    def _unfinished(self) -> Iterator[tuple[int, str]]:
        left = [index for index, end in enumerate(self._ends) if end is None]
        why_waiting = cast(
            "Callable[[Sequence[JobId]], Mapping[JobId, str]] | None",
            getattr(self._decider, "why_waiting", None),
        )
        reasons: Mapping[JobId, str] = {}
        if left and why_waiting is not None:
            reasons = why_waiting([self._state.ids[index] for index in left])
        for index in left:
            each, job = self._state.ids[index], self._state.jobs[index]
            if index in self._endings:
                yield index, f"it was {self._endings[index]} before it started"
            elif job is None:
                why = self._arrivals.why_never(index)
                yield index, why or "it never arrived"
            elif each in reasons:
                yield index, reasons[each]
            elif job.holding is not None:
                has = f"{job.holding.tasks} of the {job.shape.need} tasks that it needs"
                yield index, f"it holds {has}, and nothing else will happen"
            else:
                size, free = self._workload.processors[index], self._state.books.free_processors()
                free_now = f"with {free} processors free for its {size}"
                why = f"{self._state.who} did not start it, {free_now}"
                yield index, f"{why}, and nothing else will happen"
