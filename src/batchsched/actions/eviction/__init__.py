"""Making room for a task by evicting others: who goes, where, and how it ends.

The question
============

Somebody *claims*: a job whose turn it is in preempt or reclaim has a task that fits nowhere as
things are. Is there a node where it would fit if others left, may they leave, and which of them is
it best to take? An eviction destroys work, so the answer must be defended three times: by right
(they may go), by sense (it is enough, and nothing would have been enough without them) and by
measure (nobody less important, and not fewer, would have done).

The words
=========

* A **unit** (`batchsched.state.units`) is what leaves together: a surplus task alone, the core of a
  gang as a whole, on all of its nodes. A gang without one of its minimum does no work, so to take
  one task of it would cost all and free little.
* A **candidate** is what the action's scope looks at: preempt its own queue, then its own job;
  reclaim other queues. A **victim** is a candidate that plugins let go
  (`batchsched.session.victims`).
* **Enough** on a node (`choosing.RoomOn`): the claimant fits once the units have left, plugins have
  a choice for it, limits allow it, and the node accepts it then. The last matters as much as the
  first: room beside a task that it must not run beside is none. It is asked of the node as it will
  be (`batchsched.session.outlook`).
* **May they leave together**: each alone, and all of them. Plugins are asked about a set too
  (`searching.NodeSearch.may_leave_together`), and the node, where it may come to refuse the
  claimant because of who leaves (`choosing.RoomOn.fewest`).
* An **opening** is a node with units that are enough there; a **set** is several nodes with room
  for a whole need, where plugins place gangs in domains.

The order of the search
=======================

`searching` is the definition for preempt, and for reclaim where no plugin makes claims. Of all
nodes where it is enough that victims leave, the one is taken whose most important victim is least
important: if priority 1 will do somewhere, priority 5 is not asked to go; it would evict the 1 in
the next cycle, and two would have been evicted for one start. Then the node where single tasks are
enough, before whole jobs and replicas; of those the one where the fewest are evicted.

`claims` is the definition where queues have shares (capacity). Taking what is on loan is easier to
justify than taking what somebody's share covers, and a surplus easier than a gang; so there are
four stages, and a later one is only begun if the earlier ones found no node at all.

Both are the same search but for what is best (`searching.find_opening`): where enough is leaving
already, nobody is evicted; and what plugins allow at need alone is taken only if nothing else is
enough.

`choosing` finds, on one node, the fewest units with which the task fits, in victim order. So it
does where backfill tasks leave for what they were lent, and where what unready jobs hold is
displaced.

`make_room.spare_units` looks back at the end of a turn. What was taken for one task of a gang may
have freed room for the others, too; each unit is tried without, all tasks are placed again, and
what can be done without stays.

`unblock` is for two broken gangs that each hold the other's place. No priority and no share tells
them apart, so the order of turns does.

What is never true
==================

* Somebody is evicted and nobody starts or is promised a place by it. Evictions stand in the
  statement of the whole turn: if the job does not become ready or wait with all that it needs,
  they are undone with it.
* A victim could have stayed: sparing, and taking the fewest.
* A round: a evicts b, b evicts a. What is evicted waits behind what it was evicted for, whose
  promise keeps the place meanwhile; and claims only ever make more of what shares cover
  (`batchsched.plugins.capacity`, *why it ends*).
* A decision comes from memory. `remembered_search` keeps which nodes need not be visited again, and
  can be switched off; then the definition visits them all and finds the same.
"""
