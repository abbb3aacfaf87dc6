"""The commands about what is not: what-if, cheapest, compare, where, check, shrink."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from batchsched import (
    ActionOption,
    ConfigError,
    JobInfo,
    PluginOption,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    cheapest,
    check_config,
    compare,
    explain,
    shrink,
    what_if,
)
from batchsched.tools import (
    AsEstimated,
    CycleComparison,
    DispatchState,
    Explanation,
    Finding,
    JobStanding,
    JobStatus,
    PingPong,
    describe_changes,
    dispatch_all,
    find_cycles,
    not_modelled,
    standings,
    starts,
)
from batchsched_cli.arguments import UsageError, did_you_mean
from batchsched_cli.changes import ReadChanges, changes_of
from batchsched_cli.cluster_answers import state_named
from batchsched_cli.reading import PRESETS, Configuration, Question, replaced
from batchsched_cli.text import (
    Answer,
    Block,
    Column,
    Line,
    Section,
    Table,
    amounts_text,
    blocks_of,
    counted,
)

_NO_DECISIONS = ("reason", "ends", "gone")
"""Kinds of change that no decision makes: other reasons, and what the changes themselves end."""
_IN_CONFIGURATION = ("actions", "tiers")
"""What the place of a finding begins with that is about the configuration itself."""


def what_if_answer(question: Question) -> Answer:
    """Answer what a cycle would do after changes, and how that differs from now."""
    snapshot = question.dump().snapshot
    read = changes_of(question.arguments.positional, question)
    config = question.configuration()
    found = what_if(snapshot, *read.changes, config=config.config)
    blocks = (*blocks_of(found.sections()), _configurations(config))
    data = {**found.to_dict(), "configuration": config.text}
    if read.submitted:
        told = _submitted(read, config.config)
        data["submitted"] = [each.to_dict() for each in told]
        others = [c for c in found.difference.changes if c.job not in read.submitted]
        if all(change.kind in _NO_DECISIONS for change in others):
            blocks = blocks[-1:]
        blocks = (*_of_submitted(told), *blocks)
    return Answer(int(_decides_otherwise(found.difference)), blocks, data)


def _submitted(read: ReadChanges, config: SchedulerConfig) -> list[Explanation]:
    """Return what is to be said of the jobs that are submitted."""
    last = [config, *(each for each in read.changes if isinstance(each, SchedulerConfig))][-1]
    after = read.snapshot
    result = Scheduler(last).schedule(after)
    return [explain(after, result, uid, config=last, facts=read.facts) for uid in read.submitted]


def _of_submitted(told: Sequence[Explanation]) -> Iterator[Block]:
    """Yield the answers for jobs that are submitted: of the only one all that `why` says of it."""
    sentences = [
        f"{each.job} {each.once_released.removeprefix('it ').replace('still ', '', 1)}"
        if each.admits and each.once_released
        else each.summary
        for each in told
    ]
    yield Line(f"Submitted, {sentences[0]}", told[0].standing.state.tone, has_head=True)
    if len(told) > 1:
        yield Section("", tuple(sentences[1:]), in_full=True)
    else:
        yield from list(blocks_of(told[0].sections()))[1:]


def cheapest_answer(question: Question) -> Answer:
    """Answer which is the first of some changes, or lists of changes, that starts a job."""
    name, *words = question.arguments.positional
    uid = question.job(name)
    snapshot, config = question.dump().snapshot, question.configuration()
    candidates = [tuple(changes_of(each, question).changes) for each in _alternatives(words)]
    told = tuple(
        "; ".join(describe_changes(snapshot, each)) or "nothing changes" for each in candidates
    )
    found = cheapest(snapshot, uid, candidates, config=config.config)
    data: dict[str, object] = {
        "job": uid,
        "candidates": list(told),
        "position": None if found is None else found.position,
        "configuration": config.text,
    }
    last = _configurations(config)
    if found is None:
        head = Line(f"None of {counted(len(told), 'change')} starts {uid}.", has_head=True)
        return Answer(1, (head, Section("Tried", told, in_full=True), last), data)
    head = Line(f"{uid} starts with: {told[found.position]}", has_head=True)
    before = told[: found.position]
    tried = [Section("Not enough", before, in_full=True)] if before else []
    blocks = (head, *tried, *blocks_of(found.answer.sections()), last)
    return Answer(0, blocks, {**data, "answer": found.answer.to_dict()})


def _alternatives(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the words of each change, or of several together, between those that say `or`."""
    found: list[str] = []
    for word in words:
        if word != "or":
            found.append(word)
            continue
        if not found:
            raise UsageError("expected a change before and after each `or`")
        yield found
        found = []
    if not found:
        raise UsageError("expected a change before and after each `or`")
    yield found


