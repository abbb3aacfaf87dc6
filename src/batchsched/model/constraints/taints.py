"""Taints of nodes and tolerations of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from attrs import frozen

__all__ = ["Taint", "TaintEffect", "Toleration", "TolerationOperator", "untolerated"]


class TaintEffect(Enum):
    """What a taint does to tasks that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(Enum):
    """How a toleration compares its value with a taint's."""

    EQUAL = "Equal"
    EXISTS = "Exists"


@frozen(kw_only=True)
class Taint:
    """A mark on a node that keeps away tasks that do not tolerate it."""

    key: str
    value: str = ""
    effect: TaintEffect

    def repels(self) -> bool:
        """Return whether tasks must tolerate the taint (PreferNoSchedule only advises)."""
        return self.effect is not TaintEffect.PREFER_NO_SCHEDULE


@frozen(kw_only=True)
class Toleration:
    """The taints that a task tolerates.

    >>> maintenance = Taint(key="maintenance", value="disk", effect=TaintEffect.NO_EXECUTE)
    >>> Toleration(operator=TolerationOperator.EXISTS).tolerates(maintenance)
    True
    >>> Toleration(key="maintenance", value="fan").tolerates(maintenance)
    False
    """

    key: str = ""
    """The taint's key; empty with EXISTS: any key."""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect | None = None
    """The taint's effect; None: any effect."""

    def tolerates(self, taint: Taint, /) -> bool:
        """Return whether the toleration matches `taint`."""
        if self.effect is not None and self.effect is not taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator is TolerationOperator.EXISTS or self.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """Return the first taint that repels and is not tolerated. O(taints x tolerations)."""
    for taint in taints:
        if taint.repels() and not any(t.tolerates(taint) for t in tolerations):
            return taint
    return None
