"""The command about the time to come: when."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from datetime import datetime
from typing import cast

from batchsched import JobInfo
from batchsched.tools import (
    AsEstimated,
    Estimates,
    Forecast,
    History,
    JobForecast,
    duration,
    forecast,
)
from batchsched_cli.cluster_answers import ShownJobs
from batchsched_cli.reading import Object, Question
from batchsched_cli.text import Answer, Block, Column, Line, Section, Table, counted

_FUTURES = 10
"""How many futures there are if nobody says."""
_BAR = 24
"""How many characters the bar of an interval has."""
_NAMED = 3


def when(question: Question) -> Answer:
    """Answer when jobs start, and after whom. A cycle for each future and each end in it."""
    names = question.arguments.positional
    shown = ShownJobs(question)
    uids = [question.job(name) for name in names]
    if not names:
        uids = [job.uid for job in shown.known if shown.standing(job.uid).waits]
    estimates, known_by = _estimates(question, shown)
    told = forecast(
        shown.dump.snapshot,
        config=question.configuration().config,
        estimates=estimates,
        samples=question.arguments.whole("--samples") or _FUTURES,
        jobs=uids,
    )
    jobs = shown.dump.snapshot.jobs
    shown_as = {task.uid: f"{task.namespace}/{task.name}" for job in jobs for task in job.tasks}
    shown_as.update((job.uid, shown.name(job.uid)) for job in jobs)
    blocks = list(_of_one(told, shown_as) if len(uids) == 1 else _of_all(told, shown_as))
    rests_on = [f"assumed: {text}" for text in told.assumes]
    if told.endless and question.arguments.text("--run-time") is None:
        rests_on.append("--run-time TIME says for how long jobs run of which nothing is known")
    rests_on += [f"run times: {known_by}", f"configuration: {question.configuration().text}"]
    blocks.append(Section("", tuple(rests_on), in_full=True))
    data = {**told.to_dict(), "configuration": question.configuration().text, "run_times": known_by}
    data["lines"] = [told.sentence(uid, shown_as) for uid in told.jobs]
    starts_always = all(None not in each.starts for each in told.jobs.values())
    return Answer(int(not starts_always), tuple(blocks), data)


def _of_one(told: Forecast, names: Mapping[str, str]) -> Iterator[Block]:
    [(uid, one)] = told.jobs.items()
    tone = "waits" if one.median is None else "starts"
    yield Line(told.sentence(uid, names), tone, has_head=True)
    if one.nodes:
        nodes = dict.fromkeys(one.nodes.values())
        yield Section("", (f"on {', '.join(nodes)}",))
    if one.median is not None and one.earliest != one.latest:
        yield _table(told, [one], names)


def _of_all(told: Forecast, names: Mapping[str, str]) -> Iterator[Block]:
    ranked = told.in_order()
    starting = [each for each in ranked if each.median is not None]
    if not ranked:
        yield Line("No job waits.")
        return
    wait = "1 job waits" if len(ranked) == 1 else f"{counted(len(ranked), 'job')} wait"
    last = starting[-1].median if starting else None
    if last is None:
        yield Line(f"{wait}; none of them starts.", "waits")
    else:
        how_many = f"{len(starting)} of them start{'s' if len(starting) == 1 else ''}"
        if len(starting) == len(ranked):
            how_many = "it starts" if len(ranked) == 1 else "all start"
        when_last = f"within about {duration(last - told.now)}" if last > told.now else "now"
        yield Line(f"{wait}; {how_many} {when_last}.")
    yield _table(told, ranked, names)


def _table(told: Forecast, jobs: list[JobForecast], names: Mapping[str, str]) -> Table:
    times = (time for each in jobs for time in (each.earliest, each.median, each.latest))
    end = max((time for time in times if time is not None), default=told.now)
    rows = [
        (
            names[each.job],
            _in(told, each.median),
            *(_in(told, t) if each.earliest != each.latest else "" for t in each.interval),
            _bar(each, told.now, end),
            each.never or ", ".join(names.get(uid, uid) for uid in each.waits_for[:_NAMED]),
        )
        for each in jobs
    ]
    columns = (
        Column("JOB", is_name=True, least=16),
        Column("STARTS IN", right=True, share=0),
        Column("EARLIEST", right=True, share=0, drop=2),
        Column("LATEST", right=True, share=0, drop=2),
        Column("", share=0, drop=1, is_bar=True),
        Column("AFTER", least=12),
    )
    tones = tuple("waits" if each.median is None else "" for each in jobs)
    return Table(columns, tuple(rows), tones=tones)


def _in(told: Forecast, time: float | None) -> str:
    if time is None:
        return "never"
    return "now" if time <= told.now else duration(round(time - told.now))


def _bar(job: JobForecast, now: float, end: float) -> str:
    """Return the time from now to the end of all: ``-`` within the interval, ``|`` the median."""
    if job.median is None or job.earliest is None or end <= now:
        return ""

    def place(time: float) -> int:
        return min(int((time - now) / (end - now) * _BAR), _BAR - 1)

    first, middle = place(job.earliest), place(job.median)
    last = _BAR - 1 if job.latest is None else place(job.latest)
    return "".join(
        "|" if at == middle else "-" if first <= at <= last else "." for at in range(_BAR)
    )


# For how long jobs run


def _estimates(question: Question, shown: ShownJobs) -> tuple[Estimates, str]:
    """Return what is known of run times, and from where."""
    otherwise = question.arguments.seconds("--run-time")
    history = question.arguments.text("--history")
    objects = [*question.objects()]
    if history is not None:
        objects = [*question.objects_of(history), *objects]
    ended = sorted(_ended(objects), key=lambda each: (each[2], each[0].uid))
    runs = [(job, seconds) for job, seconds, _ in ended]
    facts = shown.dump.facts

    def program(job: JobInfo) -> Hashable:
        name = facts[job.uid].owner if job.uid in facts else job.name
        return job.namespace, re.sub(r"\d+", "", name)

    def namespace(job: JobInfo) -> Hashable:
        return job.namespace

    def without_estimate(job: JobInfo) -> Hashable:
        return None if job.expected_run is not None else True

    parts = [counted(len(runs), "job") + " that ended"] if runs else []
    parts.append("estimates and limits of jobs")
    if otherwise is not None:
        parts.append(f"else {duration(otherwise)}")
    if not runs:
        return AsEstimated(otherwise=otherwise), ", ".join(parts)
    keys = (program, namespace, without_estimate)
    return History(runs, keys=keys, otherwise=otherwise), ", ".join(parts)


def _ended(objects: list[Object]) -> Iterator[tuple[JobInfo, float, float]]:
    """Yield the Jobs that have ended, for how many seconds they ran, and when they ended."""
    for each in objects:
        if each.get("kind") != "Job":
            continue
        status, about = _mapping(each.get("status")), _mapping(each.get("metadata"))
        start = _time(status.get("startTime"))
        end = _time(status.get("completionTime"))
        conditions: object = status.get("conditions")
        for condition in cast("list[object]", conditions) if isinstance(conditions, list) else ():
            told = _mapping(condition)
            if end is None and (told.get("type"), told.get("status")) == ("Failed", "True"):
                end = _time(told.get("lastTransitionTime"))
        if start is not None and end is not None and end >= start:
            name, namespace = str(about.get("name")), str(about.get("namespace") or "default")
            yield JobInfo(name=name, namespace=namespace, queue=""), end - start, end


def _mapping(value: object) -> Object:
    return cast("Object", value) if isinstance(value, dict) else {}


def _time(text: object) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else None
    except ValueError:
        return None
