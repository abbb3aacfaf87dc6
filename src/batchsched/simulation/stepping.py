"""Simulations that are driven from outside: one decision, one event, or a time after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.validation.arguments import checks_arguments
from batchsched.simulation.checks import SimulationError, faults_unless, is_number, refuse
from batchsched.simulation.decisions import Decision
from batchsched.simulation.engine import Policy, SimulationOnNodes
from batchsched.simulation.run import Run, prepared
from batchsched.simulation.settings import Incident, Passes, Reservation, Ties
from batchsched.simulation.view import View
from batchsched.simulation.work import Checkpoint
from batchsched.simulation.workload import Workload


@final
class Simulation:
    """A simulation that is advanced step by step, looked at, and gone on with.

    For policies that learn, for notebooks and debuggers. Where nobody else decides, the policy
    does; then a simulation that was advanced in any steps is the same as `simulate` with
    ``engine="general"``. Arguments are those of `simulate`.

    Raises:
        SimulationError: as `simulate`; or the policy has an engine of its own.

    >>> from batchsched.simulation import Easy, Job, Start
    >>> jobs = [Job(id=n, submit=n, run=10, processors=2, requested=10) for n in (1, 2, 3)]
    >>> simulation = Simulation(Workload(jobs).on(nodes=4), Easy())
    >>> view = simulation.to_decision()
    >>> view.now, [job.id for job in view.waiting]
    (1, [1])
    >>> simulation.decide([])  # not what the policy would do
    >>> simulation.to_time(5)  # here it does
    >>> [job.id for job in simulation.view.running], [job.id for job in simulation.view.waiting]
    ([1, 2], [3])
    >>> simulation.finish().jobs["start"]
    [2, 2, 12]
    """

    def __init__(
        self,
        workload: Workload,
        policy: Policy | SchedulerConfig,
        *,
        ties: Ties | None = None,
        passes: Passes | None = None,
        end_at_request: bool = True,
        incidents: Iterable[Incident] = (),
        reservations: Iterable[Reservation] = (),
        checkpoint: Checkpoint | None = None,
        resubmit_failed: bool = False,
        round_ends: float | None = None,
    ) -> None:
        self._given = given = prepared(
            workload,
            policy,
            ties=ties,
            passes=passes,
            end_at_request=end_at_request,
            incidents=incidents,
            reservations=reservations,
            checkpoint=checkpoint,
            resubmit_failed=resubmit_failed,
            round_ends=round_ends,
            engine="general",
        )
        is_general = type(given.policy).run is Policy.run
        what = "a policy without an engine of its own, such as Easy()"
        refuse(SimulationError, faults_unless(is_general, "policy", what, policy))
        self._engine = SimulationOnNodes(given.workload, given.runs, given.settings, given.policy)
        self._due: View | None = None
        """What the policy sees that is to decide now; None: it is not."""

    @property
    def now(self) -> float:
        """The time, in seconds on the clock of the workload."""
        return self._engine.now

    @property
    def next_time(self) -> float | None:
        """The time of the next event; None: there is none."""
        return self._engine.next_time

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens: no event is to come, and nothing is to be decided."""
        return self._due is None and not self._engine.has_next()

    @property
    def is_due(self) -> bool:
        """Whether a decision is to be made before anything else can happen."""
        return self._due is not None

    @property
    def view(self) -> View:
        """What a policy sees now. It is valid until the simulation is advanced."""
        return self._engine.view() if self._due is None else self._due

    def to_decision(self) -> View | None:
        """Go on until a decision is to be made; return what is seen then. None: it is over.

        Where one is due already, it stays so.
        """
        if self._due is None:
            self._due = self._engine.to_pass()
        return self._due

    @checks_arguments(SimulationError, but_items_of="decisions")
    def decide(self, decisions: Iterable[Decision] | None = None) -> None:
        """Make the decision that is due: these, as one step, or those of the policy (None).

        Raises:
            SimulationError: No decision is due.
            PolicyError: A decision is invalid.

        """
        view, self._due = self._due, None
        if view is None:
            raise SimulationError.at(
                "decide", f"no decision is due at {self.now:,} s; go on with to_decision()"
            )
        self._engine.carry_out(self._engine.decisions(view) if decisions is None else decisions)

    def to_event(self) -> bool:
        """Make the decision that is due, if any, as the policy does, and let one event happen.

        A decision that is due then is not made yet. Returns whether there was an event.
        """
        if self._due is not None:
            self.decide()
        if not self._engine.has_next():
            return False
        self._due = self._engine.next_event()
        return True

    def to_time(self, time: float, /) -> None:
        """Let everything happen up to a time, and at it; the policy decides.

        Raises:
            SimulationError: The time has passed.

        """
        is_right = is_number(time, least=self.now)
        refuse(SimulationError, faults_unless(is_right, "time", f"{self.now} s or later", time))
        engine = self._engine
        while self._due is not None or (engine.has_next() and (engine.next_time or 0) <= time):
            if self._due is not None:
                self.decide()
            else:
                self._due = engine.next_event()
        engine.pass_time(time)

    def finish(self) -> Run:
        """Go on to the end, as the policy decides, and return the results."""
        while self.to_decision() is not None:
            self.decide()
        given = self._given
        return Run(
            workload=given.workload,
            policy=given.policy,
            settings=given.settings,
            runs=given.runs,
            outcome=self._engine.outcome(),
        )

    def __repr__(self) -> str:
        return f"<Simulation of {self._given.policy} at {self.now:,} s>"
