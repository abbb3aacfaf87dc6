"""The commands about more than one moment: simulate, record, replay, and why of a record."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from re import fullmatch

from batchsched import BatchschedError, simulation
from batchsched.simulation import Metrics, Policy, Problem, Run, Workload, simulate
from batchsched.tools import Record, Recorder, duration, explain_eviction, replay
from batchsched_cli.arguments import UsageError, did_you_mean
from batchsched_cli.cluster_answers import why
from batchsched_cli.reading import PRESETS, Question, documents, lines_of, text_of_file
from batchsched_cli.text import Answer, Column, Line, Table, blocks_of, counted

_USUAL_POLICIES = ("fcfs", "easy", "conservative")
_USUAL_METRICS = (
    *("wait", "wait_median", "wait_p99", "response", "bsld", "utilisation", "makespan"),
    *("preemptions", "ended_at_request", "unfinished"),
)
_OF_SOME_RUNS = ("jain_user", "jain_queue", "preemptions", "lost", "cancelled", "failed")
"""Metrics that only some runs have."""
_DROPPED = {
    name: place
    for place, name in enumerate(
        ("wait_p99", "wait_median", "makespan", "preemptions", "ended_at_request", "response"), 1
    )
}
"""Metrics that lines too narrow for all go without, and in which order."""
_SECONDS = ("wait", "response", "pending", "makespan")
"""What the names of metrics begin with that are times."""
_SHOWN_PROBLEMS = 3
_SWF_FIELDS = 18
_SIDE_BY_SIDE = 4
"""Up to so many policies stand beside one another, more below one another."""
_BAR = 30
"""The width of the bar that shows how far a simulation is."""
_READERS = {
    "timestamp duration num_gpus cluster": simulation.read_philly,
    "job_id submit_time duration gpu_num vc user": simulation.read_helios,
    "job_id submit_time num_gpu model_name iterations iteration_time": simulation.read_muri,
    "name num_gpu creation_time deletion_time scheduled_time qos": simulation.read_openb,
}
"""The readers of published traces by columns that each needs."""


# A log under policies


def simulate_answer(question: Question) -> Answer:
    """Answer with the metrics of a log of jobs under policies, side by side."""
    question.may_read_input = False
    [path] = question.arguments.positional
    arguments = question.arguments
    names = list(dict.fromkeys((*arguments.texts("--policy"), *arguments.texts("--config"))))
    names = names or list(_USUAL_POLICIES)
    out = arguments.text("--out")
    if out is not None and out.endswith(".swf") and len(names) > 1:
        raise UsageError(f"--out {out}: a log has one run; give one --policy, or a .csv")
    workload, notes = _workload(path, question)
    has_limits = any(limit is not None for limit in workload.requested)
    policies = {name: _policy(name, question, has_limits=has_limits) for name in names}
    if has_limits:
        limited = workload.where(lambda job: job.requested is not None)
        if len(limited) < len(workload):
            left_out = counted(len(workload) - len(limited), "job")
            notes.append(f"{left_out} without a time limit left out")
            workload = limited
    else:
        notes.append("the log has no time limits: policies get the true run times")
    if not len(workload):
        raise UsageError(f"{path}: no job is left", *notes)
    wanted = _metrics(question, [simulate(workload.first(1), each) for each in policies.values()])
    runs = {name: _simulated(name, workload, policy) for name, policy in policies.items()}
    figures = {name: run.metrics() for name, run in runs.items()}
    if out is not None:
        question.write(out, _content(out, runs))
        notes.append(f"the jobs of {counted(len(runs), 'run')} are written to {out}")
    question.notes += notes
    table = _table(wanted, figures)
    data = {
        "log": path,
        "jobs": len(workload),
        "machine": str(workload.machine),
        "policies": {
            name: {"policy": str(runs[name].policy), **each} for name, each in figures.items()
        },
        "about": dict(next(iter(figures.values())).about),
        "notes": notes,
    }
    return Answer(0, (Line(_best(workload, figures)), table), data)


def _simulated(name: str, workload: Workload, policy: Policy) -> Run:
    """Simulate; where errors go to a terminal, show meanwhile how far it is."""
    if not sys.stderr.isatty():
        return simulate(workload, policy)

    def show(ended: int, jobs: int) -> None:
        bar = "#" * (ended * _BAR // max(jobs, 1))
        text = f"{name} [{bar:<{_BAR}}] {ended:,} of {counted(jobs, 'job')}"
        print(f"\r{text:<79}", end="", file=sys.stderr, flush=True)

    run = simulate(workload, policy, progress=show)
    print(f"\r{'':<79}\r", end="", file=sys.stderr, flush=True)
    return run


def _best(workload: Workload, figures: Mapping[str, Metrics]) -> str:
    """Return which policy makes jobs wait least, in a sentence."""
    of_jobs = f"({counted(len(workload), 'job')} on {workload.machine})"
    waits = {name: each["wait"] for name, each in figures.items()}
    least = min(waits, key=lambda name: waits[name])
    most = max(waits, key=lambda name: waits[name])
    mean = duration(int(waits[least]))
    if len(waits) == 1:
        return f"Under {least} a job waits {mean} on average {of_jobs}."
    if waits[most] == waits[least]:
        return f"A job waits {mean} on average under each policy {of_jobs}."
    return (
        f"A job waits least under {least}, {mean} on average, and longest under {most}, "
        f"{duration(int(waits[most]))} {of_jobs}."
    )


def _metrics(question: Question, runs: Sequence[Run]) -> list[str]:
    """Return the metrics that are asked for; empty: the usual ones. Told before long runs."""
    known = list(dict.fromkeys((*(name for run in runs for name in run.metrics()), *_OF_SOME_RUNS)))
    given = ",".join(question.arguments.texts("--metrics"))
    wanted = [name.strip() for name in given.split(",") if name.strip()]
    faults = [
        f"--metrics: no metric is called {name}{did_you_mean(name, known)}; {', '.join(known)}"
        for name in wanted
        if name not in known
    ]
    if faults:
        raise UsageError(*faults)
    return wanted


def _table(wanted: Sequence[str], figures: Mapping[str, Metrics]) -> Table:
    """Return the metrics: a column for each policy, or a row if there are many."""
    about = {name: text for each in figures.values() for name, text in each.about.items()}
    shown = {
        name: [_figure(name, each.get(name)) for each in figures.values()]
        for name in wanted or _USUAL_METRICS
        if wanted or any(each.get(name) for each in figures.values())
    }
    if len(figures) <= _SIDE_BY_SIDE:
        of_policies = (Column(name, right=True, share=0) for name in figures)
        columns = (Column("METRIC", share=0), *of_policies, Column("WHAT IT IS", share=3))
        rows = [(name, *values, about.get(name, "")) for name, values in shown.items()]
        return Table(columns, tuple(rows))
    of_metrics = (Column(name, right=True, share=0, drop=_DROPPED.get(name, 0)) for name in shown)
    columns = (Column("POLICY", is_name=True), *of_metrics)
    return Table(columns, tuple(zip(figures, *shown.values(), strict=True)))


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    if name.startswith(_SECONDS):
        return f"{value:,.0f} s"
    if name == "utilisation":
        return f"{value:.1%}".replace("%", " %")
    return f"{value:,}" if float(value).is_integer() else f"{value:,.2f}"


def _policy(name: str, question: Question, *, has_limits: bool) -> Policy:
    """Return the policy of a name: of a list, or a configuration of this scheduler."""
    believed: simulation.Predictor = simulation.Requested() if has_limits else simulation.Perfect()
    of_lists: Mapping[str, Policy] = {
        "fcfs": simulation.Fcfs(),
        "easy": simulation.Easy(predictor=believed),
        "easy-sjbf": simulation.Easy(backfill="shortest", predictor=believed),
        "easy++": simulation.Easy(
            backfill="shortest", predictor=simulation.LastTwo(), corrector=simulation.ToRequest()
        ),
        "conservative": simulation.Conservative(predictor=believed),
        "sjf": simulation.ShortestFirst(predictor=believed),
        "srtf": simulation.Srtf(),
        "srsf": simulation.Srsf(),
        "las": simulation.LeastAttainedService(),
    }
    if name in of_lists:
        return of_lists[name]
    if name in PRESETS or Path(name).exists():
        return simulation.Scheduled(question.noted_configuration(name).config)
    known = (*of_lists, *PRESETS)
    raise UsageError(
        f"no policy, preset or file is called {name}{did_you_mean(name, known)}; "
        f"policies: {', '.join(known)}"
    )


# Logs


def _workload(path: str, question: Question) -> tuple[Workload, list[str]]:
    """Return the jobs of a log on their machine, and notes on what was left out."""
    text = text_of_file(path)
    workload, problems = _read(path, text)
    notes = [str(problem) for problem in problems[:_SHOWN_PROBLEMS]]
    if len(problems) > _SHOWN_PROBLEMS:
        notes.append(f"and {len(problems) - _SHOWN_PROBLEMS:,} more problems of the log")
    nodes = question.arguments.text("--nodes")
    if nodes is not None:
        found = fullmatch(r"([1-9][0-9]{0,6})(?:x([1-9][0-9]{0,4}))?", nodes)
        if found is None:
            raise UsageError(
                f"--nodes: expected a number of nodes, or nodes x processors such as 32x8, "
                f"got {nodes!r}"
            )
        workload = workload.on(nodes=int(found[1]), per_node=int(found[2] or 1))
    machine = workload.machine
    if machine is None:
        raise UsageError(f"{path}: it does not say how large its machine was: give --nodes")
    fitting = workload.where(lambda job: (job.processors or 0) <= machine.processors)
    if len(fitting) < len(workload):
        left_out = counted(len(workload) - len(fitting), "job")
        notes.append(f"{left_out} larger than {machine} left out")
    return fitting, notes


def _read(path: str, text: str) -> tuple[Workload, list[Problem]]:
    """Read a log in the Standard Workload Format, or the rows of a published trace."""
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), "")
    if first.startswith(";") or len(first.split()) == _SWF_FIELDS:
        return simulation.read_swf(lines)
    names: list[str] = next(csv.reader([first]), list[str]())
    for columns, reader in _READERS.items():
        if set(columns.split()) <= set(names):
            return reader(csv.DictReader(StringIO(text)))
    raise UsageError(
        f"{path}: expected a log in the Standard Workload Format, or a trace with the columns of "
        f"Philly, Helios, Muri or openb; it begins with {first[:40]!r}"
    )


def _content(path: str, runs: Mapping[str, Run]) -> str:
    """Return what is written of runs: a row for each job and policy, or a log of one run."""
    if path.endswith(".swf"):
        return "".join(f"{line}\n" for run in runs.values() for line in run.to_swf())
    written = StringIO(newline="")
    writer = csv.writer(written, lineterminator="\n")
    columns = list(dict.fromkeys(name for run in runs.values() for name in run.jobs))
    writer.writerow(["policy", *columns])
    for name, run in runs.items():
        jobs, none = run.jobs, [None] * len(run.workload)
        rows = zip(*(jobs.get(column, none) for column in columns), strict=True)
        writer.writerows([name, *row] for row in rows)
    return written.getvalue()


# Records of cycles

_RECORD = "batchsched.Record"


def record_answer(question: Question) -> Answer:
    """Run one cycle, and append snapshot and decisions to a file; answer what it decides."""
    [path] = question.arguments.positional
    if path.endswith(".gz"):
        raise UsageError(f"{path}: give a file that is not compressed; nothing can be appended")
    before = _records(path) if Path(path).exists() else []
    recorder = Recorder(question.dump().snapshot, question.configuration().config)
    result = recorder.cycle()
    line = json.dumps(recorder.record.to_dict(), separators=(",", ":"))
    question.write(path, f"{line}\n", after=True)
    cycles = sum(len(each.cycles) for each in before) + 1
    done = [
        f"{counted(len(tasks), 'task')} {one if len(tasks) == 1 else more}"
        for tasks, one, more in (
            (result.binds, "starts", "start"),
            (result.evictions, "is evicted", "are evicted"),
            (result.pending, "waits", "wait"),
        )
        if tasks
    ]
    told = ", ".join(done) or "there is nothing to decide"
    data = {"file": path, "cycles": cycles, "result": result.to_dict()}
    text = f"Cycle {cycles} is recorded in {path}: {told}."
    configuration = Line(f"configuration: {question.configuration().text}", "quiet")
    return Answer(0, (Line(text), configuration), data)


def replay_answer(question: Question) -> Answer:
    """Answer whether this version, or another configuration, makes the recorded decisions."""
    question.may_read_input = False
    [path] = question.arguments.positional
    given = question.arguments.text("--config")
    config, name = None, "This version"
    if given is not None:
        config, name = question.noted_configuration(given).config, f"Configuration {given}"
    records = _records(path)
    if not records:
        raise UsageError(f"{path}: there are no records")
    cycles = 0
    for record in records:
        found = replay(record, config=config)
        if found.differs_at is not None and found.difference is not None:
            position = cycles + found.differs_at
            text = f"{name} decides otherwise, first in cycle {position + 1} of {path}."
            blocks = (Line(text), *blocks_of(found.difference.sections()))
            difference = found.difference.to_dict()
            data = {"cycles": position + 1, "differs_at": position, "difference": difference}
            return Answer(1, blocks, data)
        cycles += found.cycles
    text = f"{name} decides the same in {cycles} of {counted(cycles, 'recorded cycle')}."
    return Answer(0, (Line(text),), {"cycles": cycles, "differs_at": None, "difference": None})


def why_answer(question: Question) -> Answer:
    """Answer why a job waits, or why a task was evicted in a recorded cycle."""
    path = question.arguments.text("--record")
    if path is None:
        return why(question)
    question.may_read_input = False
    names = question.arguments.positional
    if not names:
        raise UsageError("--record: name the task that was evicted: `why TASK --record FILE`")
    records, [word] = _records(path), names
    # The last record that evicts a task of this name or UID, and how many cycles are before it.
    found: tuple[int, int, str] | None = None
    known: dict[str, str] = {}
    cycles = 0
    for position, record in enumerate(records):
        for result in (each.result for each in record.cycles):
            for uid in (eviction.task_uid for eviction in result.evictions):
                for name in (uid, result.names.get(uid, uid), uid.rpartition("/")[2]):
                    known.setdefault(name, uid)
                if word in (uid, result.names.get(uid, uid), uid.rpartition("/")[2]):
                    found = position, cycles, uid
        cycles += len(record.cycles)
    if found is None:
        more = "" if known else f"; no cycle in {path} evicts anything"
        raise UsageError(
            f"no task called {word} is evicted in {path}{did_you_mean(word, known)}{more}"
        )
    position, before, uid = found
    story = explain_eviction(records[position], uid, later=records[position + 1 :])
    data = {**story.counted_from(before).to_dict(), "file": path}
    # Cycles are counted from 0 in data, and from 1 in texts, as by `record` and `replay`.
    blocks = (
        *blocks_of(story.counted_from(before + 1).sections()),
        Line(f"record: {path}", "quiet"),
    )
    return Answer(0, blocks, data)


def _records(path: str) -> list[Record]:
    """Return the records in a file: one for each document."""
    faults: list[str] = []
    found: list[Record] = []
    for where, document in documents(path, faults, []):
        if document.get("format") != _RECORD:
            faults.append(f"{where}: expected a record, as `batchsched record` writes it")
            continue
        try:
            found.append(Record.from_dict(document))
        except BatchschedError as error:
            faults += [f"{where}: {line}" for line in lines_of(error)]
    if faults:
        raise UsageError(*faults)
    return found
