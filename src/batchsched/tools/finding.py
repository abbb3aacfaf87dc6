"""What `check_config` finds."""

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
    """Something that a configuration can never do, or should not."""

    code: str
    """A stable name of what was found."""
    place: str
    """Where in the configuration."""
    consequence: str
    """What follows from it."""
    advice: str
    """What would work."""
    shows: Shows
    """What happens on `snapshot`: the configuration decides otherwise than with `instead`, or than
    on `mended`; evicts in cycle after cycle (which `instead` does not); or makes reservations. What
    has no effect makes it decide as `instead` does, which is without it. What cannot be built
    decides nothing at all, on this snapshot as on any other; `instead` does."""
    snapshot: Snapshot
    """A cluster of at most three jobs on which it shows."""
    instead: SchedulerConfig | None = None
    """The configuration with the advice taken, where there is one."""
    mended: Snapshot | None = None
    """`snapshot` with the advice taken, where it is queues or jobs that should be others."""
    shows_on_yours: bool | None = None
    """Whether it shows on the caller's own snapshot; None: none was given, or it shows on all."""

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
