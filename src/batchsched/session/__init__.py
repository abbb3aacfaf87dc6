"""One cycle: the session, its statements, and what plugins say together.

The story of a cycle
====================

A session **opens** on the books of a cluster (`batchsched.state`). Plugins are opened tier by tier;
jobs that they find invalid are left out, with a reason. Promises of earlier cycles that can still
be kept are entered first, because nothing that comes now may take what others were told to wait
for.

Then **actions** run in the configured order. All of them do the same, and differ in what they
may do for whom:

1. *Turns* (`turns`): whose turn is it? Queues and jobs come in live order: whatever a job is given
   may move it, its queue and all queues above it back. So nothing is sorted once and then walked
   through.
2. *What it needs* (`batchsched.state.needs`): a job that is not ready needs its minimum at once; a
   ready one its next task. The need, not the task, is what limits of queues are asked about
   (`turns`), so that a gang does not hold places that its queue never lets it use.
3. *An attempt* (`attempts`): the need is tried in a statement, within a set of nodes if plugins
   offer sets (`candidates`), else anywhere. It is committed as a whole or rolled back as a whole.
4. *What came of it* is written down (`failures`) whether it was committed or not: that is what
   reasons are made of.

When all actions have run the session **closes** (`cycle`): tasks that are Allocated in jobs that
did not become ready are nothing, promises that can no longer be kept end, with why, and the final
state becomes outcomes and reasons.

What is never true
==================

* Half of what a job needs starts. A bind is decided when the job is ready, for all its Allocated
  tasks together.
* An operation remains of a statement that was not committed. What a statement does is applied at
  once, so that the next question sees it, and journalled, so that it can be undone exactly; what
  plugins chose for a task, such as devices, is part of the entry.
* A statement is opened inside another one. A trial that needs a trial marks its place and rolls
  back to it.
* A promise takes the place of a decision. What was evicted for a job stays promised to it over
  later cycles, until it starts or until the promise cannot be kept; else others could use the room
  before it, and the eviction would have been in vain.
* Explaining changes what is decided. Reasons are made at close, of the final state and of the
  records; whoever switches them off gets the same decisions.

How plugins speak together
==========================

An extension point is a question. `points.RULES` says of each how the answers of plugins become
one: the first that says something (orders), all must agree (predicates, limits), the first tier
with an opinion decides (victims), the sum (scores). `plugins` compiles each question into one
function when the session opens, so that a question that no plugin answers costs an `is None`.

Whom an action may evict is the one question with an answer of its own kind (`victims`): each
candidate alone, then all that are left together, because what may leave alone may not leave with
others. `batchsched.actions.eviction` searches with it.

Three floors
============

Imports go down only::

    cycle, attempts                                                     the cycle
    reasons, holders, candidates, turns                                 searching, explaining
    session, statements, outlook, orders, policy_state, failures        the session itself,
    plugins, victims, points                                            and what plugins say

What `failures` knows to fail again does not belong to the story: such attempts need not be made,
and that can be switched off (`batchsched.state.shortcuts`).
"""
