"""What policies, plugins and schedulers are tested with; needs the extra ``testing``.

- Strategies for Hypothesis: `snapshots`, `configs`, `jobs`, `tasks`, `nodes`, `queues`,
  `resources`, and `invalid_snapshots`. Examples are printed as code; see `as_code`.
"""

from batchsched.testing.code import as_code, print_examples_as_code
from batchsched.testing.config_strategies import configs
from batchsched.testing.invalid import InvalidSnapshot, invalid_snapshots
from batchsched.testing.strategies import jobs, nodes, queues, resources, snapshots, tasks

__all__ = [
    "InvalidSnapshot",
    "as_code",
    "configs",
    "invalid_snapshots",
    "jobs",
    "nodes",
    "queues",
    "resources",
    "snapshots",
    "tasks",
]

print_examples_as_code()
