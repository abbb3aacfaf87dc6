"""A session that reports trace events.

An ordinary session has none of this code. A traced session calls its plugins and its placement
engine exactly like an ordinary one, and computes the events separately.
"""

from batchsched.session.trace_events import Trace
from batchsched.session.tracing.traced_session import TracedSession

__all__ = ["Trace", "TracedSession"]
