"""Descriptions of changes and amounts."""

from __future__ import annotations

from attrs import Attribute, AttrsInstance, fields

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.resources import Amount, Resource, ResourceLimit
from batchsched.model.texts import shown_amount

__all__ = ["amount_text", "described", "limit_text", "resource_text"]


def described(change: AttrsInstance) -> str:
    """Describe a change in one line.

    >>> from batchsched.live import JobChanged, TaskSucceeded
    >>> described(JobChanged("team/j", priority=5)), described(TaskSucceeded("t1"))
    ("JobChanged 'team/j': priority=5", "TaskSucceeded 't1'")
    """
    if isinstance(change, SchedulerConfig):
        actions = ", ".join(action.name for action in change.actions)
        tiers = " | ".join(", ".join(p.name for p in tier.plugins) for tier in change.tiers)
        return f"another configuration: actions {actions}; plugins {tiers}"
    name = ""
    details: list[str] = []
    attributes: tuple[Attribute[object], ...] = fields(type(change))
    for attribute in attributes:
        value: object = getattr(change, attribute.name)
        if isinstance(value, (JobInfo, TaskInfo)):
            name = f" {value.uid!r}"
        elif isinstance(value, NodeInfo):
            name = f" {value.name!r}"
            details.append(resource_text(value.allocatable))
        elif isinstance(value, Queue):
            name = f" {value.name!r}"
            details.append(f"weight={value.weight}")
        elif attribute.name in ("uid", "name", "job_uid"):
            name = f" {value!r}"
        elif isinstance(value, tuple):
            details.append(f"{len(value)} {attribute.name}")  # pyright: ignore[reportUnknownArgumentType]
        elif value is not None:
            details.append(f"{attribute.name}={value!r}")
    text = f"{type(change).__name__}{name}"
    return f"{text}: {', '.join(details)}" if details else text


def resource_text(resource: Resource) -> str:
    """Format a resource: ``2 cpu, 4 GiB, 1 nvidia.com/gpu``."""
    parts = [amount_text(name, amount) for name, amount in resource.dimensions() if amount]
    return ", ".join(parts) or "nothing"


def limit_text(limit: ResourceLimit) -> str:
    """Format a limit: ``8 cpu, 0 nvidia.com/gpu``; dimensions without a limit are left out."""
    parts = [amount_text(name, amount) for name, amount in limit.dimensions()]
    return ", ".join(parts) or "no limit"


def amount_text(dimension: str, amount: Amount) -> str:
    """Format an amount of one dimension.

    >>> amount_text("cpu", 1500), amount_text("memory", 3 << 29), amount_text("gpu", 2000)
    ('1.5 cpu', '1.5 GiB', '2 gpu')
    >>> amount_text("ephemeral-storage", 1000 << 40)
    '1 TiB ephemeral-storage'
    """
    if dimension == "memory":
        return shown_amount("memory", amount)
    if dimension == "ephemeral-storage" or dimension.startswith("hugepages-"):
        return f"{shown_amount('memory', amount / 1000)} {dimension}"  # thousandths of bytes
    return f"{shown_amount(dimension, amount)} {dimension}"
