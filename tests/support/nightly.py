"""What is tried in each run is little of what is tried at night: of laws a thousand examples.

`tasks.py nightly` sets ``BATCHSCHED_NIGHTLY=1``, and draws other examples each time.
"""

import os

from hypothesis import settings

IS_NIGHTLY = os.environ.get("BATCHSCHED_NIGHTLY") == "1"
A_THOUSAND = 1000


def a_thousand_at_night(few: int) -> settings:
    """Return settings for a law that tries `few` examples by day."""
    return settings(max_examples=A_THOUSAND if IS_NIGHTLY else few, deadline=None)
