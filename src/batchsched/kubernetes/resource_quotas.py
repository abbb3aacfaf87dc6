"""ResourceQuotas of namespaces: why pods of a job are not made."""

from __future__ import annotations

from batchsched.causes import HoldKind
from batchsched.kubernetes.dump_objects import DumpObjects
from batchsched.kubernetes.objects import KubernetesObject, Reader
from batchsched.kubernetes.pods import amount_unit
from batchsched.model.cluster import Hold
from batchsched.model.texts import amount_text

_REQUESTS, _LIMITS = "requests.", "limits."
_ALONE = ("cpu", "memory", "ephemeral-storage")
"""The resources whose name alone means what is requested of them."""
_PODS = ("pods", "count/pods")


def used_up_by(objects: DumpObjects, pod: KubernetesObject) -> Hold | None:
    """Return what holds a job: a ResourceQuota that lets no more of its pods be made; or None.

    What a quota counts only of some pods, by `scopes`, is not asked.

    Args:
        objects: all objects.
        pod: a pod as a template has it, with the name and namespace of its Job.

    """
    for quota in objects.of("", "ResourceQuota"):
        spec, status = quota.spec, quota.status
        if quota.namespace != pod.namespace or spec.get("scopes") or spec.get("scopeSelector"):
            continue
        hard, used = status.child("hard"), status.child("used")
        for name in sorted(key for key in hard.content if type(key) is str):
            asked, what = _asked(pod, name)
            unit = True if name in _PODS else amount_unit(what)
            if not asked or unit is None:
                continue
            most, held = hard.quantity(name, milli=unit) or 0, used.quantity(name, milli=unit) or 0
            if held + asked > most:
                text = f"ResourceQuota {quota.name} lets no more pods of Job {pod.name} be made: "
                text += f"{amount_text(what, held)} of {amount_text(what, most)} ({name}) in use, "
                text += f"and each pod needs {amount_text(what, asked)}"
                return Hold(HoldKind.NAMESPACE_QUOTA, quota.name, text)
    return None


def _asked(pod: KubernetesObject, name: str) -> tuple[int, str]:
    """Return how much of what a quota counts a pod needs, and of which resource."""
    if name in _PODS:
        return 1000, "pods"
    if name.startswith(_LIMITS):
        kind, what = "limits", name.removeprefix(_LIMITS)
    elif name.startswith(_REQUESTS) or name in _ALONE:
        kind, what = "requests", name.removeprefix(_REQUESTS)
    else:
        return 0, name
    return sum(_amount(each, kind, what) for each in pod.spec.children("containers")), what


def _amount(container: Reader, kind: str, what: str) -> int:
    unit = amount_unit(what)
    if unit is None:
        return 0
    resources = container.child("resources")
    own = resources.child(kind).quantity(what, milli=unit)
    if own is None and kind == "requests":  # a limit is the request, where there is none
        own = resources.child("limits").quantity(what, milli=unit)
    return own or 0
