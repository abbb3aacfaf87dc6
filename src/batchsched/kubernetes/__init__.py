"""Converts plain Kubernetes objects to a snapshot, and decisions to plain objects.

Objects are mappings as returned by ``kubectl get -o json`` or by ``to_dict()`` of the official
Python client. Nothing here talks to a cluster.

`read_dump` reads what a whole cluster has, for several systems at once, and says of each job what
holds it. `read_objects` reads objects that the caller has sorted by kind, for one scheduler: what
other schedulers place only occupies nodes, and whether Kueue or Volcano has admitted something does
not matter. All else is read alike; the rules by which pods are one job are those of the page
"Reading dumps of real clusters".

How objects are interpreted:

- **Nodes** have the resources in ``status.allocatable`` (without it, ``status.capacity``): cpu,
  memory, ``pods`` as the maximum number of tasks (unlimited where it is missing), and as scalars
  extended resources, ``ephemeral-storage`` and ``hugepages-*``. A resource is extended if its
  name has a domain other than Kubernetes' own; other resources are ignored, on nodes and in
  requests. Ephemeral storage and huge pages are left out where no pod requests them. Scalars
  are in thousandths, even those that count bytes.
- **Pods** request the sum of their containers and sidecars, plus ``spec.overhead``; to start
  they need the maximum of that and of each init container together with the sidecars that run
  at that time. A missing request defaults to the limit of the same resource, as in the API
  server. ``spec.resources`` (requests of the pod as a whole) replaces the containers' requests
  of the same resource. The phase defaults to Pending, and the UID to ``namespace/name``.
- **Pods with scheduling gates** stay Pending with a hold for each gate, and are not placed.
- **Host ports** are the ``hostPort`` of containers and sidecars; for pods on the host's network,
  also their container ports. The ports of other init containers do not count.
- **Pod groups** become jobs. Pods belong to the group of their namespace that the annotation
  ``scheduling.k8s.io/group-name`` or ``scheduling.volcano.sh/group-name`` names, whatever their
  ``schedulerName``. A group without a queue belongs to the default queue, and one without
  ``minMember`` needs 0 pods (the API omits a 0).
- **Roles**: ``spec.minTaskMember`` (Volcano) and ``spec.subGroups`` with ``minMember``, ``parent``
  and ``minSubGroup`` (KAI Scheduler) become groups of tasks with minima. A pod's role is what the
  annotation or label ``volcano.sh/task-spec`` or ``kai.scheduler/subgroup-name`` names. Roles that
  the group does not name, and pods without a role (group ``-``), have a minimum of 0. Volcano
  ignores the minima of roles where ``minMember`` is less than their sum; `read_objects` never does.
- **Controllers**: pods of a batch/v1 Job that are in no group are one job, which runs at most
  ``spec.parallelism`` of them, and no more than are missing for ``spec.completions``; pods with the
  labels of a LeaderWorkerSet are one job, in which each replica starts as a whole. Of both, the
  kube-scheduler places pods one by one, and so they are read if it is to place them.
- **Priorities** of groups are those of their PriorityClass; if they name none, or one that is
  not given, that of the class with ``globalDefault``, or else 0. Pods have their own.
- **Queues** of kube-batch, Volcano and KAI Scheduler and Kueue's cluster queues and cohorts form
  one tree, with deserved amounts, guarantees, limits and weights; ``docs/queues`` has a table of
  their fields. Queues that are closed, by ``status.state`` or ``spec.stopPolicy``, and all queues
  below them start nothing new. Running pods continue.
- **PodDisruptionBudgets** are budgets that are broken where nothing else helps; groups of Volcano
  with ``volcano.sh/jdb-min-available`` or ``jdb-max-unavailable`` have one that never is.
- **Pods without a group** that name this scheduler become jobs of one task, with their own
  name, priority and creation time, in the default queue.
- **Pods whose group is not given** are held if they wait, and only occupy their nodes if they run.
- **Other pods** without a group only occupy their nodes; they are left out if they hold no
  resources.
- **Pods on a node that is not given** hold nothing and are not scheduled.
- **Nodes whose pods hold more than the node has** (for example because a device failed) are full
  in that resource.
- **Reservations**: a pending pod with the annotation
  ``scheduling.k8s.io/kube-batch-reserved-node`` is Reserved on that node;
  `reservation_patches` writes and removes it. The annotation
  ``scheduling.k8s.io/kube-batch-backfill: "true"`` marks a backfill task.
- **Time**: a pod that holds resources has held them since ``status.startTime``, and may hold them
  for ``spec.activeDeadlineSeconds``. Further times are read from annotations of pod groups, and of
  pods without a group: ``batchsched/estimate``, ``batchsched/max-wait`` (or Volcano's
  ``sla-waiting-time``) as
  durations such as ``5400`` (seconds) or ``1h30m``; ``batchsched/deadline`` and
  ``batchsched/eligible-time`` as RFC 3339 times; ``batchsched/user``; ``batchsched/depends-on``
  as ``prepare=succeeded, other-namespace/job=ended`` (started, succeeded, ended or failed; a
  ``?`` after it: a job that does not exist counts as succeeded). On pods, ``batchsched/estimate``
  takes precedence over ``spec.activeDeadlineSeconds``, and ``batchsched/attained-service`` is the
  time for which earlier runs held resources. A job has the labels of its group, or of its pod if
  that has no group.
- **Plans**: annotations ``batchsched/planned-start`` (seconds since 1970) and
  ``batchsched/planned-node`` of pending pods are their job's plan; `plan_patches` writes and
  removes them.
- **Promises**: a pending pod with ``status.nominatedNodeName`` is Pipelined on that node;
  `nomination_patches` writes and removes it.
- A ``namespaceSelector`` of pod affinity is replaced by the namespaces that it selects now.
  ``matchLabelKeys`` need no handling: the API server has merged them into the label selector.

Fields that affect other schedulers and are not supported here give a `Notice`: see `read_objects`.
"""

from batchsched.kubernetes.decisions import (
    binding_objects,
    eviction_objects,
    nomination_patches,
    plan_patches,
    reservation_patches,
)
from batchsched.kubernetes.dump import read_dump
from batchsched.kubernetes.facts import Dump, JobFacts, Told
from batchsched.kubernetes.manifests import submitted_objects
from batchsched.kubernetes.snapshots import read_objects, snapshot_from_objects
from batchsched.kubernetes.watch import WatchedObjects
from batchsched.model.resources import parse_quantity
from batchsched.model.texts import describe_exports

__all__ = [
    "Dump",
    "JobFacts",
    "Told",
    "WatchedObjects",
    "binding_objects",
    "eviction_objects",
    "nomination_patches",
    "parse_quantity",
    "plan_patches",
    "read_dump",
    "read_objects",
    "reservation_patches",
    "snapshot_from_objects",
    "submitted_objects",
]

describe_exports(__name__)
