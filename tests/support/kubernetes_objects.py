"""Small Kubernetes objects for tests, and other notations of the same objects."""

import re
from datetime import datetime

USERS_KEYS = {
    "labels",
    "annotations",
    "nodeSelector",
    "matchLabels",
    "requests",
    "limits",
    "allocatable",
    "capacity",
    "overhead",
    "minTaskMember",
}
TIMES = {"creationTimestamp", "deletionTimestamp", "lastHeartbeatTime", "lastTransitionTime"}
ABSENT = ["nodeName", "priority", "affinity", "tolerations", "deletionTimestamp", "initContainers"]


def as_python_client(content, key=""):
    """Return an object as the official Python client's to_dict() would give it."""
    if isinstance(content, list):
        return [as_python_client(item) for item in content]
    if not isinstance(content, dict):
        return datetime.fromisoformat(content) if key in TIMES and content else content
    if key in USERS_KEYS:
        return dict(content)
    snake = {
        re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower(): as_python_client(item, name)
        for name, item in content.items()
    }
    return {re.sub("(?<=[a-z])(?=[A-Z])", "_", n).lower(): None for n in ABSENT} | snake


def node(name="n1", *, cpu="8", memory="64Gi", labels=None, spec=None, status=None, **more):
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"} | more
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec or {},
        "status": {"allocatable": allocatable} | (status or {}),
    }


def container(requests=None, **more):
    return {"name": "c", "resources": {"requests": requests or {}}} | more


def pod(name="p1", *, group="g1", namespace="a", metadata=None, status=None, **spec):
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    metadata = metadata or {}
    annotations |= metadata.pop("annotations", {})
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "annotations": annotations,
        }
        | metadata,
        "spec": {"schedulerName": "kube-batch", "containers": [container()]} | spec,
        "status": {"phase": "Pending"} if status is None else status,
    }


def pod_group(name="g1", *, namespace="a", **spec):
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"queue": "q"} | spec}
