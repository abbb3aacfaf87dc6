"""The commands about the jobs of a cluster as it is: why and jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from batchsched import (
    HoldKind,
    JobInfo,
    NoticeCode,
    Resource,
    TaskStatus,
    UnknownNameError,
    sum_resources,
)
from batchsched.kubernetes import Dump
from batchsched.tools import (
    JobStanding,
    JobStatus,
    Taking,
    amount_text,
    audit,
    duration,
    explain,
    standings,
    time_text,
)
from batchsched_cli.arguments import UsageError, did_you_mean
from batchsched_cli.reading import Question, path_of
from batchsched_cli.text import (
    Answer,
    Block,
    Column,
    Line,
    Section,
    Table,
    blocks_of,
    counted,
    unknown,
)

_ENDED = (TaskStatus.SUCCEEDED, TaskStatus.FAILED)
_SETTLED = ("runs", "quiet")
"""The tones of jobs that are shown only if all are asked for."""
_MAY_DEPEND = (JobStatus.STARTS, JobStatus.PROMISED, JobStatus.RESERVED, JobStatus.ROOM)
"""The states that what was not seen could change."""
_JUST_NOW = "just now"
_ARROW = 16
"""How many characters the longest arrow has, without its tip."""
_UNSURE = "*"
"""What marks jobs of which not everything that matters could be seen."""
_ADMISSION_GATE = "kueue.x-k8s.io/admission"
_WITHOUT_QUOTA = (
    HoldKind.DEACTIVATED,
    HoldKind.NEVER_ADMITTED,
    HoldKind.NOT_ADMITTED,
    HoldKind.NO_QUEUE,
    HoldKind.QUEUE_CLOSED,
    HoldKind.SUSPENDED,
)


class JobNames:
    """The names by which the jobs of a cluster are shown."""

    def __init__(self, question: Question) -> None:
        self.dump: Dump = question.dump()
        self._namespace = question.namespace
        self._names: dict[str, str] = {}

    def name(self, uid: str) -> str:
        """Return the name by which a job is shown, and found: its owner's, if that is one job's.

        It has the namespace, unless that is the one asked for.
        """
        if uid not in self._names:
            job, facts = self.dump.snapshot.job(uid), self.dump.facts.get(uid)
            short = job.name if facts is None else facts.owner
            name = f"{job.namespace}/{short}"
            if not self._means(name, uid):
                name = uid
            if self._namespace and self._namespace == job.namespace:
                short = name.removeprefix(f"{job.namespace}/")
                name = short if self._means(f"{job.namespace}/{short}", uid) else name
            self._names[uid] = name
        return self._names[uid]

    def _means(self, name: str, uid: str) -> bool:
        try:
            return self.dump.find(name) == uid
        except UnknownNameError:
            return False


class ShownJobs(JobNames):
    """The jobs of a cluster with their states after one cycle, and the names they are shown by."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.result = question.result()
        self._of = {
            each.job: each
            for each in standings(
                self.dump.snapshot,
                self.result,
                facts=self.dump.facts,
                config=question.configuration().config,
            )
        }

    @property
    def known(self) -> list[JobInfo]:
        """The jobs in the namespace that is asked for; in any, if none is."""
        jobs = self.dump.snapshot.jobs
        return [job for job in jobs if self._namespace in ("", job.namespace)]

    def standing(self, uid: str) -> JobStanding:
        """Return the state of a job."""
        return self._of[uid]

    def is_unsure(self, uid: str) -> bool:
        """Return whether something that was not seen could change whether a job starts."""
        facts = self.dump.facts.get(uid)
        return self._of[uid].state in _MAY_DEPEND and any(
            each.code is not NoticeCode.READ_AS for each in (() if facts is None else facts.caveats)
        )

    def has_quota(self, job: JobInfo) -> bool:
        """Return whether Kueue has reserved quota for a job."""
        facts = self.dump.facts.get(job.uid)
        if facts is None or not facts.local_queue:
            return False
        kinds = {hold.kind for hold in job.holds}
        if HoldKind.CHECK in kinds:  # which Kueue runs once it has reserved the quota
            return True
        gates = {hold.name for task in job.tasks for hold in task.holds}
        return kinds.isdisjoint(_WITHOUT_QUOTA) and _ADMISSION_GATE not in gates


