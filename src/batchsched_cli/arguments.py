"""The words on the command line: commands, options, and what was meant by those not known.

Nothing of the library is imported here, so that ``--help`` is there at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

MOST_SUGGESTIONS = 3
_HELP_WIDTH = 80
_KUBECTL = (
    "for kind in $(kubectl api-resources --verbs=list -o name |",
    (
        "grep -E '^(nodes|pods|namespaces|jobs|.*podgroups|workloads|.*queues|cohorts|"
        ".*priorityclasses|bindrequests)(\\.|$)'); do"
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
    choices: tuple[str, ...] = ()
    """The values that it may have; empty: any."""


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
    Option("--now", "TIME", "the present time, RFC 3339; else the latest that the dump tells"),
    Option("--scheduler", "NAME", "a further batch scheduler that pods name", repeats=True),
    Option(
        "--admission",
        "theirs|ours",
        "whether what Kueue and Volcano have not admitted waits for them",
        choices=("theirs", "ours"),
    ),
    Option("--json", "", "answer as JSON"),
    Option("--html", "FILE", "answer as a page, written to a file"),
    Option("--width", "N", "columns of the text; else those of the terminal, or 80"),
    Option(
        "--color",
        "auto|always|never",
        "whether to colour the text",
        choices=("auto", "always", "never"),
    ),
    Option("--all", "", "show all, however many lines there are"),
    Option("--verbose", "", "tell all notes on what was read otherwise or not at all"),
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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question which similar names were meant, after a semicolon; empty if none is.

    >>> did_you_mean("jbos", ["jobs", "nodes"]), did_you_mean("x", ["jobs"])
    ('; did you mean jobs?', '')
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only after a mistake

    close = get_close_matches(name, sorted(known), n=MOST_SUGGESTIONS)
    return f"; did you mean {', '.join(close)}?" if close else ""


def parsed(words: Sequence[str], commands: Mapping[str, Command]) -> Arguments:
    """Return what words say. Options may stand anywhere; after ``--`` there are none.

    Raises:
        UsageError: they say nothing that is known; one line for each fault.

    """
    faults: list[str] = []
    positional: list[str] = []
    given: list[tuple[str, str | None]] = []
    known = _options_by_name(commands)
    waiting = list(reversed(words))
    only_words = False
    while waiting:
        word = waiting.pop()
        if only_words or word == "-" or not word.startswith("-"):
            positional.append(word)
        elif word == "--":
            only_words = True
        else:
            name, value = _split(word)
            option = known.get(name)
            if option is not None and option.metavar and value is None:
                is_option = bool(waiting) and waiting[-1] in known
                value = waiting.pop() if waiting and not is_option else None
            given.append((name, value))
    command = commands.get(positional[0]) if positional else None
    if positional and command is None:
        faults.append(
            f"no command is called {positional[0]}{did_you_mean(positional[0], commands)}"
        )
    values = _values(given, OPTIONS if command is None else (*OPTIONS, *command.options), faults)
    # What stands behind an option that is not known may be its value, and no argument.
    if command is not None and "--help" not in values and not faults:
        count = len(positional) - 1
        if not command.takes(count):
            got = f"got {count or 'none'}"
            faults.append(f"{command.name}: expected `{command.usage}`, {got}")
    if faults:
        raise UsageError(*faults)
    return Arguments(command.name if command else "", positional[1:], values)


def _split(word: str) -> tuple[str, str | None]:
    """Return the name of an option, and the value that is written in the same word."""
    if word.startswith("--"):
        name, sign, value = word.partition("=")
        return name, value if sign else None
    return word[:2], word[2:].removeprefix("=") or None


def _options_by_name(commands: Mapping[str, Command]) -> dict[str, Option]:
    options = [option for command in commands.values() for option in command.options]
    return {name: option for option in (*options, *OPTIONS) for name in (option.name, option.short)}


def _values(
    given: Sequence[tuple[str, str | None]], options: Sequence[Option], faults: list[str]
) -> dict[str, list[str]]:
    known = {name: option for option in options for name in (option.short, option.name) if name}
    values: dict[str, list[str]] = {}
    for name, value in given:
        option = known.get(name)
        if option is None:
            faults.append(f"no option is called {name}{did_you_mean(name, known)}")
        elif not option.metavar and value is not None:
            faults.append(f"{option.name}: expected no value, got {value!r}")
        elif option.metavar and value is None:
            faults.append(f"{option.name}: expected {option.metavar} after it")
        elif option.choices and value not in option.choices:
            faults.append(f"{option.name}: expected {option.metavar}, got {value!r}")
        else:
            values.setdefault(option.name, []).append(value or "")
    return values


def program_help(commands: Mapping[str, Command]) -> str:
    """Return the help of the program."""
    lines = ["batchsched: why jobs of a cluster wait, and what would change it", ""]
    lines += ["usage: batchsched COMMAND [ARGUMENT...] [-f PATH]... [OPTION...]", "", "commands:"]
    lines += _listed((f"{each.name} {each.arguments}", each.help) for each in commands.values())
    lines += ["", "options of all commands:", *_listed(map(_option_line, OPTIONS)), ""]
    lines += [
        "`batchsched COMMAND --help` tells what a command takes and what its exit status says.",
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
    from textwrap import wrap  # noqa: PLC0415 - only for help

    lines += wrap(told, _HELP_WIDTH, subsequent_indent="  ")
    return "\n".join(lines)


def _option_line(option: Option) -> tuple[str, str]:
    names = ", ".join(filter(None, (option.short, option.name)))
    return f"{names} {option.metavar}".strip(), option.help


def _listed(
    rows: Iterable[tuple[str, str]], width: int = 26, line: int = _HELP_WIDTH
) -> Iterator[str]:
    """Yield names with what they mean beside them, in lines of at most 80 columns."""
    from textwrap import wrap  # noqa: PLC0415 - only for help

    for name, text in rows:
        told = wrap(text, line - width - 4)
        if len(name) > width:
            yield f"  {name}"
            name = ""  # noqa: PLW2901 - it stands in the line above
        for part in told:
            yield f"  {name:{width}}  {part}"
            name = ""  # noqa: PLW2901 - only in the first line
