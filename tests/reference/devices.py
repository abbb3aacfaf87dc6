"""Devices: whole ones that tasks claim, each task for itself or several tasks together.

Of what requests can say only the number is known: no selectors, parts, counters or alternatives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from itertools import combinations

from attrs import evolve

from batchsched import NodeInfo, TaskInfo, TaskStatus
from batchsched.devices import Device, DeviceClaim, DevicePick, DeviceRequest
from tests.reference.state import State

__all__ = ["NO_DEVICES", "Account", "Devices", "Picks"]

Picks = tuple[DevicePick, ...]
NO_DEVICES: Picks = ()


class Account(Enum):
    """Which tasks hold what they have, of those on a node."""

    IDLE = "as it is"
    FUTURE_IDLE = "once all that leaves has left, and all that is promised has come"
    ACCESSIBLE = "as it is, without loans to backfill tasks that nobody was promised"
    EVENTUAL = "once all that leaves, and all backfill tasks, have left"


NOW = tuple(Account)
LATER = (Account.FUTURE_IDLE, Account.EVENTUAL)
CONDITIONALLY = (Account.ACCESSIBLE, Account.EVENTUAL)


class Devices:
    """What tasks have of devices, and what they would get."""

    def __init__(self, state: State) -> None:
        self._state = state

    def choose(
        self,
        task: TaskInfo,
        node: NodeInfo,
        accounts: Sequence[Account],
        gone: Collection[TaskInfo] = (),
    ) -> Picks | None:
        """Return what a task gets on a node so that it is free in some accounts; None: too little.

        Tasks that are gone hold nothing.
        """
        if not task.claims:
            return NO_DEVICES
        holding = {
            account: [
                other
                for other in self._state.tasks.values()
                if other is not task and other not in gone and self._counts(other, account)
            ]
            for account in accounts
        }
        together: list[DevicePick] = []
        for claim in task.claims:
            for other in self._having(claim, task)[:1]:
                its = [pick for pick in self._state.picks(other) if pick.shared == claim.shared]
                if not all(self._reaches(node, pick, other) for pick in its):
                    return None
                together += [evolve(pick, claim=claim.name) for pick in its]
        allocated = {pick.shared for pick in together}
        taken = {
            account: {
                pick.device
                for other in others
                for pick in self._state.picks(other)
                if self._reaches(node, pick, other)
                and (pick.shared is None or pick.shared not in allocated)
            }
            for account, others in holding.items()
        }
        used = {pick.device for pick in together}
        if len(used) < len(together) or any(used & held for held in taken.values()):
            return None  # who has them leaves, and they are promised to another
        busy = used.union(*taken.values())
        free = [each for each in self._reached(node) if each.key not in busy]
        new = [
            (claim, request)
            for claim in task.claims
            if claim.shared is None or claim.shared not in allocated
            for request in claim.requests
        ]
        found = next(_allocations(new, free), None)
        if found is None:
            return None
        place = {claim.name: place for place, claim in enumerate(task.claims)}
        return tuple(sorted([*together, *found], key=lambda pick: place[pick.claim]))

    def _having(self, claim: DeviceClaim, task: TaskInfo) -> list[TaskInfo]:
        """Return who else has a claim of several tasks, also if it leaves, or comes only later.

        What is promised beside it is the same, as a claim has the same devices everywhere until
        the last of its tasks has left.
        """
        return [
            other
            for other in self._state.tasks.values()
            if other is not task
            and claim.shared is not None
            and any(self._counts(other, account) for account in Account)
            and any(pick.shared == claim.shared for pick in self._state.picks(other))
        ]

    def _counts(self, task: TaskInfo, account: Account) -> bool:
        """Return whether what a task has counts in an account of its node."""
        status = self._state.status(task)
        if self._state.node_name(task) is None:
            return False
        is_loan = self._state.is_backfill(task)
        leaves = status is TaskStatus.RELEASING
        match account:
            case Account.IDLE:
                return status.holds
            case Account.FUTURE_IDLE:
                return (status.holds and not leaves) or status is TaskStatus.PIPELINED
            case Account.ACCESSIBLE:
                return (status.holds and not is_loan) or status is TaskStatus.CONDITIONAL
            case Account.EVENTUAL:
                promised = (TaskStatus.PIPELINED, TaskStatus.CONDITIONAL)
                return (status.holds and not leaves and not is_loan) or status in promised

    def _reached(self, node: NodeInfo) -> list[Device]:
        """Return the devices that a node reaches, its own first, in device order."""
        every = [*node.devices, *self._state.snapshot.devices]
        return sorted(every, key=lambda each: (each.driver, each.pool))

    def _reaches(self, node: NodeInfo, pick: DevicePick, holder: TaskInfo) -> bool:
        """Return whether a node reaches a device that somebody has, maybe on another node."""
        own = self._state.node_name(holder) == node.name
        common = any(each.key == pick.device for each in self._state.snapshot.devices)
        return common or own


def _allocations(
    requests: Sequence[tuple[DeviceClaim, DeviceRequest]], free: Sequence[Device]
) -> Iterator[Picks]:
    """Yield all ways to serve requests: as they are listed, of devices in device order."""
    if not requests:
        yield NO_DEVICES
        return
    claim, request = requests[0]
    assert isinstance(request.count, int)
    for chosen in combinations(free, request.count):
        picks = [
            DevicePick(claim=claim.name, request=request.name, device=d.key, shared=claim.shared)
            for d in chosen
        ]
        left = [device for device in free if device not in chosen]
        for others in _allocations(requests[1:], left):
            yield (*picks, *others)
