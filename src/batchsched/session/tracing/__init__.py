"""A session that tells what is asked and answered in it.

Nothing of this is there in a session that is not traced. A traced session asks its plugins
and its placement engine exactly what the other does; what it tells is put together beside it.
"""

from batchsched.session.tracing.teller import Trace
from batchsched.session.tracing.traced_session import TracedSession

__all__ = ["Trace", "TracedSession"]