# Why


def why(question: Question) -> Answer:
    """Answer why a job waits, and what would start it. One cycle, and what `explain` takes."""
    names = question.arguments.positional
    if names:
        return _why(question, question.job(names[0]))
    shown = ShownJobs(question)
    submitted = shown.dump.submitted
    known = [job for job in shown.known if not submitted or job.uid in submitted]
    waiting = [job for job in known if shown.standing(job.uid).waits]
    if len(waiting) == 1 or len(known) == 1:
        return _why(question, (waiting or known)[0].uid)
    answer = _table_of(question, shown, waiting)
    return answer._replace(status=int(bool(waiting)))


def _why(question: Question, uid: str) -> Answer:
    dump, configuration = question.dump(), question.configuration()
    told = explain(
        dump.snapshot, question.result(), uid, config=configuration.config, facts=dump.facts
    )
    answer, *others = blocks_of(told.sections(), details=question.arguments.has("--all"))
    if isinstance(answer, Line):
        answer = answer._replace(tone=told.standing.state.tone, has_head=True)
    rests_on = tuple(_circumstances(question, dump.snapshot.job(uid), told.standing))
    blocks = (answer, *others, Section("", rests_on, in_full=True))
    data = {**told.to_dict(), "configuration": configuration.text}
    return Answer(int(told.standing.waits), blocks, data)


def _circumstances(question: Question, job: JobInfo, standing: JobStanding) -> Iterator[str]:
    """Yield since when it is so, and what the answer rests on: all that was assumed."""
    now, since = question.dump().snapshot.now, _since(job, standing)
    age = _age_text(now, since)
    if age:
        yield f"since: {time_text(since)}, {age if age == _JUST_NOW else f'for {age}'}"
    yield f"configuration: {question.configuration().text}"
    names = question.scheduler_names()
    if names:
        yield f"scheduler names: {', '.join(names)}"
    assumed = question.dump().assumed
    if now and not any(text.startswith("now is") for text in assumed):
        yield f"now: {time_text(now)}"
    for text in assumed:
        yield f"assumed: {text}"


# Audit


def audit_answer(question: Question) -> Answer:
    """Answer who is owed what, and who holds it. Two cycles."""
    configuration = question.configuration()
    told = audit(question.dump().snapshot, config=configuration.config)
    if question.arguments.positional:
        told = told.of(question.arguments.positional[0])
    is_owed = any(amount for each in told.queues.values() for _, amount in each.owed.dimensions())
    blocks = [*blocks_of(told.sections()), Line(f"configuration: {configuration.text}")]
    flows = _flows(told.pairs)
    if flows is not None:
        blocks.insert(-1, flows)
    data = {**told.to_dict(), "configuration": configuration.text}
    return Answer(int(is_owed), tuple(blocks), data)


def _flows(pairs: Sequence[Taking]) -> Table | None:
    """Return who loses what to whom, as arrows as long as much of it; None: nobody does."""
    amounts = [
        (dimension, float(amount), pair)
        for pair in pairs
        for dimension, amount in pair.amounts.dimensions()
        if amount
    ]
    if not amounts:
        return None
    amounts.sort(key=lambda each: (each[0] != "cpu", each[0] != "memory", each[0]))
    most = {name: max(n for other, n, _ in amounts if other == name) for name, _, _ in amounts}
    rows = [
        (
            pair.holding,
            "=" * max(1, round(_ARROW * amount / most[name])) + ">",
            pair.owed,
            amount_text(name, amount),
        )
        for name, amount, pair in amounts
    ]
    columns = (
        Column("FROM", is_name=True),
        Column("", share=0, is_bar=True),
        Column("TO"),
        Column("AMOUNT", right=True, share=0),
    )
    return Table(columns, tuple(rows), title="What goes from whom to whom")


