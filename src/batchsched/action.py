"""The API for authors of actions: the session that an action works on, and what actions share.

An action is an object with a method `execute` that gets a `Session`. What it reads of the cluster
are the live records of jobs, tasks, queues and nodes; it changes them only with the operations of
the session and of its statements.
"""

from batchsched.actions.action import Action, EvictsToCure
from batchsched.actions.eviction.make_room import EvictionRules, make_room
from batchsched.actions.placing import LADDER, NOW, NOW_OR_LATER, place
from batchsched.model.cluster import TaskStatus
from batchsched.model.texts import describe_exports
from batchsched.placement import Fit, Placement
from batchsched.plugin.arguments import Arguments
from batchsched.session.orders import LiveQueue
from batchsched.session.plugins import PluginSet
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import Turn, Turns, has_task_to_place, jobs_by_queue, tasks_to_place
from batchsched.session.victims import EvictionScope, RecentStarts, Victims
from batchsched.state.records import JobState, NodeState, QueueState, TaskState

__all__ = [
    "LADDER",
    "NOW",
    "NOW_OR_LATER",
    "Action",
    "Arguments",
    "EvictionRules",
    "EvictionScope",
    "EvictsToCure",
    "Fit",
    "JobState",
    "LiveQueue",
    "NodeState",
    "Placement",
    "PluginSet",
    "QueueState",
    "RecentStarts",
    "Session",
    "Statement",
    "TaskState",
    "TaskStatus",
    "Turn",
    "Turns",
    "Victims",
    "has_task_to_place",
    "jobs_by_queue",
    "make_room",
    "place",
    "tasks_to_place",
]

describe_exports(__name__)
