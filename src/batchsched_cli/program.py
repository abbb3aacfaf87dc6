"""The program: which commands there are, what runs them, and how it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from batchsched_cli.arguments import (
    Arguments,
    Command,
    Option,
    UsageError,
    command_help,
    parsed,
    program_help,
)

if TYPE_CHECKING:
    from batchsched_cli.reading import Question
    from batchsched_cli.text import Answer

UNUSABLE = 2
"""The exit status where files, names or arguments cannot be used."""
INTERRUPTED = 130

_USER_KEY = Option(
    "--user-key",
    "KEY",
    "the label or annotation of pods, or of what owns them, that names the user; else "
    "batchsched/user",
)
COMMANDS = {
    command.name: command
    for command in (
        Command(
            "why",
            "[JOB]",
            "why does a job wait, and what would start it?",
            "runs:why_answer",
            statuses=("it does not wait", "it waits"),
            options=(
                Option("--record", "FILE", "why the task was evicted, of a file of `record`"),
            ),
            more_help="""\
Without JOB: of the only job (that waits), or a table of those that wait.
`why TASK --record FILE`: why the task was evicted, the last time that it was in
a file of `record`: by which action, for whom, by which rule, and did it help.""",
        ),
        Command(
            "jobs",
            "",
            "a table of jobs: those that wait, and those that start now",
            "cluster_answers:jobs",
            options=(
                Option("--state", "STATE", "only jobs in this state", repeats=True),
                Option("--queue", "NAME", "only jobs in this queue and those below", repeats=True),
                Option("--sort", "since|priority|queue", "the order of the table"),
                _USER_KEY,
            ),
        ),
        Command(
            "queues",
            "",
            "the tree of queues: what they hold, their shares and limits, who waits",
            "cluster_pictures:queues",
            options=(
                Option("--resource", "NAME", "the resource that is shown, such as cpu"),
                Option("--users", "", "what each user holds and wants, too"),
                _USER_KEY,
            ),
        ),
        Command(
            "nodes",
            "",
            "a picture of the nodes: what is used, by whom, what is out of service",
            "cluster_pictures:nodes",
            options=(Option("--by", "LABEL", "the label by which nodes are grouped"),),
        ),
        Command(
            "audit",
            "[QUEUE]",
            "who is owed what, who holds beyond its share, and what this cycle takes for whom?",
            "cluster_answers:audit_answer",
            statuses=("no queue is owed anything", "some queue is owed something"),
            more_help="With QUEUE: of that queue and those below it.",
        ),
        Command(
            "when",
            "[JOB...]",
            "when do jobs start, and after whom?",
            "forecast_answers:when",
            statuses=("they start in every future", "some do not, in some future"),
            options=(
                Option("--run-time", "TIME", "for how long jobs run of which nothing is known: 2h"),
                Option("--history", "PATH", "a file or folder with more Jobs that have ended"),
                Option("--samples", "N", "how many futures are tried (10)"),
            ),
            more_help="""\
Without JOB: all that wait. Jobs run for as long as those of the same name that
have ended; else as estimated (batchsched/estimate, activeDeadlineSeconds, Kueue's
maximum execution time); else for as long as --run-time says.""",
        ),
        Command(
            "defrag",
            "",
            "which running tasks to move, and where to, to free nodes or make room for a job?",
            "move_answers:defrag",
            statuses=("the goal is reached by these moves, or without any", "it is not"),
            options=(
                Option("--free", "N", "at least N nodes are to be free of tasks of jobs"),
                Option("--room", "JOB", "or: there is to be room for what this job needs next"),
                Option(
                    "--selector",
                    "LABEL=VALUE",
                    "with --free: only nodes with this label",
                    repeats=True,
                ),
                Option("--limit", "N", "the most moves"),
                Option("--max-price", "N", "the most that freeing one node, or the room, may cost"),
                Option("--exempt", "JOB", "a job that stays where it is", repeats=True),
            ),
            more_help="""\