# Jobs


def jobs(question: Question) -> Answer:
    """Answer with a table of the jobs that wait or start; of all, if all are asked for.

    One cycle, plus O(size of the snapshot).
    """
    shown = ShownJobs(question)
    states = {state_named(word) for word in question.arguments.texts("--state")}
    queues = _queues(shown.dump, question.arguments.texts("--queue"))
    shows_all = question.arguments.has("--all")
    chosen: list[JobInfo] = []
    for job in shown.known:
        state = shown.standing(job.uid).state
        is_usual = not states and (shows_all or state.tone not in _SETTLED)
        if (state in states or is_usual) and (not queues or job.queue in queues):
            chosen.append(job)
    answer = _table_of(question, shown, chosen)
    if (states or queues) and not chosen:
        return answer._replace(blocks=(*answer.blocks, Line("None of them is as asked for.")))
    return answer


def state_named(text: str) -> JobStatus:
    """Return the state that is meant by its words or its code.

    Raises:
        UsageError: there is none; it tells all that there are.

    """

    def plain(name: str) -> str:
        return name.lower().replace(" ", "").replace(",", "")

    known = {plain(name): each for each in JobStatus for name in (each.words, each.value)}
    if plain(text) not in known:
        names = [state.words.replace(",", "") for state in JobStatus]
        hint = did_you_mean(text.lower(), names)
        raise UsageError(f"no state is called {text}{hint}; states: {', '.join(names)}")
    return known[plain(text)]


def _queues(dump: Dump, names: Sequence[str]) -> set[str]:
    """Return the queues that are asked for, with all below them."""
    named = {queue.name: queue for queue in dump.snapshot.queues}
    known = named.keys() | {job.queue for job in dump.snapshot.jobs}
    faults = [unknown("queue", name, known).lines[0] for name in names if name not in known]
    if faults:
        raise UsageError(*faults)
    below = {name for name in named if any(each.name in names for each in path_of(name, named))}
    return below.union(names)


def _table_of(question: Question, shown: ShownJobs, chosen: Sequence[JobInfo]) -> Answer:
    snapshot = shown.dump.snapshot
    wish = question.arguments.text("--sort") or ""

    def order(job: JobInfo) -> tuple[object, ...]:
        standing = shown.standing(job.uid)
        place = (_rank(standing), standing.state.place)
        wished = {"since": job.waits_since, "priority": -job.priority, "queue": job.queue}.get(wish)
        return (wished, *place, -job.priority, job.waits_since, job.uid)

    ranked, users = sorted(chosen, key=order), question.users()
    shows_users = any(job.uid in users for job in ranked)
    total = sum_resources(node.allocatable for node in snapshot.nodes)
    rows: list[tuple[str, ...]] = []
    for job in ranked:
        standing = shown.standing(job.uid)
        why = standing.blockers[0].text if standing.blockers else ""
        if standing.state in (JobStatus.PROMISED, JobStatus.RESERVED) or not why:
            why = standing.headline.partition(f" waits, {standing.state.words}: ")[2]
        state = f"{standing.state.words}{_UNSURE if shown.is_unsure(job.uid) else ''}"
        age = _age_text(snapshot.now, _since(job, standing))
        amounts = (_tasks_text(standing), _wants_text(job, total), age)
        user = (users.get(job.uid, ""),) if shows_users else ()
        rows.append((state, shown.name(job.uid), *user, job.queue, *amounts, why))
    columns = (
        Column("STATE", share=0),
        Column("JOB", is_name=True, least=20),
        *([Column("USER", is_name=True, drop=1)] if shows_users else []),
        Column("QUEUE", is_name=True, least=10),
        Column("TASKS", right=True, share=0),
        Column("WANTS", right=True, share=0, drop=1),
        Column("SINCE", right=True, share=0, drop=2),
        Column("WHY", least=20),
    )
    tones = tuple(shown.standing(job.uid).state.tone for job in ranked)
    all_jobs = [shown.standing(job.uid) for job in shown.known]
    blocks: list[Block] = [Line(_sentence(all_jobs))]
    if rows:
        blocks.append(Table(columns, tuple(rows), tones=tones))
        blocks.append(Line(_counts(all_jobs)))
    if any(shown.is_unsure(job.uid) for job in ranked):
        text = f"{_UNSURE} as far as could be seen: `why JOB` shows what is left out"
        blocks.append(Line(text, "quiet"))
    data = {
        "now": snapshot.now,
        "configuration": question.configuration().text,
        "jobs": [_data(shown.standing(job.uid), job, users.get(job.uid, "")) for job in ranked],
    }
    return Answer(0, tuple(blocks), data)


