"""A plain-loop reference scheduler: the exact semantics, written down a second time.

It shares nothing with the library's own scheduler but the data model and the
matching of constraints. Everything is computed from scratch each time it is
asked for, and a statement is undone by going back to a copy of the whole state.
It is slow and simple, so that the fast scheduler can be compared with it.
"""

from batchsched.testing.reference.schedule import reference_schedule

__all__ = ["reference_schedule"]
