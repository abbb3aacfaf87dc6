"""Which of the newest rules the reference follows, while the library gets them one by one.

P1 and P2: nodes are judged as they will be, a claim as a whole. P3: promises that cannot hold end.
P4: broken jobs take from each other. P5: limits and guarantees of proportion. Q1: a job's priority
before its tasks'. Q2: promises bind nobody. Q3: plans give way. Q4: leaders before workers.
Q5: what was just bound is taken back. Q6: nobody waits for what its queue can never have.
"""

from __future__ import annotations

__all__ = ["ALL", "IN_LIBRARY"]

ALL = frozenset({"Q1", "Q4", "Q6", "P1", "P2", "Q5", "Q2", "P3", "P5", "P4", "Q3"})
"""The rules that the reference has."""
IN_LIBRARY = frozenset({"Q1", "Q2", "Q3", "Q4", "Q6", "P1", "P2", "Q5", "P3", "P4", "P5"})
"""Those of them that the library has, too: what both decide is compared by these."""
