"""Computes the next snapshot from the whole of the last one: the simple reference."""

from __future__ import annotations

from batchsched.errors import EventError, Fault
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo
from batchsched.model.snapshot import Snapshot
from batchsched.model.validation.values import shown, truth_problems
from batchsched.transition.argument_reader import ArgumentReader
from batchsched.transition.content import Content
from batchsched.transition.event_rules import apply_events
from batchsched.transition.job_transitions import carried_over
from batchsched.transition.past_use import queues_after
from batchsched.transition.reservations import places_to_keep
from batchsched.transition.result_reader import check_claimants, read_result
from batchsched.transition.same_snapshot import outcome_faults
from batchsched.transition.step import Step
from batchsched.transition.task_rules import as_new
from batchsched.transition.task_transitions import TaskTransitions

__all__ = ["take_step"]


def take_step(snapshot: Snapshot, step: Step) -> Snapshot:
    """Return the next snapshot; see `next_snapshot`. O(size).

    Raises:
        EventError: see `next_snapshot`; all faults at once.
        SnapshotError: new objects are invalid in themselves.

    """
    given = ArgumentReader()
    happened = given.events(step.happened)
    more = given.each("events", step.events, object)
    removed = given.uids("removed_jobs", step.removed_jobs)
    arrived = given.each("new_jobs", step.new_jobs, JobInfo)
    queues = None if step.queues is None else given.each("queues", step.queues, Queue)
    new_others = (
        None if step.other_tasks is None else given.each("other_tasks", step.other_tasks, TaskInfo)
    )
    nodes_now = None if step.nodes is None else given.each("nodes", step.nodes, NodeInfo)
    # Invalid nodes are reported by the snapshot, unless there are faults in the events.
    sound_nodes = given.only_sound(nodes_now)
    before = given.snapshot(snapshot)
    so_far = len(given.faults)
    decided = None if step.result is None else read_result(given, step.result)
    knows_decisions = len(given.faults) == so_far
    replacement, now, keep_reservations = step.replacement, step.now, step.keep_reservations
    if not callable(replacement):
        message = f"expected a function, got {shown(replacement)}"
        given.refuse("replacement", message)
        replacement = as_new
    for path, message in truth_problems("keep_reservations", keep_reservations):
        given.refuse(path, message)
    given.check_now(now, before=None if before is None else before.now)
    if before is None:
        # Nothing else can be checked.
        raise EventError(given.faults)

    changes = TaskTransitions(
        before, happened, replacement, given, now=now, knows_decisions=knows_decisions
    )
    changes.check_jobs(removed, arrived)
    if sound_nodes is not None:
        changes.node_names = frozenset(node.name for node in sound_nodes)
    strange: list[Fault] = []
    if decided is not None:
        check_claimants(given, decided, before)
        changes.decide(decided)
        strange = outcome_faults(decided, before)
        if keep_reservations:
            changes.keep(places_to_keep(decided, before, sound_nodes), decided.kept_promises)
    changes.keeps_places = step.result is None and keep_reservations
    tasks_changed = changes.jobs(frozenset(removed))
    jobs = carried_over([*tasks_changed, *arrived], before, decided, now=now)
    others = changes.others() if new_others is None else new_others
    faults = [*given.faults, *changes.unknown(), *changes.task_faults]
    known = {fault.path for fault in faults}
    faults += [fault for fault in strange if fault.path not in known]
    if faults:
        raise EventError(faults) from changes.raised
    following = Snapshot(
        nodes=before.nodes if nodes_now is None else nodes_now,
        jobs=jobs,
        queues=queues_after(before, decided, queues, now=now),
        other_tasks=others,
        now=now,
    )
    if not more:
        return following
    content = Content(following)
    apply_events(content, more)
    content.commit()
    return content.snapshot()