def _rank(standing: JobStanding) -> int:
    """Return the place of a state: what waits, what is below its minimum, what starts, the rest."""
    if standing.state is JobStatus.BELOW_MINIMUM:
        return 1
    return 0 if standing.waits else 3 if standing.state.tone in _SETTLED else 2


def _sentence(told: Sequence[JobStanding]) -> str:
    waiting = sum(each.waits for each in told)
    starting = sum(each.state is JobStatus.STARTS for each in told)
    running = sum(each.state in (JobStatus.RUNNING, JobStatus.ENDING) for each in told)
    parts = [
        "1 job waits" if waiting == 1 else f"{counted(waiting, 'job')} wait",
        "1 starts now" if starting == 1 else f"{starting:,} start now",
        "1 runs" if running == 1 else f"{running:,} run",
    ]
    return f"{', '.join(parts)}."


def _counts(told: Sequence[JobStanding]) -> str:
    counts = Counter(each.state for each in told)
    ranked = sorted(counts, key=lambda state: (state.tone in _SETTLED, state.place))
    return "; ".join(f"{state.words}: {counts[state]:,}" for state in ranked)


def _tasks_text(standing: JobStanding) -> str:
    """Return how many run of all: ``3/8 min 4``."""
    running = sum(count for status, count in standing.tasks.items() if status.occupies)
    total = sum(count for status, count in standing.tasks.items() if status not in _ENDED)
    text = f"{running}/{total}"
    return f"{text} min {standing.needed}" if standing.needed > 1 else text


def _wants_text(job: JobInfo, total: Resource) -> str:
    """Return what a job wants in all, of the resource of which that is the largest part.

    Tasks that have ended do not count.
    """
    wants = sum_resources(task.resreq for task in job.tasks if task.status not in _ENDED)

    def part(dimension: str) -> float:
        there = total.get(dimension)
        return wants.get(dimension) / there if there else float("inf")

    wanted = [name for name, amount in wants.dimensions() if amount]
    if not wanted:
        return ""
    scarcest = max(wanted, key=part)
    return amount_text(scarcest, wants.get(scarcest))


def _since(job: JobInfo, standing: JobStanding) -> float:
    """Return since when a job waits, or runs."""
    if not standing.waits:
        starts = [task.start_time for task in job.tasks if task.start_time is not None]
        if starts:
            return min(starts)
    return job.waits_since


def _age_text(now: float, since: float) -> str:
    """Return how long ago a time was; empty if it is not known, or still to come."""
    if not 0 < since <= now:
        return ""
    return duration(int(now - since)) if now - since >= 1 else _JUST_NOW


def _data(standing: JobStanding, job: JobInfo, user: str) -> dict[str, object]:
    return {
        "job": standing.job,
        "state": standing.state.value,
        "waits": standing.waits,
        "queue": job.queue,
        "user": user,
        "tasks": {status.value: count for status, count in standing.tasks.items()},
        "starting": standing.starting,
        "needed": standing.needed,
        "text": standing.text,
    }
