"""The Standard Workload Format, version 2.2, of the Parallel Workloads Archive.

Source: Chapin, Cirne, Feitelson, Jones, Leutenegger, Schwiegelshohn, Smith, Talby, "Benchmarks and
Standards for the Evaluation of Parallel Job Schedulers", JSSPP 1999, and the archive's page on the
format. A job is a line of 18 numbers; -1 means unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite, nan

from batchsched.errors import Fault
from batchsched.simulation.problems import Problem, WorkloadError
from batchsched.simulation.workload import JobId, Machine, Workload

__all__ = ["read_swf"]

FIELDS = 18
(
    NUMBER, SUBMIT, WAIT, RUN, ALLOCATED, _CPU_TIME, _MEMORY, PROCESSORS, TIME, _REQUESTED_MEMORY,
    STATUS, USER, GROUP, APPLICATION, QUEUE, PARTITION, PRECEDING, THINK,
) = range(FIELDS)  # fmt: skip
LABELS_OF_HEADER = ("MaxProcs", "MaxNodes")


def read_swf(lines: Iterable[str]) -> tuple[Workload, list[Problem]]:
    r"""Read a log in the Standard Workload Format; return its jobs, and the problems found.

    The caller opens (and decompresses) the file: `read_swf(gzip.open(path, "rt"))`. The machine is
    that of the file's header (MaxProcs, MaxNodes); `workload.on(nodes=...)` sets another.

    A job needs the processors that it requested or, if unknown, those that it was allocated. Its
    requested time is its time limit. Submission times are those of the log; `preceding job` and
    `think time` become `after` and `think`.

    Violations of the format are listed with their line. A job is left out if its line cannot be
    read, it is submitted before 0, its run time or number of processors is unknown, or an earlier
    job has its number. All other jobs are kept as they are, including those that ran longer than
    requested, or that need more processors than the machine has.

    >>> workload, problems = read_swf([
    ...     "; MaxProcs: 100",
    ...     "1 0 -1 3600 56 -1 -1 56 7200 -1 1 7 1 -1 -1 -1 -1 -1",
    ...     "2 9 -1   -1  4 -1 -1  4 7200 -1 5 7 1 -1 -1 -1 -1 -1",
    ... ])
    >>> workload
    <Workload: 1 job, submitted from 0 to 0 s; on 100 processors>
    >>> print(*problems, sep="\n")
    line 3: job 2: its run time is unknown: -1 (left out)

    Raises:
        WorkloadError: The argument is one string instead of lines, or a line is not a string.
    """
    if isinstance(lines, str):
        message = "expected lines, got one string; give text.splitlines(), or an open file"
        raise WorkloadError([Fault("lines", message)])
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        if not isinstance(line, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            message = f"expected text, got {line!r}; open the file as text, not as bytes"
            raise WorkloadError([Fault(f"lines[{number - 1}]", message)])
        reader.read(number, line)
    return reader.finish()


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.header: dict[str, str] = {}
        self.header_lines: dict[str, int] = {}
        self.rows: list[Sequence[float]] = []
        self.lines: list[int] = []
        self.seen = set[float]()
        self.records = 0
        self.last_submit = 0.0

    def problem(self, line: int, message: str, *, left_out: bool = False) -> None:
        self.problems.append(Problem(line, message, left_out))

    def read(self, number: int, line: str) -> None:
        words = line.split()
        if not words:
            return
        if words[0].startswith(";"):
            label, colon, value = line.strip().lstrip("; ").partition(":")
            if colon and label.isalnum() and label not in self.header:
                self.header[label] = value.strip()
                self.header_lines[label] = number
            return
        self.records += 1
        row = self._numbers(number, words)
        if row is not None and self._is_usable(number, row):
            self.seen.add(row[NUMBER])
            self.rows.append(row)
            self.lines.append(number)

    def _numbers(self, number: int, words: Sequence[str]) -> Sequence[float] | None:
        if len(words) < FIELDS:
            self.problem(number, f"expected {FIELDS} numbers, got {len(words)}", left_out=True)
            return None
        if len(words) > FIELDS:
            self.problem(number, f"expected {FIELDS} numbers, got {len(words)}; ignored the rest")
            words = words[:FIELDS]
        try:
            return list(map(int, words))
        except ValueError:
            return self._decimals(number, words)

    def _decimals(self, number: int, words: Sequence[str]) -> Sequence[float] | None:
        row: list[float] = []
        for index, word in enumerate(words):
            try:
                value = float(word)
            except ValueError:
                value = nan
            if not isfinite(value):
                self.problem(
                    number,
                    f"field {index + 1}: expected a number, got {word[:80]!r}",
                    left_out=True,
                )
                return None
            whole = int(value) if value.is_integer() else None
            if whole is None and index not in _DECIMAL:
                self.problem(
                    number,
                    f"field {index + 1}: expected a whole number, got {word[:80]!r}",
                    left_out=True,
                )
                return None
            row.append(value if whole is None else whole)
        return row

    def _is_usable(self, number: int, row: Sequence[float]) -> bool:
        job = f"job {row[NUMBER]}"
        faults: list[str] = []
        if row[NUMBER] < 0:
            faults.append(f"{job}: expected a number of 0 or more")
        elif row[NUMBER] in self.seen:
            faults.append(f"{job}: an earlier job has the same number")
        if row[SUBMIT] < 0:
            faults.append(f"{job}: expected a submission at 0 or later, got {row[SUBMIT]}")
        if row[RUN] < 0:
            why = "is unknown" if row[RUN] == -1 else "is negative"
            faults.append(f"{job}: its run time {why}: {row[RUN]}")
        if row[PROCESSORS] <= 0 and row[ALLOCATED] <= 0:
            faults.append(
                f"{job}: its number of processors is unknown: "
                f"{row[PROCESSORS]} requested, {row[ALLOCATED]} allocated"
            )
        for fault in faults:
            self.problem(number, fault, left_out=True)
        if faults:
            return False
        if row[SUBMIT] < self.last_submit:
            self.problem(
                number,
                f"{job}: it is submitted at {row[SUBMIT]}, before the previous job "
                f"({self.last_submit})",
            )
        self.last_submit = row[SUBMIT]
        if row[TIME] == 0 or row[TIME] < -1:
            self.problem(number, f"{job}: its requested time is {row[TIME]} s; read as unknown")
        elif 0 < row[TIME] < row[RUN]:
            self.problem(
                number, f"{job}: it runs for {row[RUN]} s, longer than the {row[TIME]} s requested"
            )
        return True

    def finish(self) -> tuple[Workload, list[Problem]]:
        machine = self._machine()
        self._check_jobs(machine)
        rows = self.rows
        columns: dict[str, Sequence[object]] = {
            "id": [row[NUMBER] for row in rows],
            "submit": [row[SUBMIT] for row in rows],
            "run": [row[RUN] for row in rows],
            "processors": [_processors(row) for row in rows],
            "requested": [row[TIME] if row[TIME] > 0 else None for row in rows],
            "after": self._preceding(),
            "think": [max(row[THINK], 0) for row in rows],
        }
        for name, index in _KNOWN_OR_NOT.items():
            columns[name] = [row[index] if row[index] >= 0 else None for row in rows]
        self.problems.sort(key=lambda problem: problem.line)
        return (
            Workload.from_columns(columns, machine=machine, header=self.header),
            self.problems,
        )

    def _machine(self) -> Machine | None:
        sizes: dict[str, int] = {}
        for label in LABELS_OF_HEADER:
            # Some logs list the partitions after the number.
            text = self.header.get(label, "").split()
            if not text:
                continue
            if text[0].isdecimal() and int(text[0]) > 0:
                sizes[label] = int(text[0])
            elif text[0] != "-1":
                self.problem(
                    self.header_lines[label],
                    f"{label}: expected a whole number above 0, got {self.header[label]!r}",
                )
        processors = sizes.get("MaxProcs", sizes.get("MaxNodes"))
        if processors is None:
            return None
        nodes = sizes.get("MaxNodes", processors)
        if processors % nodes == 0:
            return Machine(nodes, processors // nodes)
        return Machine(processors)

    def _check_jobs(self, machine: Machine | None) -> None:
        announced = self.header.get("MaxRecords", self.header.get("MaxJobs", ""))
        if announced.isdecimal() and int(announced) != self.records:
            label = "MaxRecords" if "MaxRecords" in self.header else "MaxJobs"
            self.problem(
                self.header_lines[label],
                f"{label}: expected {announced} jobs, got {self.records}",
            )
        version = self.header.get("Version")
        if version is not None and not version.startswith("2"):
            self.problem(
                self.header_lines["Version"], f"expected version 2 of the format, got {version!r}"
            )
        if machine is None:
            return
        for line, row in zip(self.lines, self.rows, strict=True):
            if _processors(row) > machine.processors:
                self.problem(
                    line,
                    f"job {row[NUMBER]}: it needs {_processors(row)} processors, "
                    f"but MaxProcs is {machine.processors}",
                )

    def _preceding(self) -> Sequence[JobId | None]:
        # Only earlier jobs are accepted, so there are no cycles.
        found: list[JobId | None] = []
        places = {row[NUMBER]: place for place, row in enumerate(self.rows)}
        for place, row in enumerate(self.rows):
            preceding = row[PRECEDING]
            known = preceding > 0 and places.get(preceding, place) < place
            if preceding > 0 and not known:
                what = "is not an earlier job" if preceding in places else "is not in the log"
                self.problem(
                    self.lines[place],
                    f"job {row[NUMBER]}: its preceding job, {preceding}, {what}; "
                    "ignored the dependency",
                )
            found.append(int(preceding) if known else None)
        return found


_DECIMAL = {SUBMIT, WAIT, RUN, _CPU_TIME, _MEMORY, TIME, _REQUESTED_MEMORY, THINK}
_KNOWN_OR_NOT = {
    "user": USER,
    "group": GROUP,
    "queue": QUEUE,
    "partition": PARTITION,
    "application": APPLICATION,
    "status": STATUS,
}


def _processors(row: Sequence[float]) -> int:
    return int(row[PROCESSORS] if row[PROCESSORS] > 0 else row[ALLOCATED])
