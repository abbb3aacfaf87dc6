"""Plain Kubernetes objects to a snapshot, and decisions back to plain objects.

Objects are mappings as ``kubectl get -o json`` or the ``to_dict()`` of the official Python
client's objects give them. Nothing here talks to a cluster.

How objects are understood:

- **Nodes** have what ``status.allocatable`` says (``status.capacity`` where there is none):
  cpu, memory, ``pods`` as the most tasks (any number where it is missing), and as scalars
  extended resources, ``ephemeral-storage`` and ``hugepages-*``. A resource is extended if its
  name has a domain that is not Kubernetes' own; other resources are ignored, on nodes as in
  requests. Ephemeral storage and huge pages are left out where no pod asks for them. Scalars
  are in thousandths, also where they count bytes.
- **Pods** request the sum of their containers and sidecars, plus ``spec.overhead``; to start
  they need the maximum of that and of each init container with what runs beside it. A missing
  request is the limit of that name, as the API server sets it. ``spec.resources`` (requests of
  the pod as a whole) replaces what containers request of the same resource. A missing phase is
  Pending, and a missing UID is ``namespace/name``.
- **Pods with scheduling gates** are not scheduled: their status is Unknown, on no node.
- **Host ports** are the ``hostPort`` of containers and sidecars; on the host's network also
  their container ports. The ports of other init containers do not count.
- **Pod groups** become jobs. Pods belong to the group of their namespace that the annotation
  ``scheduling.k8s.io/group-name`` or ``scheduling.volcano.sh/group-name`` names, whatever
  scheduler they ask for. A group that names no queue draws on the default queue, and one that
  names no ``minMember`` needs 0 pods (the API writes 0 by leaving it out).
- **Roles**: ``spec.minTaskMember`` (Volcano) and ``spec.subGroups`` with ``minMember``, ``parent``
  and ``minSubGroup`` (KAI Scheduler) become groups of tasks with minima. A pod's role is what the
  annotation or label ``volcano.sh/task-spec`` or ``kai.scheduler/subgroup-name`` names. Roles that
  the group does not name, and pods without one (group ``-``), need nothing. Roles count here also
  where ``minMember`` is less than their sum, in which case Volcano does not look at them.
- **Priorities** of groups are those of their PriorityClass; without one, or with one that is
  not given, that of the class with ``globalDefault``, else 0. Pods have their own.
- **Queues** of kube-batch, Volcano and KAI Scheduler and Kueue's cluster queues and cohorts form
  one tree, with what they deserve, guarantees, limits and weights; ``docs/queues`` has a table of
  their fields. Those that are closed, by ``status.state`` or ``spec.stopPolicy``, and all below
  them start nothing new: the pending pods of their jobs are not scheduled (Unknown, on no node).
  What runs there goes on.
- **Pods without a group** that ask for this scheduler become jobs of one task, with their own
  name, priority and creation time, in the default queue.
- **Other pods** without a group only occupy their nodes; they are left out if they hold nothing.
  So do pods whose group is not given.
- **Pods on a node that is not given** hold nothing and are not scheduled.
- **Nodes whose pods hold more than they have** (a device failed) are full in that resource.
- **Reservations**: a pending pod with the annotation
  ``scheduling.k8s.io/kube-batch-reserved-node`` is Reserved on that node;
  `reservation_patches` writes and removes it. The annotation
  ``scheduling.k8s.io/kube-batch-backfill: "true"`` marks a backfill task.
- **Time**: a pod that holds resources has done so since ``status.startTime``; it may do so for
  ``spec.activeDeadlineSeconds``. Annotations of pod groups, and of pods without a group, tell
  more: ``batchsched/estimate``, ``batchsched/max-wait`` (or Volcano's ``sla-waiting-time``) as
  durations such as ``5400`` (seconds) or ``1h30m``; ``batchsched/deadline`` and
  ``batchsched/eligible-time`` as RFC 3339 times; ``batchsched/user``; ``batchsched/depends-on``
  as ``prepare=succeeded, other-namespace/job=ended`` (started, succeeded, ended or failed; a
  ``?`` after it: a job that is not there has ended well). On pods, ``batchsched/estimate`` goes
  before the deadline of the specification, and ``batchsched/attained-service`` tells for how
  long earlier runs held resources. The labels of a group, or of a pod without one, are its job's.
- **Plans**: annotations ``batchsched/planned-start`` (seconds since 1970) and
  ``batchsched/planned-node`` of pending pods are their job's plan; `plan_patches` writes and
  removes them.
- **Promises**: a pending pod with ``status.nominatedNodeName`` is Pipelined on that node;
  `nomination_patches` writes and removes it.
- A ``namespaceSelector`` of pod affinity is replaced by the namespaces that it selects now.
  ``matchLabelKeys`` need nothing: the API server has merged them into the label selector.

What changes scheduling elsewhere and is not supported here gives a `Notice`: see `read_objects`.
"""

from batchsched.kubernetes.decisions import (
    binding_objects,
    eviction_objects,
    nomination_patches,
    reservation_patches,
)
from batchsched.kubernetes.plans import plan_patches
from batchsched.kubernetes.snapshots import read_objects, snapshot_from_objects

__all__ = [
    "binding_objects",
    "eviction_objects",
    "nomination_patches",
    "plan_patches",
    "read_objects",
    "reservation_patches",
    "snapshot_from_objects",
]
