"""Tools to test policies, plugins and schedulers; needs the extra ``testing``.

- Strategies for Hypothesis: `snapshots`, `configs`, `jobs`, `tasks`, `nodes`, `queues`,
  `queue_trees` and `resources`. Examples are printed as code; see `as_code`.
- Invariants of every cycle: `check_cycle`.
- Laws for plugins: `check_plugin`; `check_plain`, which proves declarations and hints; and
  `check_hash_seeds`, which compares two processes.
- A state machine of many cycles: `ClusterMachine`, which also finds `PingPong`.
"""

from batchsched.model.texts import describe_exports
from batchsched.testing.code import print_examples_as_code
from batchsched.testing.drawing.configs import configs
from batchsched.testing.drawing.devices import with_devices
from batchsched.testing.drawing.jobs import jobs, tasks
from batchsched.testing.drawing.nodes import nodes, resources
from batchsched.testing.drawing.queues import queue_trees, queues
from batchsched.testing.drawing.snapshots import snapshots
from batchsched.testing.hashing import HashSeedViolation, check_hash_seeds
from batchsched.testing.invariants import (
    INVARIANTS,
    RULES,
    Cycle,
    Invariant,
    InvariantViolation,
    check_cycle,
    invariant,
)
from batchsched.testing.invariants.cycle import Accounts, Place
from batchsched.testing.laws import LawViolation, VacuityWarning, check_plugin
from batchsched.testing.machine import ClusterMachine, LivingViolation
from batchsched.testing.plain import check_plain
from batchsched.tools.code import as_code
from batchsched.tools.ping_pong import PingPong, without_times

__all__ = [
    "INVARIANTS",
    "RULES",
    "Accounts",
    "ClusterMachine",
    "Cycle",
    "HashSeedViolation",
    "Invariant",
    "InvariantViolation",
    "LawViolation",
    "LivingViolation",
    "PingPong",
    "Place",
    "VacuityWarning",
    "as_code",
    "check_cycle",
    "check_hash_seeds",
    "check_plain",
    "check_plugin",
    "configs",
    "invariant",
    "jobs",
    "nodes",
    "queue_trees",
    "queues",
    "resources",
    "snapshots",
    "tasks",
    "with_devices",
    "without_times",
]

print_examples_as_code()

describe_exports(__name__)
