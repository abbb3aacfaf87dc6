"""The words on the command line: commands, options, and what was meant by those not known.

Nothing of the library is imported here, so that ``--help`` is there at once.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import NamedTuple, NoReturn, cast

MOST_SUGGESTIONS = 3
_UNITS = {"d": 86400, "h": 3600, "m": 60, "min": 60, "s": 1, "": 1}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(d|h|min|m|s|)")
_HELP_WIDTH = 80
_KUBECTL = (
    "for kind in $(kubectl api-resources --verbs=list -o name | grep -E",
    (
        "'^(pods|namespaces|jobs|workloads|cohorts|topologies|bindrequests|resource.*|"
        ".*(nodes|groups|queues|classes|budgets))(\\.|$)'); do"
    ),
    "kubectl get $kind -A -o json; done > cluster.json",
)
KUBECTL = " ".join(_KUBECTL)
"""What makes a dump: of all kinds that are read and that a cluster has, in whichever API group."""


class UsageError(Exception):
    """Files, names or arguments that cannot be used; one line for each fault."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines
        super().__init__("\n".join(lines))


class Option(NamedTuple):
    """An option of the program or of one command."""

    name: str
    """With its dashes: ``--width``."""
    metavar: str
    """What its value is called; empty: it has none."""
    help: str
    short: str = ""
    """Such as ``-f``."""
    repeats: bool = False
    """Whether it may be given several times; otherwise the last one counts."""

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it may have; empty: any."""
        return tuple(self.metavar.split("|")) if "|" in self.metavar else ()


class Command(NamedTuple):
    """A command of the program."""

    name: str
    arguments: str
    """What follows it: one word for each argument, ``[JOB]`` if it may be left out, ``CHANGE...``
    if it may be several; or an option that takes all of them."""
    help: str
    """What it answers, in one line."""
    place: str
    """The function that answers: ``module:function``, of this package."""
    statuses: tuple[str, str] = ("always", "")
    """What the exit statuses 0 and 1 say; an empty text: there is no such status."""
    options: tuple[Option, ...] = ()
    """Its own options, besides `OPTIONS`."""
    more_help: str = ""
    """Further lines of its help."""

    @property
    def usage(self) -> str:
        """The command with its arguments, as it is written."""
        return f"batchsched {self.name} {self.arguments}".strip()

    def takes(self, count: int) -> bool:
        """Return whether it may have so many arguments."""
        words = self.arguments.split()
        if self.arguments.startswith("-"):
            return True
        least = sum(not word.startswith("[") for word in words)
        return least <= count and (count <= len(words) or self.arguments.endswith("..."))


OPTIONS = (
    Option(
        "--file",
        "PATH",
        "a file or folder with objects of the cluster (JSON or YAML, also .gz), - for standard "
        "input, a kept snapshot, or openb[:SCALE]",
        "-f",
        repeats=True,
    ),
    Option("--config", "CONFIG", "a configuration or ConfigMap, or a preset by name", "-c"),
    Option("--namespace", "NAME", "the namespace that names and tables mean", "-n"),
    Option("--now", "TIME", "the present time, RFC 3339; else the latest in the dump"),
    Option("--scheduler", "NAME", "a further batch scheduler that pods name", repeats=True),
    Option(
        "--admission",
        "theirs|ours",
        "whether what Kueue and Volcano have not admitted waits for them",
    ),
    Option("--json", "", "answer as JSON"),
    Option("--html", "FILE", "answer as a page, written to a file"),
    Option("--width", "N", "columns of the text; else those of the terminal, or 80"),
    Option("--color", "auto|always|never", "whether to colour the text"),
    Option("--all", "", "show all, however many lines there are"),
    Option("--verbose", "", "show all notes on what was changed or left out in reading"),
    Option("--help", "", "show the help", "-h"),
    Option("--version", "", "show the version"),
)
"""The options of every command."""


class Arguments:
    """What the command line says."""

    def __init__(
        self, command: str, positional: Sequence[str], values: Mapping[str, Sequence[str]]
    ) -> None:
        self.command = command
        """The name of the command; empty: none was given."""
        self.positional = tuple(positional)
        """The arguments of the command."""
        self._values = values

    def texts(self, option: str) -> tuple[str, ...]:
        """Return all values of an option."""
        return tuple(self._values.get(option, ()))

    def text(self, option: str) -> str | None:
        """Return the last value of an option; None: it was not given."""
        given = self._values.get(option)
        return given[-1] if given else None

    def has(self, option: str) -> bool:
        """Return whether an option was given."""
        return option in self._values

    def but(self, option: str, *values: str) -> Arguments:
        """Return the same with other values of an option."""
        return Arguments(self.command, self.positional, {**self._values, option: values})

    def whole(self, option: str, least: int = 1) -> int | None:
        """Return the value of an option as a whole number; None: it was not given.

        Raises:
            UsageError: it is none, or too small.

        """
        text = self.text(option)
        if text is None:
            return None
        if not text.isdecimal() or len(text) > len("1000000000") or int(text) < least:
            raise UsageError(f"{option}: expected a whole number of at least {least}, got {text!r}")
        return int(text)

    def seconds(self, option: str) -> float | None:
        """Return the value of an option as a duration in seconds; None: it was not given.

        Raises:
            UsageError: it is none.

        """
        text = self.text(option)
        if text is None:
            return None
        found = _DURATION.findall(text)
        if not found or "".join(map("".join, found)) != text:
            raise UsageError(
                f"{option}: expected a duration such as 90s, 45m, 2h, 1d12h, got {text}"
            )
        return sum(float(number) * _UNITS[unit] for number, unit in found)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question which similar names were meant, after a semicolon; empty if none is.

    >>> did_you_mean("jbos", ["jobs", "nodes"]), did_you_mean("x", ["jobs"])
    ('; did you mean jobs?', '')
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only after a mistake

    close = get_close_matches(name, sorted(known), n=MOST_SUGGESTIONS)
    return f"; did you mean {', '.join(close)}?" if close else ""


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise what is told of all mistakes."""
        raise UsageError(message.removeprefix("argument "))


