"""The state of queues at the end of a cycle, printed as a tree with bars."""

from __future__ import annotations

from attrs import frozen

from batchsched.model.amounts import shown_amount
from batchsched.model.immutable import FrozenMap
from batchsched.model.resource_limit import ResourceLimit
from batchsched.model.resources import Resource

__all__ = ["QueueOutcome", "QueueOutcomes"]

_NOTHING = Resource()


@frozen(kw_only=True)
class QueueOutcome:
    """The state of a queue and all queues below it at the end of a cycle."""

    parent: str | None = None
    """Its parent queue, if any."""
    fair_share: Resource = _NOTHING
    """The resources that it was entitled to in this cycle."""
    allocated: Resource = _NOTHING
    """The resources that its tasks hold or are promised, without backfill tasks."""
    guarantee: Resource = _NOTHING
    """Its guarantee, or the sum of the guarantees below it where that is larger."""
    limit: ResourceLimit | None = None
    """The most that it may hold; None: unlimited."""
    covered: Resource = _NOTHING
    """The resources of its tasks on nodes that are covered by fair shares: not reclaimable."""
    on_loan: Resource = _NOTHING
    """Those that are not covered: queues below their fair share can reclaim them."""


_BAR, _NAME, _STEP, _LINE = 20, 28, 2, 80
_TEXT = _LINE - _BAR - _NAME - len(" [] ")
_DIMENSION = 6
"""The fewest columns for the name of a dimension, such as memory."""
_WIDE = ((0x1100, 0x115F), (0x2E80, 0xA4CF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFF00, 0xFF60))
"""What takes two columns: East Asian scripts. (The tables of Python differ from one version to
the next.)"""


class QueueOutcomes(FrozenMap[str, QueueOutcome]):
    """The outcomes of queues by name, printed as a tree.

    Each queue is shown with the dimension of which it uses the largest part of its share: ``#`` is
    covered, ``~`` is on loan or not yet on a node, and ``.`` is unused.

    >>> share, held = Resource(milli_cpu=8000), Resource(milli_cpu=6000)
    >>> outcome = QueueOutcome(fair_share=share, allocated=held, covered=held)
    >>> print(QueueOutcomes({"research": outcome}))
    research                     [###############.....] cpu 6 of 8
    """

    __slots__ = ()

    def __str__(self) -> str:
        children: dict[str | None, list[str]] = {}
        for name, outcome in sorted(self.items()):
            parent = outcome.parent if outcome.parent in self else None
            children.setdefault(parent, []).append(name)
        lines: list[str] = []
        waiting = [(name, 0) for name in reversed(children.get(None, ()))]
        while waiting:
            name, depth = waiting.pop()
            lines.append(_line(name, self[name], depth))
            waiting += [(child, depth + 1) for child in reversed(children.get(name, ()))]
        return "\n".join(lines)


def _line(name: str, outcome: QueueOutcome, depth: int) -> str:
    indent = min(_STEP * depth, _NAME // 2)
    title = " " * indent + _shortened(name, _NAME - indent)
    dimension = _fullest(outcome)
    share, held = outcome.fair_share.get(dimension), outcome.allocated.get(dimension)
    covered, on_loan = outcome.covered.get(dimension), outcome.on_loan.get(dimension)
    whole = max(share, held)
    full = int(_BAR * min(covered, held) / whole) if whole else 0
    lent = (int(_BAR * held / whole) if whole else 0) - full
    bar = "#" * full + "~" * lent + "." * (_BAR - full - lent)
    amounts = f"{shown_amount(dimension, held)} of {shown_amount(dimension, share)}"
    if on_loan:
        with_loan = f"{amounts}, {shown_amount(dimension, on_loan)} on loan"
        if min(len(dimension), _DIMENSION) + len(with_loan) < _TEXT:
            amounts = with_loan
    text = f"{_shortened(dimension, max(_DIMENSION, _TEXT - len(amounts) - 1))} {amounts}"
    return f"{title}{' ' * (_NAME - _width(title))} [{bar}] {text}"


def _shortened(text: str, most: int) -> str:
    """Return a text in one line, in so many columns at most, with control characters escaped.

    What tells it from others is often at its end.
    """
    text = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    if _width(text) <= most:
        return text
    head, tail = "", ""
    for character in text:
        if _width(head + character) > most // 2:
            break
        head += character
    for character in reversed(text):
        if _width(head + character + tail) >= most:
            break
        tail = character + tail
    return f"{head}…{tail}"


def _width(text: str) -> int:
    """Return in how many columns of a terminal a text is shown."""
    return len(text) + sum(
        any(first <= ord(character) <= last for first, last in _WIDE) for character in text
    )


def _fullest(outcome: QueueOutcome) -> str:
    """Return the dimension of which the largest part of the share is held."""
    fullest, largest = "cpu", -1.0
    names = ("cpu", "memory", *sorted({*outcome.fair_share.scalars, *outcome.allocated.scalars}))
    for name in names:
        held, share = outcome.allocated.get(name), outcome.fair_share.get(name)
        part = held / share if share else float(bool(held)) * 2
        if part > largest:
            fullest, largest = name, part
    return fullest