def compare_answer(question: Question) -> Answer:
    """Answer what another configuration would do, and the rule that makes the difference."""
    snapshot = question.dump().snapshot
    before, after = map(question.noted_configuration, question.arguments.positional)
    found = compare(before.config, after.config, snapshot)
    blocks = (*blocks_of(found.sections()), _configurations(before, after))
    data = {**found.to_dict(), "configurations": [before.text, after.text]}
    return Answer(int(_decides_otherwise(found)), blocks, data)


def _decides_otherwise(found: CycleComparison) -> bool:
    return any(change.kind not in _NO_DECISIONS for change in found.changes)


def _configurations(*of_sides: Configuration) -> Block:
    if len(of_sides) == 1:
        return Line(f"configuration: {of_sides[0].text}", "quiet")
    before, after = of_sides
    return Section("Configurations", (f"before: {before.text}", f"after: {after.text}"))


# Several clusters


class _Cluster(NamedTuple):
    """One of several clusters, and what is submitted to it."""

    snapshot: Snapshot
    """The cluster without what is submitted."""
    submitted: Mapping[str, JobInfo]
    """The jobs that are submitted, by UID, as they would be there."""
    configuration: Configuration


def where_answer(question: Question) -> Answer:
    """Answer in which of several clusters jobs do best. Two cycles for each job and cluster."""
    question.may_read_input = False
    paths = question.arguments.texts("--file")
    if not paths:
        raise UsageError("where: expected each cluster with -f")
    named, run_time = _names_of(paths), question.arguments.seconds("--run-time")
    clusters, failures = dict[str, _Cluster](), list[UsageError]()
    for name, path in named.items():
        of_one = Question(question.arguments.but("--file", path))
        try:
            clusters[name] = _submitted_to(of_one)
        except UsageError as error:
            failures.append(error)
            clusters[name] = _Cluster(of_one.dump().snapshot, {}, of_one.configuration())
        question.notes += (f"{name}: {note}" for note in of_one.notes)
    jobs: dict[str, JobInfo] = {}
    for cluster in clusters.values():
        jobs = {**cluster.submitted, **jobs}
    if failures and not all(
        each.submitted or not {job.uid for job in each.snapshot.jobs}.isdisjoint(jobs)
        for each in clusters.values()
    ):
        raise failures[0]
    found = dispatch_all(
        [*jobs.values()],
        {name: each.snapshot for name, each in clusters.items()},
        configs={name: each.configuration.config for name, each in clusters.items()},
        queue=_queues_of(jobs, clusters),
        estimates=None if run_time is None else AsEstimated(otherwise=run_time),
    )
    blocks = [block for told in found.values() for block in blocks_of(told.sections())]
    configurations = {name: each.configuration.text for name, each in clusters.items()}
    lines = tuple(f"{name}: {text}" for name, text in configurations.items())
    data = {
        "jobs": [told.to_dict() for told in found.values()],
        "configurations": configurations,
    }
    starts_now = all(
        told.best is not None and told.answers[told.best].state is DispatchState.STARTS
        for told in found.values()
    )
    return Answer(int(not starts_now), (*blocks, Section("Configurations", lines)), data)


