"""A plain-loop reference scheduler: a second implementation of the exact semantics.

It shares only the data model and the matching of constraints with the scheduler; `check_reference`
compares the two. Everything is computed from scratch at each use, and statements are rolled back by
restoring a copy of the whole state. It is slow and simple, so that the fast scheduler can be
compared with it.
"""

from tests.reference.agreement import agreement, check_reference
from tests.reference.schedule import KNOWN_ACTIONS, reference_schedule

__all__ = ["KNOWN_ACTIONS", "agreement", "check_reference", "reference_schedule"]
