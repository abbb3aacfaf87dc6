"""The books of a cycle: what runs where, and what nodes, jobs and queues have because of it.

Everything that decides reads these books, and the ledger alone writes them. They know no policy:
whether a task *should* go somewhere is asked of plugins; that it *can* is added up here.

What a status means
===================

Who holds something on its node, who has been promised something there, who is charged to its job
and queue, and how it counts for its job:

>>> from batchsched import TaskStatus
>>> def statuses(view):
...     return " ".join(each.value for each in TaskStatus if getattr(each, view))
>>> statuses("holds")
'Allocated Binding Bound Running Releasing Unknown'
>>> statuses("charged")
'Allocated Pipelined Conditional Binding Bound Running'
>>> statuses("ready")
'Allocated Binding Bound Running Succeeded'
>>> statuses("waiting")
'Pipelined'
>>> statuses("valid")
'Pending Allocated Pipelined Conditional Reserved Binding Bound Running Succeeded'
>>> statuses("ended")
'Succeeded Failed'

Three of them need a word. *Allocated* is an intention: it becomes Binding, a decision, when its
job is ready, and nothing at all if the cycle ends before that; so a gang holds its places while
the cycle goes on, and no half of a gang leaves it. *Pipelined* is a promise of what is leaving,
*Conditional* one of what backfill tasks hold: they are charged, so that a queue cannot be promised
more than it may have, but a job does not start by them. *Reserved* wants a node and is charged for
nothing.

What a node has
===============

Of each node the books keep sums over its tasks: what nobody holds (`idle`), what Releasing tasks
hold, what is promised to Pipelined and to Conditional tasks, and what backfill tasks hold, in place
or Releasing. All questions about room are asked of four views that follow from these::

    idle          what nobody holds
    future_idle   idle + releasing - pipelined              when what leaves has left
    accessible    idle + backfilled + leaving - conditional if backfill tasks went
    eventual      idle + releasing + backfilled - pipelined - conditional     after both

A task fits *now* where all four have room for it: else it would take what was promised to another.
It fits *later* by future_idle and eventual, and *conditionally* by accessible and eventual. The
difference between views is what promises and backfill are about; on a node without either, all
four are one, and one comparison answers (`NodeState.divergence_count`).

What is never true
==================

* A view that was not negative becomes negative. A node may be overcommitted when the cycle begins,
  because a device failed or shrank under running tasks; then nothing that is done makes it worse.
* An amount changes without a task that changes. There are no corrections: who takes a task off a
  node subtracts what adding it had added, so undoing is exact, in whole numbers.
* A job counts a task twice. The ways of counting (`Counting`) are nested, so each task is counted
  from one of them on.
* Somebody else writes. An invariant that breaks is recorded (`Ledger.broken`) and ends the cycle
  with an error, whatever an action caught in between: a repaired book would hide a wrong decision.

Where to read on: `records` (what there is), `ledger` (what may change, and how), `groups` and
`needs` (what a job needs next), `units` (what is evicted together), `device_books` (the same four
views for single devices). `live_ledger` keeps a ledger between cycles; `memory` and `shortcuts`
are about remembering answers, and decide nothing.
"""