def _names_of(paths: Sequence[str]) -> dict[str, str]:
    """Return names of clusters, and where each is read: names of files, where these differ."""
    names = [Path(path).name.partition(".")[0] or path for path in paths]
    chosen = names if len({*names}) == len(names) else paths
    if len({*chosen}) < len(chosen):
        raise UsageError("where: a cluster is given twice with -f")
    return dict(zip(chosen, paths, strict=True))


def _submitted_to(question: Question) -> _Cluster:
    """Return a cluster and the jobs that are submitted to it.

    Raises:
        UsageError: nothing in the manifests is a job that waits and is not there already.

    """
    submitted: dict[str, JobInfo] = {}
    after = question.dump()
    for path in question.arguments.positional:
        before, after = question.submit(path)
        new = [uid for uid in after.submitted if uid not in before.submitted]
        submitted |= {uid: after.snapshot.job(uid) for uid in new}
    others = [job for job in after.snapshot.jobs if job.uid not in submitted]
    without = replaced(after.snapshot, jobs=others)
    return _Cluster(without, submitted, question.configuration())


def _queues_of(jobs: Mapping[str, JobInfo], clusters: Mapping[str, _Cluster]) -> Mapping[str, str]:
    """Return the queue of the jobs in each cluster, if it has another name there.

    Raises:
        UsageError: it has, but for some of several jobs.

    """
    queues: dict[str, str] = {}
    for name, cluster in clusters.items():
        there = {job.queue for job in cluster.submitted.values()}
        if all(job.queue == jobs[uid].queue for uid, job in cluster.submitted.items()):
            continue
        if len(there) > 1:
            raise UsageError(
                f"where: in {name} the queues of these jobs have other names than elsewhere: "
                "ask about one job at a time"
            )
        queues[name] = min(there)
    return queues


# Mistakes in a configuration


def check_answer(question: Question) -> Answer:
    """Answer which mistakes a configuration has, each with a cluster that shows it."""
    question.may_read_input = False
    given = question.arguments.positional
    name = given[0] if given else question.arguments.text("--config")
    content: SchedulerConfig | Mapping[str, object]
    if name is None or name in PRESETS:
        known = question.configuration() if name is None else question.configuration_of(name)
        name, content = known.name, known.config
    else:
        content = question.content_of(name)
        if "format" in content:
            content = SchedulerConfig.from_dict(content)
    snapshot = question.dump().snapshot if question.has_cluster() else None
    findings = check_config(content, snapshot)
    if name in PRESETS:  # it does as its system does: only queues and jobs may be wrong with it
        findings = tuple(e for e in findings if not e.place.startswith(_IN_CONFIGURATION))
    try:
        others = not_modelled(content)
    except ConfigError:  # it cannot be built, which is a finding
        others = ()
    blocks: list[Block] = [Line(_told(name, findings), "wrong" if findings else "")]
    blocks += map(_finding, findings)
    left_out = [(each, ", ".join(each.examples)) for each in others]
    if left_out:
        lines = [f"{n.kind} {n.field} at {place}: {n.consequence}" for n, place in left_out]
        blocks.append(Section("Not modelled here, which is no mistake", tuple(lines)))
    looks = question.arguments.has("--loops")
    found = _loop(question, content, snapshot) if looks else None
    if found is not None:
        head, *cycles = str(found).splitlines()
        where = "On this cluster" if snapshot is not None else "On a small cluster"
        sizes = f"{where}: {counted(len(found.snapshot.jobs), 'job')}"
        sizes += f", {counted(len(found.snapshot.nodes), 'node')}"
        blocks.append(Section(head, (*(line.strip() for line in cycles), sizes), in_full=True))
    elif looks:
        where = f"{_WORLDS:,} small clusters" if snapshot is None else "this cluster"
        blocks.append(Line(f"No evictions that never end are found on {where}."))
    data = {
        "configuration": name,
        **({"loop": found and found.to_dict()} if looks else {}),
        "findings": [each.to_dict() for each in findings],
        "not_modelled": [
            {"place": place, "name": each.field, "text": each.consequence}
            for each, place in left_out
        ],
    }
    return Answer(int(bool(findings) or found is not None), tuple(blocks), data)