A move stops a task and starts it again on another node; nothing is carried out.
What is protected from eviction does not move. A move costs 1, or what a kept
snapshot says that evicting the task costs. --json gives the plan, with the UIDs
of pods.""",
        ),
        Command(
            "what-if",
            "CHANGE...",
            "what would the next cycle do after changes?",
            "change_answers:what_if_answer",
            statuses=("nothing differs", "something differs"),
            more_help="""\
Changes, applied in order:
  end JOB|TASK|CLAIM        it has ended, or the claim, which no pod uses, is
                            deleted
  move TASK to=NODE         it starts again there, where it has room
  add-node NODE[xN]         N nodes more like that node, empty
  remove-node NODE          what runs there waits again
  cordon NODE               it takes no more tasks; uncordon: it does again
  queue NAME FIELD=VALUE... such as limit.gpu=80 (none: no limit), weight=2,
                            deserved.cpu=64, guarantee.memory=1Ti, state=closed
  job NAME FIELD=VALUE...   such as priority=9, min=2, queue=NAME, required=rack
  budget NAME FIELD=VALUE... such as max_unavailable=2, min_available=1, hard=false
  release JOB               what holds it is gone, and its queue is open
  submit FILE               its manifests (Job, JobSet, LeaderWorkerSet, PodGroup,
                            RayCluster, ...): what `why` would say of them
  config CONFIG             another configuration from here on
  cycle                     a cycle runs in between
For the name of nodes, LABEL=VALUE means all that have that label.""",
        ),
        Command(
            "cheapest",
            "JOB CHANGE...",
            "which is the first of some changes that starts a job?",
            "change_answers:cheapest_answer",
            statuses=("one of them does", "none does"),
            more_help="""\
The changes of `what-if`, with the word `or` between those of which one would do,
the cheapest first: `cheapest train end test or add-node n1 or add-node n1x2`.""",
        ),
        Command(
            "where",
            "FILE...",
            "in which of several clusters does a job do best, and why not in the others?",
            "change_answers:where_answer",
            statuses=("each job starts at once in some cluster", "some job does not"),
            options=(
                Option(
                    "--run-time",
                    "TIME",
                    "tell how long it waits, where jobs without an estimate run for so long: 2h",
                ),
            ),
            more_help="""\
FILE has the manifests of a job, or of several, as for `what-if submit`; each -f
is one cluster. Several jobs are sent one after the other, the most important
first.""",
        ),
        Command(
            "compare",
            "CONFIG CONFIG",
            "what would another configuration do, and which rule makes the difference?",
            "change_answers:compare_answer",
            statuses=("no decision differs", "some differ"),
            more_help="CONFIG is a file, or a preset by name.",
        ),
        Command(
            "check",
            "[CONFIG]",
            "mistakes in a configuration, each with a cluster that shows it",
            "change_answers:check_answer",
            statuses=("nothing is found", "something is found"),
            options=(
                Option(
                    "--loops", "", "evictions that never end, too: on small clusters, or with -f"
                ),
                Option(
                    "--promises",
                    "kept|forgotten|rival",
                    "with --loops: what becomes of room that evictions make (kept)",
                ),
            ),
            more_help="""\
With -f, whether they make a difference on that cluster too. --loops tries 2,000
small clusters, or that cluster, for evictions that never end; promises of room
are kept, forgotten, or a rival puts what was evicted back before each cycle.""",
        ),
        Command(
            "simulate",
            "LOG",
            "a log of jobs under policies: a table of metrics",
            "runs:simulate_answer",
            options=(
                Option(
                    "--policy",
                    "NAME",
                    "fcfs, easy, easy-sjbf, easy++, conservative, sjf, srtf, srsf, las, a preset, "
                    "or the file of a configuration; several stand side by side",
                    repeats=True,
                ),
                Option("--nodes", "N[xM]", "the machine: N nodes of M processors; else the log's"),
                Option("--metrics", "NAMES", "which metrics, separated by commas", repeats=True),
                Option("--out", "FILE", "write each job's times: .csv, or .swf of one policy"),
            ),
            more_help="""\
