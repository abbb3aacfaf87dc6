"""The verdicts of plugins on the tasks that a task could evict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from batchsched.actions.group_turns import tasks_left
from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.reasons import Unfit
from batchsched.model.snapshot import Snapshot
from batchsched.plugin.verdicts import Verdict
from batchsched.scheduler import Scheduler
from batchsched.session.session import Session
from batchsched.session.trace_events import TraceEvent, VerdictsGiven
from batchsched.session.tracing import TracedSession
from batchsched.state.needs import need_of_job
from batchsched.state.records import JobState, TaskState
from batchsched.tools.explanation import VictimsJudged
from batchsched.tools.helpful_changes import EVICTING

__all__ = ["victims_judged"]


def victims_judged(
    snapshot: Snapshot, config: SchedulerConfig, registry: Registry | None, uid: str
) -> tuple[VictimsJudged, ...]:
    """Collect plugins' verdicts on all candidates of preempt and reclaim, at the cycle's start.

    For a plugin that makes claims (`batchsched.plugin.Claims`), the verdict is whether the claim of
    the task's job may take the candidate. O(nodes + tasks), plus the verdicts.
    """
    actions = [action.name for action in config.actions if action.name in EVICTING]
    if not actions:
        return ()
    verdict_on: dict[tuple[str, str, str], str] = {}

    def collect(event: TraceEvent) -> None:
        if isinstance(event, VerdictsGiven):
            for candidate, verdict in event.verdicts.items():
                key = (event.action, event.plugin, candidate)
                if verdict_on.get(key) != Verdict.PROTECTED.value:
                    verdict_on[key] = verdict

    session = Scheduler(config, registry, trace=collect).open(snapshot)
    claimant = session.task(uid)
    job = claimant.job
    if job is None or not job.in_session:
        return ()
    by_verdict: dict[tuple[str, str, str], list[str]] = {}
    claimed: dict[tuple[str, str, str], dict[str, int]] = {}
    for action in dict.fromkeys(actions):
        session.action_name = action
        candidates: list[TaskState] = []
        for node in session.nodes:
            running = session.running_on(node)
            if action == "preempt":
                there = [t for t in running.of_queue(job.queue) if t.job is not job]
                judge = session.preemptable
            else:
                there = running.of_other_queues(job.queue)
                judge = session.reclaimable
            if there:
                judge(claimant, session.in_victim_order(there))
                candidates += there
        if action == "reclaim" and session.plugin_set.has_claims and candidates:
            plugin = session.plugin_set.names_on("claim")[0]
            why = _why_not(session, job, candidates)
            for one, reason in zip(candidates, why, strict=True):
                given = Verdict.VICTIM if reason is None else Verdict.PROTECTED
                verdict_on[action, plugin, one.uid] = given.value
            reasons = [reason for reason in why if reason is not None]
            claimed[action, plugin, Verdict.PROTECTED.value] = _counted(reasons)
    if isinstance(session, TracedSession):
        session.flush()
    for (action, plugin, candidate), verdict in verdict_on.items():
        by_verdict.setdefault((action, plugin, verdict), []).append(candidate)
    return tuple(
        VictimsJudged(
            action=action,
            plugin=plugin,
            verdict=verdict,
            count=len(uids),
            example=session.task(min(uids)).info.display_name,
            reasons=claimed.get((action, plugin, verdict))
            or _reasons(session, plugin, claimant, uids, verdict),
        )
        for (action, plugin, verdict), uids in by_verdict.items()
    )


def _why_not(
    session: Session, job: JobState, candidates: Sequence[TaskState]
) -> Sequence[str | None]:
    """Return why the claim of a job may not take each candidate; None: it may."""
    need = need_of_job(job, tasks_left(session, job))
    if need is None:
        return ["the job needs nothing"] * len(candidates)
    claim = session.plugin_set.claim(need)
    if isinstance(claim, Unfit):
        return [f"no claim is possible: {claim.text}"] * len(candidates)
    return claim.why_not(candidates)


def _reasons(
    session: Session, plugin: str, claimant: TaskState, uids: Sequence[str], verdict: str
) -> Mapping[str, int]:
    """Return why a plugin gave candidates this verdict, if it gives reasons."""
    given = Verdict(verdict)
    if given is Verdict.VICTIM:
        return {}
    candidates = [session.task(uid) for uid in uids]
    own = session.plugin_set.eviction.verdict_reasons(plugin, claimant, candidates, given)
    return _counted(own)


def _counted(reasons: Sequence[str]) -> dict[str, int]:
    return dict(Counter(filter(None, reasons)).most_common())
