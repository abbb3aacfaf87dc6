"""topology: gangs within one rack, block or other domain of a topology.

The question
============

A gang asks to be in one domain of some level (*required*), to be as close together as possible
(*preferred*), or that each part of it is in one domain (*segments*). In which set of nodes should
all of it be tried, and in which next? The plugin answers with sets of nodes in order
(`batchsched.plugin.candidates`); the session tries each as a whole, in one statement, and the first
in which all fits counts. So nothing here places a task, and a set that looks right but is not, for
a reason that no count sees, costs a trial and never a wrong decision.

The words
=========

* **Domain**: the nodes that agree in the labels of a level and of all wider ones, or nodes that are
  listed. As a tree of sets they are *areas* (`areas`).
* **Alike**: tasks that no predicate and no amount tells apart. For these, and only these, the
  number of tasks that fit in a domain is the sum over its nodes, and everything else can be
  counted before anything is tried. It is counted for a *stage*: with what is free now, with what
  will be, or without backfill tasks.
* **Holds**: a domain holds n tasks if enough whole segments fit in it, and the short one beside
  them.
* **Home**: where tasks of the same job (of a group, of a segment) already are. A gang that has a
  home grows and heals there; for a required level nothing else is offered.

The order
=========

Levels from the preferred to the required one, narrowest first, so that a gang is as close together
as it can be. Within a level the domain that has most of the home; then one where what may follow
fits, too; then the *tightest*: where fewest more would fit. The tightest leaves large holes whole
for the gang that needs one, as best fit does for bins; of domains equally tight, the one in the
fuller parent, for the same reason one level up.

Below the chosen domain the tasks are split over as few children as possible, whole segments first
(`splitting`), or evenly (`balanced`). Tasks that are not alike are assigned by a search instead
(`segments`); tasks that must be near one another by inter-pod affinity count as if they required
the domain of that label (`linked`).

Evictions and reservations ask the same question of another stage: domains by what would be free if
victims, or everybody, left. Required binds there; preferred plays no part, as nobody is evicted for
a wish.

What is never true
==================

* A task of a job with a required level is somewhere else than the domain of its home, whoever
  places it: each statement has its set, and raises outside of it.
* A gang waits although a domain that it may use holds it now (tasks alike).
* A narrower domain that holds the need is passed over for a wider one.
* A count decides alone. It is a bound on the trial, which asks every predicate.
* A gang without a request is decided otherwise than without the plugin.
"""

from batchsched.model.texts import describe_exports
from batchsched.plugins.topology.plugin import TopologyPlugin

__all__ = ["TopologyPlugin"]

describe_exports(__name__)