LOG is in the Standard Workload Format, or a trace of Philly, Helios, Muri or
openb (.csv); it may be compressed (.gz).""",
        ),
        Command(
            "record",
            "FILE",
            "run one cycle, and append the cluster and what is decided to a file",
            "runs:record_answer",
        ),
        Command(
            "replay",
            "FILE",
            "does this version, or a configuration (-c), make the recorded decisions?",
            "runs:replay_answer",
            statuses=("the same", "not: the first cycle that differs is shown"),
        ),
        Command(
            "shrink",
            "--while TEST",
            "the smallest cluster for which a test still holds, renamed",
            "change_answers:shrink_answer",
            statuses=("always", "the test does not hold at first"),
            options=(
                Option(
                    "--while", "TEST", "waits JOB, starts JOB, state JOB STATE, MODULE:FUNCTION"
                ),
                Option("--budget", "N", "how often the test is asked at most (1000)"),
            ),
            more_help="""\
waits JOB: in the state in which it waits now. MODULE:FUNCTION: a Python
function of a snapshot. --json gives the cluster as one, which -f reads.""",
        ),
    )
}
"""All commands by name, in the order in which the help shows them."""


def main(words: Sequence[str] | None = None) -> int:
    """Do what the words on the command line say; return the exit status."""
    given = list(sys.argv[1:] if words is None else words)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # an encoding may lack characters of names
            reconfigure(errors="replace")
    try:
        status = _run(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has seen enough
        _drop_output()
        return 0
    except OSError as error:  # such as a full disk
        _drop_output()
        print(f"batchsched: standard output: {error.strerror}", file=sys.stderr)
        return UNUSABLE
    return status


def _drop_output() -> None:
    """Keep Python from writing the rest of the output when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: Sequence[str]) -> int:
    try:
        arguments = parsed(words, COMMANDS)
        if arguments.has("--help"):
            command = COMMANDS.get(arguments.command)
            print(program_help(COMMANDS) if command is None else command_help(command))
            return 0
        if arguments.has("--version"):
            from batchsched import __version__  # noqa: PLC0415 - not for --help

            print(f"batchsched {__version__}")
            return 0
        if not arguments.command:
            raise UsageError(f"expected a command: {', '.join(COMMANDS)}; --help shows more")
        return _answered(arguments)
    except UsageError as error:
        _tell_faults(error.lines, as_json="--json" in words)
    return UNUSABLE


def _tell_faults(lines: Sequence[str], *, as_json: bool) -> None:
    from batchsched_cli.text import printable  # noqa: PLC0415 - only after a mistake

    if as_json:
        _print_json({"error": list(lines)})
        return
    sys.stdout.flush()
    for line in lines:
        print(f"batchsched: {printable(line)}", file=sys.stderr)


def _print_json(data: Mapping[str, object]) -> None:
    import json  # noqa: PLC0415 - not for --help

    print(json.dumps(data, indent=1))


def _answered(arguments: Arguments) -> int:
    """Answer a question; return the exit status."""
    from batchsched_cli.reading import Question  # noqa: PLC0415 - it imports the library
    from batchsched_cli.text import printable, style_of, text_of  # noqa: PLC0415 - not for --help

    style = style_of(arguments, sys.stdout, os.environ)
    question = Question(arguments)
    answer = question.asked(_function(COMMANDS[arguments.command]))
    page = arguments.text("--html")
    if page is not None:
        from batchsched_cli.pages import page_of  # noqa: PLC0415 - only for pages

        question.write(page, page_of(answer, title=f"batchsched {arguments.command}"))
    if arguments.has("--json"):
        head = {"format": f"batchsched.{arguments.command}", "version": 1}
        head |= {key: answer.data[key] for key in head if key in answer.data}
        _print_json({**head, **answer.data})
    elif page is None:
        print(text_of(answer, style), end="")
    sys.stdout.flush()
    for note in dict.fromkeys(question.notes):
        print(f"note: {printable(note)}", file=sys.stderr)
    return answer.status


def _function(command: Command) -> Callable[[Question], Answer]:
    module, _, name = command.place.partition(":")
    found = getattr(import_module(f"batchsched_cli.{module}"), name)
    return cast("Callable[[Question], Answer]", found)
