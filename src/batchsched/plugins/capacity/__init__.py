"""capacity: a tree of queues with guarantees, deserved amounts, limits and weights.

The idea
========

Each queue *owns* something (what it deserves), *may have at most* something (its limit), and *may
borrow* the rest while others do not ask for it. Three questions follow, and each has a number:

=================== ==================================== =======================================
question            number                               where
=================== ==================================== =======================================
what is there       total, ceiling                       `supply`
what is its share   fair share F, computed at open       `accounts`: guarantees first, then what is
                                                         deserved, then the surplus by weight
what may it hold    its limit and all limits above it    `accounts`: hold H, of a leaf the larger of
                                                         what it has and its guarantee
=================== ==================================== =======================================

Shares are divided top-down by water-filling, once for each cycle: a share that moved with each
placement would chase itself. Limits are checked on each placement, on the path from the leaf to the
root, for everything that a job needs at once.

Covered, and on loan
====================

Whether something may be taken back is asked of *units* (`batchsched.state.units`), not of amounts:
nobody can give back half a gang. Walk the units of a queue, the most valuable first, and add up:
as long as the sum stays within the share, a unit is **covered**; what does not fit is **on loan**,
and a smaller unit after it may still be covered. `coverage` is that walk.

A queue **claims** by a right: up to its fair share, up to what it deserves, or up to what of that
can be met. It may take what is on loan, and nothing that the same share covers of others. In which
order: always from the queue that is fullest in what the claimant is short of, from the root down,
and there the least valuable unit (`claims`).

Why it ends
===========

Compare two states by the list of what is covered of each queue, the most valuable first. A claim
within a share makes the list of the claimant's queue larger, and no list smaller, as nothing that
is covered is taken. Placing makes none smaller either. There are finitely many lists, so in a
cluster where nothing arrives and nothing ends, claims end. Preempt could spoil this within a queue,
by putting something on loan in the place of what is covered; so it may not
(`plugin`, *victims of preempt*).

What is never true
==================

* Two queues evict one another in turn.
* A gang holds places which the limit of its queue will not let it complete: the need is asked as
  a whole, before its first task is placed.
* A guarantee is lent. It counts as held by its queue, whether used or not.
* The order in which queues, jobs or dimensions are given matters. Amounts are exact; what rounding
  leaves is dealt out by rule; ties end with creation time and name.

`Coverage` and `Supply` compute everything anew and are the definition. `RememberedCoverage` and
`RememberedSupply` give the same answers from what changed.
"""

from batchsched.model.texts import describe_exports
from batchsched.plugins.capacity.plugin import CapacityPlugin

__all__ = ["CapacityPlugin"]

describe_exports(__name__)
