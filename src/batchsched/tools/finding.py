"""The findings of `check_config`."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.serialisation import JsonValue
from batchsched.model.snapshot import Snapshot

__all__ = ["Finding", "Shows"]

Shows = Literal[
    "cannot be built", "has no effect", "decides otherwise", "evicts for ever", "reserves"
]


@frozen(kw_only=True)
class Finding:
    """A problem of a configuration, with a cluster that shows it."""

    code: str
    """A stable name of the problem."""
    place: str
    """The place in the configuration."""
    consequence: str
    """The consequence of the problem."""
    advice: str
    """How to fix it."""
    shows: Shows
    """What happens on `snapshot`. "decides otherwise": the decisions differ from those with
    `instead`, or from those on `mended`. "evicts for ever": it evicts in cycle after cycle, which
    `instead` does not. "reserves": it makes reservations. "has no effect": it decides like
    `instead`, which lacks the ignored part. "cannot be built": it decides nothing on any snapshot,
    while `instead` does."""
    snapshot: Snapshot
    """A cluster of at most three jobs that shows the problem."""
    instead: SchedulerConfig | None = None
    """The configuration with the advice applied, if there is one."""
    mended: Snapshot | None = None
    """`snapshot` with the advice applied, if queues or jobs should change."""
    shows_on_yours: bool | None = None
    """Whether the caller's own snapshot shows it; None: none was given, or every snapshot does."""

    def __str__(self) -> str:
        return f"{self.place}: {self.code}: {self.consequence}; {self.advice}"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the finding as dicts, lists, strings and numbers only, ready for JSON."""
        return {
            "code": self.code,
            "place": self.place,
            "consequence": self.consequence,
            "advice": self.advice,
            "shows": self.shows,
            "snapshot": self.snapshot.to_dict(),
            "instead": None if self.instead is None else self.instead.to_dict(),
            "mended": None if self.mended is None else self.mended.to_dict(),
            "shows_on_yours": self.shows_on_yours,
        }
