"""Plain Kubernetes objects to a snapshot, and decisions back to plain objects.

Objects are mappings as ``kubectl get -o json`` or the ``to_dict()`` of the official Python
client's objects give them. Nothing here talks to a cluster.

How objects are understood:

- **Nodes** have what ``status.allocatable`` says (``status.capacity`` where there is none):
  cpu, memory, ``pods`` as the most tasks (any number where it is missing), and extended
  resources as scalars. A resource is extended if its name has a domain that is not Kubernetes'
  own. All others, such as ``ephemeral-storage`` and ``hugepages-2Mi``, are ignored, on nodes as
  in requests.
- **Pods** request the sum of their containers and sidecars, plus ``spec.overhead``; to start
  they need the maximum of that and of each init container with what runs beside it. A missing
  request is the limit of that name, as the API server sets it. ``spec.resources`` (requests of
  the pod as a whole) is ignored. A missing phase is Pending, and a missing UID is
  ``namespace/name``.
- **Host ports** are the ``hostPort`` of containers and sidecars; on the host's network also
  their container ports. The ports of other init containers do not count.
- **Pod groups** become jobs. Pods belong to the group of their namespace that the annotation
  ``scheduling.k8s.io/group-name`` or ``scheduling.volcano.sh/group-name`` names, whatever
  scheduler they ask for. A group that names no queue draws on the default queue, one that names
  no ``minMember`` needs 0 pods (the API writes 0 by leaving it out), one without a known
  priority class has the priority 0.
- **Pods without a group** that ask for this scheduler become jobs of one task, with their own
  name, priority (else 0) and creation time, in the default queue.
- **Other pods** without a group only occupy their nodes; they are left out if they hold nothing.
  So do pods whose group is not given, if they ask for another scheduler or are being deleted.
  Otherwise a group that is not given is a fault.
- **Reservations**: a pending pod with the annotation
  ``scheduling.k8s.io/kube-batch-reserved-node`` is Reserved on that node;
  `reservation_patches` writes and removes it. The annotation
  ``scheduling.k8s.io/kube-batch-backfill: "true"`` marks a backfill task.
- A ``namespaceSelector`` of pod affinity is replaced by the namespaces that it selects now.
  ``matchLabelKeys`` need nothing: the API server has merged them into the label selector.
- Scheduling gates, volumes, topology spread and resource claims are not looked at.
"""

from batchsched.kubernetes.decisions import (
    binding_objects,
    eviction_objects,
    reservation_patches,
)
from batchsched.kubernetes.snapshots import snapshot_from_objects

__all__ = ["binding_objects", "eviction_objects", "reservation_patches", "snapshot_from_objects"]
