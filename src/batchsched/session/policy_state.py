"""The state of a session: the ledger, the opened plugins, and the placement engine.

A session on a snapshot creates all of it. On a live cluster it is kept from cycle to cycle:
changes since the last cycle are applied, and the changes of a cycle are undone at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import cast

from sortedcontainers import SortedDict

from batchsched.errors import BatchschedError, ConfigError, Fault, problem_of
from batchsched.model.reasons import JobCondition
from batchsched.model.validation.values import shown
from batchsched.placement import CountsRoom, FollowsNodes, Placement
from batchsched.placement.plain_loop import Evaluator
from batchsched.plugin.changes import Changes
from batchsched.plugin.session_view import SessionView
from batchsched.session.cycle_reports import WaitingJob
from batchsched.session.known_failures import FailedTurns
from batchsched.session.node_room import NodeRoom
from batchsched.session.opened_plugins import ConfiguredPlugin
from batchsched.session.plugin_set import PluginSet
from batchsched.state.doors import Door
from batchsched.state.ledger import Ledger
from batchsched.state.live_ledger import LiveLedger
from batchsched.state.records import JobState, TaskState
from batchsched.trace import Teller

__all__ = ["PlacementFactory", "PolicyState"]

PlacementFactory = Callable[[Ledger, Evaluator], Placement]
"""Creates the placement engine of a session."""

MOST_CHANGES = 10_000
CHANGES_PER_NODE = 8
"""How many changes of nodes are logged before a new engine is created with an empty log."""
MOST_CLASSES = 2_000
"""The most equivalence classes of an engine before a new one is created."""

_NODE_FUNCTIONS = frozenset({"predicates", "node_scores"})


class PolicyState:
    """The state of one configuration on one cluster."""

    def __init__(
        self,
        ledger: Ledger,
        plugins: Sequence[ConfiguredPlugin],
        placement: PlacementFactory,
        *,
        promises_repel: bool = False,
        plain: frozenset[Door] = frozenset(),
        teller: Teller | None = None,
    ) -> None:
        """Open plugins and create an engine.

        Args:
            ledger: the cluster.
            plugins: the configured plugins.
            placement: creates the engine that finds nodes.
            promises_repel: whether required anti-affinity counts tasks that are promised to a
                node like running ones.
            plain: the doors behind which only plain definitions decide.
            teller: is told what happens, if the cycle is traced.

        """
        self.ledger = ledger
        self.teller = teller
        """What is told what happens, if the cycle is traced."""
        self._promises_repel = promises_repel
        self.plain = plain
        """The doors behind which only plain definitions decide."""
        self.view = SessionView(ledger, promises_repel=promises_repel, plain=plain)
        self._configured = plugins
        self._placement = placement
        self.plugin_set = PluginSet(plugins, self.view, teller)
        self.placement = self._make_engine()
        self.jobs: MutableMapping[str, JobState] = {}
        """The jobs of the session by UID, in order of UID."""
        self.left_out: dict[str, JobCondition] = {}
        """Why jobs are not in the session, by UID."""
        self.node_room = NodeRoom(ledger)
        self.waiting_jobs: dict[JobState, WaitingJob] = {}
        """Data of waiting jobs for pending reasons, for the state of jobs between cycles."""
        self.failed_turns: FailedTurns | None = None
        """The failed turns that need not be repeated, on a live cluster."""
        self.to_admit: Iterable[JobState] = ledger.jobs.values()
        """The jobs whose admission is to be decided."""
        self.foresees = self._can_foresee()
        """Whether turns that leave a job below its minimum are known to be rolled back, and the
        engine counts how many like tasks fit."""

    def _make_engine(self) -> Placement:
        plugins = self.plugin_set
        ledger = self.ledger
        self._classes_begin = ledger.classes_end
        evaluator = Evaluator(plugins.predicates, plugins.node_scores, ledger.dimensions)
        try:
            engine = self._placement(ledger, evaluator)
        except BatchschedError:
            raise  # a plugin failed when the engine called it
        except Exception as error:
            message = f"expected it to create a placement engine, but it raised {problem_of(error)}"
            raise ConfigError([Fault("placement", message)]) from error
        if not callable(getattr(engine, "best", None)):
            message = f"expected it to return a placement engine, got {shown(engine)}"
            raise ConfigError([Fault("placement", message)])
        # Checking a protocol costs as much as the other checks of a small cycle together.
        self._follows_nodes = isinstance(engine, FollowsNodes)
        self._counts_room = isinstance(engine, CountsRoom)
        return engine

    def _can_foresee(self) -> bool:
        return self._counts_room and self.plugin_set.opened.reject_below_minimum

    def _engine_follows(self) -> bool:
        """Let the engine process changed nodes; return whether it could."""
        if not isinstance(self.ledger, LiveLedger):
            return True
        node_slots = self.ledger.node_slots
        slots = node_slots.take_changed()
        if slots is None:
            return False
        if not slots:
            return True
        return self._follows_nodes and cast("FollowsNodes", self.placement).nodes_changed(slots)

    def diverging(self) -> Iterable[TaskState]:
        """Return the tasks whose state in the ledger differs from their description."""
        return self.ledger.diverging() if isinstance(self.ledger, LiveLedger) else ()

    def live_on(self) -> None:
        """Prepare for changes between cycles."""
        self.jobs = cast("MutableMapping[str, JobState]", SortedDict(self.jobs))
        self._forget_turns()

    def _forget_turns(self) -> None:
        """Drop all failed turns, and record new ones only if the plugins allow it."""
        ledger = self.ledger
        remembers = Door.ATTEMPTS not in self.plain and self.plugin_set.opened.vote_on_jobs_alone
        if remembers and isinstance(ledger, LiveLedger):
            self.failed_turns = FailedTurns(ledger)
        else:
            self.failed_turns = None

    @property
    def is_worn(self) -> bool:
        """Whether the logs are so large that creating a new engine costs little in comparison."""
        ledger = self.ledger
        return (
            len(ledger.log.nodes) > MOST_CHANGES + CHANGES_PER_NODE * len(ledger.nodes)
            or ledger.classes_end - self._classes_begin > MOST_CLASSES
        )

    def resume(
        self,
        changes: Changes,
        *,
        other_tasks_changed: bool = False,
        needs_new_view: bool = False,
    ) -> None:
        """Let plugins and engine process the changes in the ledger.

        Those that cannot are opened or created again, at the cost of a cycle from scratch.
        """
        if isinstance(self.ledger, LiveLedger) and not self._follows_nodes:
            # Do this before anything stores slots.
            self.ledger.node_slots.close_gaps()
        self.view.begin_cycle()
        nodes_changed = bool(changes.nodes or changes.nodes_gone)
        for job in changes.jobs_gone:
            self.jobs.pop(job.uid, None)
            self.left_out.pop(job.uid, None)
        for job in (*changes.jobs_gone, *changes.jobs):
            self.waiting_jobs.pop(job, None)
        if nodes_changed:
            self.waiting_jobs.clear()
            self.node_room.forget_nodes()
        elif other_tasks_changed:
            self.node_room.forget_others()
        self.node_room.trim()
        is_worn = self.is_worn
        if is_worn:
            self.ledger.log.nodes.clear()
        index = self.view.pod_affinity_if_any
        if needs_new_view or (is_worn and index is not None and index.is_active):
            self.plugin_set.forget_keys(self.view)
            self.view = SessionView(
                self.ledger, promises_repel=self._promises_repel, plain=self.plain
            )
            self.ledger.on_occupy = self.ledger.on_promise = None
            self.plugin_set = PluginSet(self._configured, self.view)
            anew = frozenset({"job_valid", *_NODE_FUNCTIONS})
        else:
            anew = self.plugin_set.resume(self.view, changes)
        if is_worn or anew & _NODE_FUNCTIONS or not self._engine_follows():
            if isinstance(self.ledger, LiveLedger):
                self.ledger.node_slots.take_changed()
            self.placement = self._make_engine()
            self._forget_turns()
        elif anew:
            self._forget_turns()
        if anew:
            self.waiting_jobs.clear()
        self.foresees = self._can_foresee()
        self.to_admit = self.ledger.jobs.values() if "job_valid" in anew else changes.jobs