_WORLDS = 2000
"""How many small clusters are tried for loops."""


def _loop(
    question: Question,
    content: SchedulerConfig | Mapping[str, object],
    snapshot: Snapshot | None,
) -> PingPong | None:
    """Return evictions that never end, by a configuration that can be built."""
    try:
        config = content
        if not isinstance(config, SchedulerConfig):
            config = SchedulerConfig.from_mapping(config, unknown="notice")
        promises = question.arguments.text("--promises") or "kept"
        return find_cycles(config, snapshot, promises=promises, worlds=_WORLDS)
    except ConfigError:  # which is a finding
        return None


def _told(name: str, findings: Sequence[Finding]) -> str:
    if not findings:
        return f"Nothing is found wrong with {name}."
    codes = ", ".join(dict.fromkeys(each.code for each in findings))
    return f"{counted(len(findings), 'finding')} in {name}: {codes}."


def _finding(finding: Finding) -> Section:
    lines = [finding.consequence, f"advice: {finding.advice}"]
    if finding.instead is not None:
        lines.append(f"to use: {_in_full(finding.instead)}")
    if finding.shows_on_yours is not None:
        does = "makes a difference" if finding.shows_on_yours else "changes nothing now"
        lines.append(f"on this cluster it {does}")
    return Section(f"{finding.code} at {finding.place}", tuple(lines))


def _in_full(config: SchedulerConfig) -> str:
    """Return a configuration in one line, with arguments."""

    def told(options: Iterable[ActionOption | PluginOption]) -> str:
        return ", ".join(_with_arguments(each.name, each.arguments) for each in options)

    return f"{told(config.actions)}; {' | '.join(told(tier.plugins) for tier in config.tiers)}"


def _with_arguments(name: str, arguments: Mapping[str, object]) -> str:
    told = ", ".join(f"{key}: {value}" for key, value in sorted(arguments.items()))
    return f"{name} ({told})" if told else name


# The smallest cluster

_MARK = "batchsched.kubernetes.io/of-interest"
"""The label of the job that a test is about: names change while a cluster gets smaller."""
_USUAL_BUDGET = 1000
"""How often the test is asked at most."""
_TESTS = ("waits JOB", "starts JOB", "state JOB STATE", "MODULE:FUNCTION")


def shrink_answer(question: Question) -> Answer:
    """Answer with the smallest cluster for which a test still holds, renamed."""
    words = (question.arguments.text("--while") or "").split()
    words += question.arguments.positional
    if not words:
        raise UsageError(f"shrink: expected --while with one of {', '.join(_TESTS)}")
    config = question.configuration()
    snapshot, holds = _tested(words, question, config.config)
    told = " ".join(words)
    if not holds(snapshot):
        data = {"holds": False, "test": told}
        return Answer(1, (Line(f"The test does not hold on this cluster: {told}."),), data)
    budget = question.arguments.whole("--budget", least=2) or _USUAL_BUDGET
    found = shrink(snapshot, holds, neutral=True, budget=budget)
    marked = [job for job in found.snapshot.jobs if _MARK in job.labels]
    small = _marked(found.snapshot)
    size = f"The smallest cluster found for which the test holds ({told}) has {_size(small)}"
    lines = [f"before: {_size(snapshot)}"]
    if not found.is_complete:
        lines.append(
            f"it may become smaller with more than {counted(budget, 'question')}: --budget"
        )
    lines += [f"the job of the test is called {job.uid} in it" for job in marked]
    blocks = (Line(f"{size}."), Section("", tuple(lines)), *_cluster(small))
    return Answer(0, (*blocks, _configurations(config)), small.to_dict())