def parsed(words: Sequence[str], commands: Mapping[str, Command]) -> Arguments:
    """Return what words say. Options may stand anywhere; after ``--`` there are none.

    ``help`` before a command, or alone, means ``--help``.

    Raises:
        UsageError: they say nothing that is known; one line for each fault.

    """
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("words", nargs="*")
    of_commands = (option for command in commands.values() for option in command.options)
    for option in {each.name: each for each in (*of_commands, *OPTIONS)}.values():
        names = filter(None, (option.short, option.name))
        if option.metavar:
            parser.add_argument(*names, dest=option.name, action="append", nargs="?")
        else:
            parser.add_argument(*names, dest=option.name, action="append_const", const="")
    end = list(words).index("--") if "--" in words else len(words)
    found, not_known = parser.parse_known_intermixed_args(words[:end])
    given: dict[str, list[str | None] | None] = vars(found)
    name, *positional = [*cast("list[str]", given.pop("words")), *words[end + 1 :]] or [""]
    faults: list[str] = []
    command = commands.get(name)
    if name and command is None:
        faults.append(f"no command is called {name}{did_you_mean(name, commands)}")
    options = {each.name: each for each in (*OPTIONS, *(command.options if command else ()))}
    known = [*options, *(each.short for each in OPTIONS if each.short)]
    values = {key: texts for key, texts in given.items() if texts is not None}
    not_known = [word for word in not_known if word.startswith("-")]  # others may be their values
    for word in (*not_known, *(key for key in values if key not in options)):
        told = word.partition("=")[0]
        faults.append(f"no option is called {told}{did_you_mean(told, known)}")
    for key, about in options.items():
        for text in values.get(key, ()):
            if text is None:
                faults.append(f"{key}: expected {about.metavar} after it")
            elif about.choices and text not in about.choices:
                faults.append(f"{key}: expected {about.metavar}, got {text!r}")
    count = len(positional)
    if command and "--help" not in values and not faults and not command.takes(count):
        faults.append(f"{name}: expected `{command.usage}`, got {count or 'none'}")
    if faults:
        raise UsageError(*dict.fromkeys(faults))
    return Arguments(name, positional, cast("dict[str, list[str]]", values))


def program_help(commands: Mapping[str, Command]) -> str:
    """Return the help of the program."""
    lines = ["batchsched: why jobs of a cluster wait, and what would change it", ""]
    lines += ["usage: batchsched COMMAND [ARGUMENT...] [-f PATH]... [OPTION...]", "", "commands:"]
    lines += _listed((f"{each.name} {each.arguments}", each.help) for each in commands.values())
    lines += ["", "options of all commands:", *_listed(map(_option_line, OPTIONS)), ""]
    lines += [
        "`batchsched COMMAND --help` shows what a command takes and what its exit status means.",
        "A dump of a cluster:",
        *(f"  {line}" for line in _KUBECTL),
    ]
    return "\n".join(lines)


def command_help(command: Command) -> str:
    """Return the help of one command."""
    lines = [f"usage: {command.usage} [-f PATH]... [OPTION...]", "", command.help]
    lines += command.more_help.splitlines()
    if command.options:
        lines += ["", "options:", *_listed(map(_option_line, command.options))]
    lines += ["", "options of all commands:", *_listed(map(_option_line, OPTIONS)), ""]
    statuses = [f"{code} {text}" for code, text in enumerate(command.statuses) if text]
    told = f"exit status: {'; '.join(statuses)}; 2 what was given cannot be used"
    lines += wrap(told, _HELP_WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def _option_line(option: Option) -> tuple[str, str]:
    names = ", ".join(filter(None, (option.short, option.name)))
    return f"{names} {option.metavar}".strip(), option.help


def _listed(
    rows: Iterable[tuple[str, str]], width: int = 26, line: int = _HELP_WIDTH
) -> Iterator[str]:
    """Yield names with what they mean beside them, in lines of at most 80 columns."""
    for name, text in rows:
        told = wrap(text, line - width - 4)
        if len(name) > width:
            yield f"  {name}"
            name = ""  # noqa: PLW2901 - it stands in the line above
        for part in told:
            yield f"  {name:{width}}  {part}"
            name = ""  # noqa: PLW2901 - only in the first line
