"""Records of cycles for replay: the first snapshot, the events and the decisions."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import FormatError
from batchsched.live import Cluster, Event
from batchsched.model.immutable import AsTuple
from batchsched.model.result import CycleResult
from batchsched.model.serialisation import Format, JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.arguments import checks_arguments
from batchsched.scheduler import Scheduler
from batchsched.tools.causes import decisions
from batchsched.tools.comparison import CycleComparison, compare


@frozen
class EventLog:
    """Events in the order in which they happened, to be stored.

    >>> from batchsched.live import TaskSucceeded
    >>> log = EventLog([TaskSucceeded("t1")])
    >>> log.to_dict()["events"]
    [{'type': 'TaskSucceeded', 'uid': 't1'}]
    >>> EventLog.from_dict(log.to_dict()) == log
    True
    """

    events: tuple[Event, ...] = field(default=(), converter=AsTuple[Event])

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the events as dicts, lists, strings and numbers only, ready for JSON."""
        return _EVENT_LOG.to_dict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, object], /) -> EventLog:
        """Return the events written by `to_dict`.

        Raises:
            FormatError: they cannot be read; all faults at once, each with its path.

        """
        return _EVENT_LOG.from_dict(given)

    @classmethod
    def json_schema(cls) -> dict[str, JsonValue]:
        """Return the JSON Schema (2020-12) of what `to_dict` gives."""
        return _EVENT_LOG.json_schema()


@frozen(kw_only=True)
class RecordedCycle:
    """A cycle: the events since the last one, and its result."""

    events: tuple[Event, ...] = field(default=(), converter=AsTuple[Event])
    result: CycleResult


@frozen(kw_only=True)
class Record:
    """A cluster at the beginning, followed by cycles with their events and results.

    The decisions of a cycle take effect directly after it (`batchsched.live.Cluster.carry_out`); if
    something else happened, the events of the next cycle must say so.
    """

    config: SchedulerConfig
    snapshot: Snapshot
    """The cluster before the first events."""
    cycles: tuple[RecordedCycle, ...] = field(default=(), converter=AsTuple[RecordedCycle])

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the record as dicts, lists, strings and numbers only, ready for JSON."""
        return _RECORD.to_dict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, object], /) -> Record:
        """Return the record written by `to_dict`.

        Raises:
            FormatError: it cannot be read; all faults at once, each with its path.

        """
        return _RECORD.from_dict(given)

    @classmethod
    def json_schema(cls) -> dict[str, JsonValue]:
        """Return the JSON Schema (2020-12) of what `to_dict` gives."""
        return _RECORD.json_schema()


class Recorder:
    """Runs cycles on a cluster and records them.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, TaskInfo
    >>> from batchsched.live import JobArrived
    >>> one = Resource(milli_cpu=1000)
    >>> recorder = Recorder(Snapshot(nodes=[NodeInfo(name="n1", allocatable=one)],
    ...                              queues=[Queue(name="q")]))
    >>> task = TaskInfo(uid="t", name="t", resreq=one)
    >>> recorder.apply(JobArrived(JobInfo(name="j", queue="q", tasks=[task])))
    >>> len(recorder.cycle().binds)
    1
    >>> replay(recorder.record).differs_at is None
    True
    """

    def __init__(
        self,
        snapshot: Snapshot,
        config: SchedulerConfig | None = None,
        registry: Registry | None = None,
    ) -> None:
        scheduler = Scheduler(config, registry)
        self._first = snapshot
        self._config = scheduler.config
        self._cluster = Cluster(snapshot)
        self._live = scheduler.attach(self._cluster)
        self._events: list[Event] = []
        self._cycles: list[RecordedCycle] = []

    def apply(self, *events: Event) -> None:
        """Apply events to the cluster, and record them.

        Raises:
            EventError: an event does not fit the cluster; nothing has changed.

        """
        self._cluster.apply(*events)
        self._events += events

    def cycle(self) -> CycleResult:
        """Run a cycle, apply its decisions to the cluster, and return its result."""
        result = self._live.schedule()
        self._cluster.carry_out(result, at_once=True)
        self._cycles.append(RecordedCycle(events=self._events, result=result))
        self._events = []
        return result

    @property
    def record(self) -> Record:
        """The record so far."""
        return Record(config=self._config, snapshot=self._first, cycles=self._cycles)


@frozen(kw_only=True)
class Replay:
    """The result of replaying a record."""

    cycles: int
    """The number of cycles replayed: all, or up to the first that differs."""
    differs_at: int | None
    """The first cycle whose decisions differ, counted from 0; None: none does."""
    difference: CycleComparison | None
    """The differences of that cycle."""

    def __str__(self) -> str:
        if self.differs_at is None:
            return f"all {self.cycles} cycles make the same decisions"
        return f"cycle {self.differs_at} is the first that differs\n{self.difference}"


@checks_arguments()
def replay(
    record: Record, *, config: SchedulerConfig | None = None, registry: Registry | None = None
) -> Replay:
    """Replay a record, with this version and its own or another configuration.

    It ends at the first cycle whose decisions differ from the record, because the rest of the
    record follows from the recorded decisions. Reasons are not compared.

    Args:
        record: the record.
        config: the configuration to replay with; None: the recorded one.
        registry: the plugins and actions that the configuration may name.

    Raises:
        ArgumentError: an argument has the wrong type; all faults at once.
        EventError: an event of the record does not fit the cluster.

    """
    cluster = Cluster(record.snapshot)
    live = Scheduler(record.config if config is None else config, registry).attach(cluster)
    for position, recorded in enumerate(record.cycles):
        cluster.apply(*recorded.events)
        result = live.schedule()
        if decisions(result) != decisions(recorded.result):
            snapshot = cluster.snapshot()
            return Replay(
                cycles=position + 1,
                differs_at=position,
                difference=compare(recorded.result, result, snapshot),
            )
        cluster.carry_out(result, at_once=True)
    return Replay(cycles=len(record.cycles), differs_at=None, difference=None)


_EVENT_LOG = Format(EventLog, version=1, error=FormatError)
_RECORD = Format(Record, version=1, error=FormatError)