def _tested(
    words: Sequence[str], question: Question, config: SchedulerConfig
) -> tuple[Snapshot, Callable[[Snapshot], bool]]:
    """Return the cluster, with the job in question marked, and the test."""
    snapshot = question.dump().snapshot
    kind, *arguments = words
    scheduler = Scheduler(config)
    state: JobStatus | None = None
    if kind == "waits" and len(arguments) == 1:
        # In the same state as now: any job waits where there are no nodes.
        found = _standing(snapshot, scheduler, question.job(arguments[0]))
        if not found.waits:
            return snapshot, lambda _smaller: False
        state = found.state
    elif kind == "state" and len(arguments) > 1:
        state = state_named(" ".join(arguments[1:]))
    elif kind == "starts" and len(arguments) == 1:
        pass
    elif len(words) == 1 and ":" in kind:
        return snapshot, _function(kind)
    else:
        kinds = [test.partition(" ")[0] for test in _TESTS[:3]]
        hint = "" if kind in kinds else did_you_mean(kind, kinds)
        raise UsageError(
            f"--while: expected one of {', '.join(_TESTS)}, got {' '.join(words)!r}{hint}"
        )
    marked = _marked(snapshot, question.job(arguments[0]))

    def holds(smaller: Snapshot) -> bool:
        for job in smaller.jobs:
            if _MARK in job.labels:
                if state is not None:
                    return _standing(smaller, scheduler, job.uid).state is state
                return starts(smaller, job.uid)(scheduler.schedule(smaller, reasons=False))
        return False

    return marked, holds


def _standing(snapshot: Snapshot, scheduler: Scheduler, uid: str) -> JobStanding:
    found = standings(snapshot, scheduler.schedule(snapshot), config=scheduler.config)
    return next(each for each in found if each.job == uid)


def _function(text: str) -> Callable[[Snapshot], bool]:
    """Return the function that ``MODULE:FUNCTION`` names; modules are also sought here."""
    module, _, name = text.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever a module does when it is imported
        raise UsageError(f"--while {text}: {type(error).__name__}: {error}") from None
    if not callable(found):
        raise UsageError(f"--while {text}: expected a function of a snapshot, got {found!r}")
    function = found

    def holds(snapshot: Snapshot) -> bool:
        try:
            return bool(function(snapshot))
        except Exception as error:  # whatever it does
            raise UsageError(f"--while {text}: it raised {type(error).__name__}: {error}") from None

    return holds


def _marked(snapshot: Snapshot, uid: str = "") -> Snapshot:
    """Return a cluster in which the job with this UID has the mark, and no other."""
    jobs: list[JobInfo] = []
    for job in snapshot.jobs:
        labels = {key: value for key, value in job.labels.items() if key != _MARK}
        if job.uid == uid:
            labels[_MARK] = "1"
        jobs.append(replaced(job, labels=labels))
    return replaced(snapshot, jobs=jobs)


def _size(snapshot: Snapshot) -> str:
    tasks = sum(len(job.tasks) for job in snapshot.jobs) + len(snapshot.other_tasks)
    parts = (("node", snapshot.nodes), ("queue", snapshot.queues), ("job", snapshot.jobs))
    told = ", ".join(counted(len(there), what) for what, there in parts)
    return f"{told} and {counted(tasks, 'task')}"


def _cluster(snapshot: Snapshot) -> Iterator[Block]:
    """Yield what a small cluster is made of."""
    nodes = [
        (
            node.name,
            amounts_text(node.allocatable.dimensions()),
            "cordoned" if node.unschedulable else "",
        )
        for node in snapshot.nodes
    ]
    if nodes:
        yield Table((Column("NODE", is_name=True), Column("HAS"), Column("")), tuple(nodes))
    tasks = [
        (
            job.uid,
            job.queue,
            str(job.min_available),
            task.name,
            amounts_text(task.resreq.dimensions()),
            task.status.value if task.node_name is None else f"on {task.node_name}",
        )
        for job in snapshot.jobs
        for task in job.tasks
    ]
    if tasks:
        names = ("JOB", "QUEUE", "MIN", "TASK", "REQUESTS", "STATUS")
        columns = (Column(name, right=name == "MIN", is_name=name == "JOB") for name in names)
        yield Table(tuple(columns), tuple(tasks))
