"""What the program is given: files of objects, kept snapshots, configurations, standard input."""

from __future__ import annotations

import gc
import json
import re
import sys
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from inspect import signature
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from batchsched import (
    BatchschedError,
    CycleResult,
    FaultsError,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    SnapshotError,
    UnknownNameError,
)
from batchsched.kubernetes import Dump, read_dump
from batchsched_cli.arguments import KUBECTL, Arguments, UsageError, did_you_mean
from batchsched_cli.text import ELLIPSIS, counted, is_cut

if TYPE_CHECKING:
    from batchsched_cli.text import Answer

Object = Mapping[str, Any]
"""An object of a file: what JSON calls an object."""
PartT = TypeVar("PartT")

SUFFIXES = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
"""The files of a folder that are read."""
STANDARD_INPUT = "standard input"
VOLCANO_CONFIG = "volcano-scheduler-configmap"
_HEAD = 1024
_NOT_ASCII = re.compile(rb"[^\x00-\x7f]+")
_GZIP = b"\x1f\x8b"
_MOST_UNPACKED = 512 << 20
"""The most bytes that a compressed file may become; little may stand for very much."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_READ = frozenset(
    (
        *(_LAST_APPLIED, "managedFields", "env", "envFrom", "volumeMounts"),
        *("containerStatuses", "initContainerStatuses", "images"),
    )
)
"""The lists in objects of a cluster that nothing reads, and that annotation."""
_MOST_NAMES = 5
_TAKES = "scheduler {0} places no jobs here; --scheduler {0} takes its pods as jobs"
_LEAST_VALUES = 100_000
_KEPT_SNAPSHOT, _KEPT_CONFIG = "batchsched.Snapshot", "batchsched.SchedulerConfig"


def _preset(actions: str, *tiers: str, **options: Object) -> Object:
    """Return a configuration of plugins by tiers, some with options.

    Those that evict free whatever keeps a task from a node, as their schedulers do: ports, slots.
    """
    plugins = ([{"name": each, **options.get(each, {})} for each in t.split(", ")] for t in tiers)
    evicting = [each for each in actions.split(", ") if each in ("preempt", "reclaim")]
    return {
        "actions": actions,
        "tiers": [{"plugins": each} for each in plugins],
        "configurations": [{"name": e, "arguments": {"curable": True}} for e in evicting],
    }


# All obey what jobs and queues ask for: protection, devices and topology do nothing else.
_VOLCANO = ("allocate, backfill", "priority, gang, conformance, protection")
# Volcano lends to jobs that are not preemptable as to any others.
_FREELY: Object = {"protection": {"arguments": {"withinDeserved": False}}}
PRESETS: Mapping[str, Object | None] = {
    "kai": _preset(
        # Both place tasks without requests as any others; here backfill does.
        "allocate, backfill, reclaim, preempt",
        "priority, gang, conformance, protection",
        "predicates, devices, topology, capacity, nodeorder",
        # KAI Scheduler evicts what a group has beyond its minimum, then all of it.
        gang={"arguments": {"atMinimum": "whole-job"}},
        # Of one queue, whoever is more important evicts, whatever the queue deserves.
        capacity={"arguments": {"preemption": "priority"}},
    ),
    "kueue": _preset(
        "allocate, backfill",
        "priority, gang, protection",
        "predicates, devices, topology, capacity, nodeorder",
    ),
    "volcano": _preset(
        *_VOLCANO, "drf, predicates, devices, topology, proportion, nodeorder", **_FREELY
    ),
    "kubernetes": _preset(
        "allocate, backfill, preempt",
        "priority, gang, protection",
        "predicates, devices, topology, nodeorder",
        # Kubernetes counts a gang's minimum when it starts and evicts its pods one by one.
        gang={"enablePreemptable": False},
    ),
    "default": None,
}
"""The configuration that is used for a system if none is given; None: the library's default."""
_WITH_TREE = _preset(
    *_VOLCANO, "drf, predicates, devices, topology, capacity, nodeorder", **_FREELY
)
"""Volcano's, where queues form a tree or deserve amounts."""


class Configuration(NamedTuple):
    """A configuration, and where it is from."""

    name: str
    """The name of a preset, of a file or of a ConfigMap."""
    config: SchedulerConfig

    @property
    def text(self) -> str:
        """The configuration in one line: ``default (allocate; priority, gang | drf)``."""
        return f"{self.name} ({self.config})"


class Question:
    """What was asked: the arguments, and the cluster and the configuration that they name."""

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments
        self.notes: list[str] = []
        """What is told besides the answer, on standard error."""
        self.may_read_input = True
        """Whether the cluster comes on standard input where no file is given."""
        self._objects: tuple[list[Object], Snapshot | None] | None = None
        self._submitted: list[Object] = []
        """The manifests among what is given: they are read as submitted now."""
        self._dump: Dump | None = None
        self._manifests: dict[str, list[Object]] = {}
        """The manifests of each file that a change submits, in that order."""
        self._with_all: Dump | None = None
        """The cluster once all of these are submitted, by which its configuration is chosen."""
        self._configuration: Configuration | None = None
        self._result: CycleResult | None = None
        self._left_out: dict[str, tuple[str, str]] = {}
        """The kinds and schedulers of pods that are no jobs, and of their owners, by names."""

    def asked(self, function: Callable[[Question], Answer]) -> Answer:
        """Return the answer of a command.

        Raises:
            UsageError: what was given cannot be used.

        """
        try:
            return function(self)
        except RecursionError:
            raise UsageError("what was given is nested too deeply") from None
        except BatchschedError as error:
            raise UsageError(*lines_of(error)) from None
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise UsageError(_told(error)) from None
        finally:
            gc.unfreeze()

    @property
    def namespace(self) -> str:
        """The namespace that names mean first; empty: any."""
        return self.arguments.text("--namespace") or ""

    # The cluster

    def has_cluster(self) -> bool:
        """Return whether a cluster is given, by files or on standard input."""
        if self.arguments.texts("--file"):
            return True
        return self.may_read_input and not sys.stdin.isatty()

    def dump(self) -> Dump:
        """Return the cluster: of a dump, of a kept snapshot, or the example's. Read once."""
        if self._dump is None:
            # All that is read stays until the answer is given, so that looking for garbage in it,
            # now or later, is in vain. Freezing it saves a tenth of `why` on 9,000 pods.
            was_on = gc.isenabled()
            gc.disable()
            try:
                self._dump = self._read_dump()
            finally:
                gc.freeze()
                if was_on:
                    gc.enable()
            self.note_all(self._dump.notices, "the dump")
            self._note_what_is_not_there(self._dump)
        return self._dump

    def _note_what_is_not_there(self, dump: Dump) -> None:
        """Note the pods that wait and are no jobs, and a namespace without jobs."""
        tasks = {(task.namespace, task.name) for job in dump.snapshot.jobs for task in job.tasks}
        counts = Counter[str]()
        for pod in self.objects():
            if pod.get("kind") != "Pod":
                continue
            about, wants, state = (_part(pod, key) for key in ("metadata", "spec", "status"))
            namespace, name = str(about.get("namespace") or "default"), str(about.get("name"))
            waits = state.get("phase", "Pending") == "Pending" and not wants.get("nodeName")
            if "deletionTimestamp" not in about and (namespace, name) not in tasks:
                scheduler = _scheduler_of(pod)
                counts[scheduler] += waits
                for kind, title in (("pod", name), *_owners_of(about)):
                    for each in (title, f"{namespace}/{title}"):
                        self._left_out.setdefault(each, (kind, scheduler))
        counts = +counts  # without those of which none waits
        for scheduler, count in sorted(counts.items()):
            pods = "1 pod that waits is" if count == 1 else f"{count} pods that wait are"
            self.notes.append(f"{pods} left out: {_TAKES.format(scheduler)}")
        known = {job.namespace for job in dump.snapshot.jobs}
        if self.namespace and self.namespace not in known:
            hint = did_you_mean(self.namespace, known)
            self.notes.append(f"no job is in namespace {self.namespace}{hint}")

    def _read_dump(self) -> Dump:
        objects, snapshot = self._given()
        if snapshot is None:
            return self._read_objects(objects, self._submitted)
        now = self.arguments.text("--now")
        if now is not None:
            snapshot = replaced(snapshot, now=read_dump([], now=now).snapshot.now)
        return Dump(snapshot=snapshot)

    def _read_objects(self, objects: Sequence[Object], submitted: Sequence[Object]) -> Dump:
        return read_dump(
            objects,
            now=self.arguments.text("--now"),
            scheduler_names=self.arguments.texts("--scheduler"),
            admission="ours" if self.arguments.text("--admission") == "ours" else "theirs",
            submitted=[self._in_namespace(each) for each in submitted],
        )

    def _in_namespace(self, given: Object) -> Object:
        """Return a manifest in the namespace that is asked for, if it names none."""
        metadata = _part(given, "metadata")
        if not self.namespace or "namespace" in metadata:
            return given
        return {**given, "metadata": {**metadata, "namespace": self.namespace}}

    def submit(self, path: str) -> tuple[Dump, Dump]:
        """Return the cluster before and after the manifests of a file are submitted to it.

        What was submitted before is there, too.

        Raises:
            UsageError: they cannot be read, or are no jobs that wait, and no budget changes.

        """
        objects, snapshot = self._given()
        if snapshot is not None:
            raise UsageError(f"submit {path}: a kept snapshot takes no manifests: give a dump")
        before = self.dump() if self._with_all is None else self._with_all
        given = [each for _, each in all_documents(path, self.notes)]
        self._manifests.setdefault(path, []).extend(given)
        found = self._read_objects(
            objects, [*self._submitted, *(one for file in self._manifests.values() for one in file)]
        )
        has_jobs = set(found.submitted) - set(before.submitted)
        if not has_jobs and found.snapshot.budgets == before.snapshot.budgets:
            kinds = sorted({str(each.get("kind")) for each in _each_object(given)})
            raise UsageError(
                f"submit {path}: no job in it waits that is not in the dump already; its kinds: "
                f"{', '.join(kinds[:_MOST_NAMES]) or 'none'}"
            )
        self._with_all, self._configuration = found, None
        return before, found

    def result(self) -> CycleResult:
        """Return what one cycle decides on the cluster. Computed once."""
        if self._result is None:
            self._result = Scheduler(self.configuration().config).schedule(self.dump().snapshot)
        return self._result

    def objects(self) -> Iterator[Object]:
        """Yield the objects of the dump, those in Lists too; none of a kept snapshot."""
        return _each_object(self._given()[0] if self.has_cluster() else ())

    def _asked_about(self) -> Dump:
        """Return the cluster with all that is submitted; without anything, if none is given."""
        if self._with_all is not None:
            return self._with_all
        return self.dump() if self.has_cluster() else Dump(snapshot=Snapshot())

    def objects_of(self, path: str) -> Iterator[Object]:
        """Yield the objects of another file or folder, those in Lists too.

        Raises:
            UsageError: it cannot be read.

        """
        return _each_object(each for _, each in all_documents(path, self.notes))

    def _all_objects(self) -> Iterator[Object]:
        """Yield the objects of the dump, and those that are submitted."""
        yield from self.objects()
        for given in (self._submitted, *self._manifests.values()):
            yield from _each_object(given)

    def scheduler_names(self) -> list[str]:
        """Return the schedulers that pods of the dump name, sorted."""
        pods = [each for each in self.objects() if each.get("kind") == "Pod"]
        return sorted({_scheduler_of(pod) for pod in pods if isinstance(pod.get("spec"), dict)})

    def users(self) -> Mapping[str, str]:
        """Return the users of jobs by UID, as far as they are known. O(objects + tasks)."""
        jobs, key = self.dump().snapshot.jobs, self.arguments.text("--user-key")
        if key is None:
            return {job.uid: job.user for job in jobs if job.user}
        named: dict[tuple[object, object], str] = {}
        for each in self.objects():
            metadata = _part(each, "metadata")
            value = _part(metadata, "labels").get(key) or _part(metadata, "annotations").get(key)
            if isinstance(value, str) and value:
                place = metadata.get("namespace", "default"), metadata.get("name")
                named.setdefault(place, value)
        users: dict[str, str] = {}
        for job in jobs:
            facts = self.dump().facts.get(job.uid)
            places = [(job.namespace, name) for name in (facts.owner if facts else "", job.name)]
            places += [(task.namespace, task.name) for task in job.tasks]
            labels = (task.labels.get(key) for task in job.tasks)
            of_objects = (named.get(place) for place in places)
            user = next(filter(None, (job.labels.get(key), *labels, *of_objects)), None)
            if user is not None:
                users[job.uid] = user
        return users

    def job(self, name: str) -> str:
        """Return the UID of the job that a name means, in the namespace that is asked for first.

        A name that was cut when it was printed, with an ellipsis, means the job that has both ends.
        """
        dump = self.dump()
        if self.namespace:
            try:
                return dump.find(f"{self.namespace}/{name}")
            except UnknownNameError:
                pass
        if ELLIPSIS in name:
            names = {job.uid: {job.uid} for job in dump.snapshot.jobs}
            for uid, facts in dump.facts.items():
                names[uid] |= {f"{dump.snapshot.job(uid).namespace}/{facts.owner}", facts.owner}
            found = sorted(uid for uid in names if any(is_cut(each, name) for each in names[uid]))
            if len(found) == 1:
                return found[0]
            if found:
                raise UsageError(f"{name} may be any of {', '.join(found[:_MOST_NAMES])}")
        try:
            return dump.find(name)
        except UnknownNameError:
            if name not in self._left_out:
                raise
        kind, scheduler = self._left_out[name]
        raise UsageError(f"{kind} {name} is no job here: {_TAKES.format(scheduler)}")

    def _given(self) -> tuple[list[Object], Snapshot | None]:
        """Return the objects that are given, or the snapshot that was kept."""
        if self._objects is None:
            sources = self.arguments.texts("--file")
            if not sources and not self.has_cluster():
                raise UsageError(
                    f"no cluster is given: -f FILE, or standard input. To make one: {KUBECTL}"
                )
            self._objects = self._read(sources or ("-",))
        return self._objects

    def _read(self, sources: Sequence[str]) -> tuple[list[Object], Snapshot | None]:
        snapshots: list[tuple[str, Snapshot]] = []
        objects: list[Object] = []
        of_source: list[list[Object]] = []
        faults: list[str] = []
        for source in sources:
            of_source.append([])
            if source.partition(":")[0] == "openb" and not Path(source).exists():
                from batchsched_cli.openb import example  # noqa: PLC0415 - only where it is asked for

                snapshots.append((source, example(source)))
                continue
            for where, document in documents(source, faults, self.notes):
                if document.get("format") == _KEPT_SNAPSHOT:
                    try:
                        snapshots.append((where, Snapshot.from_dict(document)))
                    except SnapshotError as error:
                        faults += (f"{where}: {line}" for line in lines_of(error))
                elif "format" in document and "kind" not in document:
                    found = document["format"]
                    faults.append(f"{where}: expected objects of a cluster, got {found!r}")
                elif "actions" in document or "tiers" in document:
                    faults.append(f"{where}: this is a configuration: give it with -c")
                elif not isinstance(document.get("kind"), str) and "items" not in document:
                    keys = ", ".join(sorted(map(str, document))[:_MOST_NAMES]) or "none"
                    faults.append(f"{where}: expected an object with a kind; its keys: {keys}")
                else:
                    objects.append(document)
                    of_source[-1].append(document)
        if snapshots and len(snapshots) + len(objects) > 1:
            faults.append(f"{snapshots[0][0]}: a kept snapshot: give nothing else with it")
        if not snapshots and not objects and not faults:
            empty = ", ".join(STANDARD_INPUT if each == "-" else each for each in sources)
            faults.append(f"{empty}: there are no objects")
        if faults:
            raise UsageError(*faults)
        manifests = [each for each in of_source if not any(map(_is_there, _each_object(each)))]
        if len(manifests) < len(of_source):
            self._submitted = [each for given in manifests for each in _each_object(given)]
            objects = [each for given in of_source if given not in manifests for each in given]
        return objects, snapshots[0][1] if snapshots else None

    def note_all(self, notices: Sequence[object], what: str) -> None:
        """Note what was changed or left out in reading; or only how much, if not asked for."""
        if self.arguments.has("--verbose"):
            self.notes += map(str, notices)
        elif notices:
            said, shows = counted(len(notices), "note"), "it" if len(notices) == 1 else "them"
            self.notes.append(f"{said} about reading {what} (--verbose shows {shows})")

    # The configuration

    def configuration(self) -> Configuration:
        """Return the configuration: as given, or of the dump, or of the system that is found."""
        if self._configuration is None:
            given = self.arguments.text("--config")
            found = self._usual_configuration() if given is None else self.configuration_of(given)
            self.note_all(found.config.notices, "the configuration")
            ignored = Scheduler(found.config).ignores(self._asked_about().snapshot)
            self.notes += [text for text in map(str, ignored) if text not in self.notes]
            self._configuration = found
        return self._configuration

    def configuration_of(self, name: str) -> Configuration:
        """Return the configuration that a path or the name of a preset means."""
        if name in PRESETS:
            return self._preset(name)
        return _configuration(name, self.content_of(name))

    def noted_configuration(self, name: str) -> Configuration:
        """Return the same, and note what was left out in reading it."""
        found = self.configuration_of(name)
        self.note_all(found.config.notices, name)
        return found

    def content_of(self, name: str) -> Object:
        """Return what is in the file of a configuration, plain or in a ConfigMap."""
        if name != "-" and not Path(name).exists():
            hint = did_you_mean(name, PRESETS)
            raise UsageError(
                f"no file, and no preset, is called {name}{hint}; presets: {', '.join(PRESETS)}"
            )
        found = all_documents(name, self.notes)
        if len(found) != 1:
            raise UsageError(f"{name}: expected one configuration, got {len(found)}")
        return configuration_content(*found[0])

    def _usual_configuration(self) -> Configuration:
        for each in self._all_objects():
            if _is_config_map(each) and _name_of(each) == VOLCANO_CONFIG:
                where = f"ConfigMap {VOLCANO_CONFIG}"
                if find_spec("yaml") is None:
                    self.notes.append(f"{where} is not read: {_WITHOUT_YAML}")
                    break
                return _configuration(where, configuration_content(where, each))
        systems = self._asked_about().systems
        return self._preset(next((name for name in PRESETS if name in systems), "default"))

    def _preset(self, name: str) -> Configuration:
        content = PRESETS[name]
        if name == "volcano" and self._has_tree():
            content = _WITH_TREE
        if content is not None and name == "kueue":
            content = self._with_strict_queues(content)
        config = SchedulerConfig() if content is None else SchedulerConfig.from_mapping(content)
        return Configuration(name, config)

    def _with_strict_queues(self, content: Object) -> Object:
        """Return Kueue's configuration, in which the first of a StrictFIFO queue is waited for."""
        strict = sorted(
            str(_name_of(each))
            for each in self._all_objects()
            if each.get("kind") == "ClusterQueue"
            and _part(each, "spec").get("queueingStrategy") == "StrictFIFO"
        )
        if not strict:
            return content
        first, *others = content["tiers"]
        fcfs = {"name": "fcfs", "arguments": {"queues": ", ".join(strict)}}
        return {**content, "tiers": [{"plugins": [*first["plugins"], fcfs]}, *others]}

    def _has_tree(self) -> bool:
        """Return whether queues form a tree below ``root``, or deserve amounts of their own."""
        return any(
            queue.deserved not in (None, Resource()) or queue.parent not in (None, "root")
            for queue in self._asked_about().snapshot.queues
        )

    def write(self, path: str, text: str, *, after: bool = False) -> None:
        """Write a file that was asked for, or append to it."""
        try:
            with Path(path).open("a" if after else "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(_told(error)) from None


def replaced(part: PartT, **changes: object) -> PartT:
    """Return a part of a snapshot with other values of some fields."""
    kind = type(part)
    values = {name: getattr(part, name) for name in signature(kind).parameters}
    return kind(**{**values, **changes})


def path_of(name: str | None, queues: Mapping[str, Queue]) -> Iterator[Queue]:
    """Yield the queue of a name and all queues above it, if there is one."""
    while name is not None and name in queues:
        yield queues[name]
        name = queues[name].parent


def lines_of(error: BatchschedError) -> Iterator[str]:
    """Yield the lines of an error, however many there are; the same fault of many is one."""
    lines = error.lines if isinstance(error, FaultsError) else [str(error)]
    return (" ".join(line.split("\n")) for line in lines)


def _told(error: OSError) -> str:
    problem = error.strerror or str(error)
    return f"{error.filename}: {problem}" if error.filename is not None else problem


# Files


def documents(source: str, faults: list[str], notes: list[str]) -> Iterator[tuple[str, Object]]:
    """Yield the objects of a file, of all files of a folder, or of standard input (``-``).

    What cannot be read is added to the faults. What is empty is only noted: kubectl prints nothing
    for a kind that a cluster does not have.
    """
    if source == "-":
        yield from parsed(STANDARD_INPUT, sys.stdin.buffer.read(), faults, notes)
        return
    path = Path(source)
    try:
        if not source:  # as a path it would be the present folder
            raise ValueError("expected the name of a file or folder")
        files = {source: path}
        if path.is_dir():
            below = (each for each in path.rglob("*") if each.name.endswith(SUFFIXES))
            files = {str(file): file for file in sorted(below) if file.is_file()}
            if not files:
                faults.append(f"{source}: there are no files named {', '.join(SUFFIXES)}")
        for name, file in files.items():
            yield from parsed(name, file.read_bytes(), faults, notes)
    except (OSError, ValueError) as error:  # a name may have what no name of a file has
        faults.append(_told(error) if isinstance(error, OSError) else f"{source!r}: {error}")


def all_documents(source: str, notes: list[str]) -> list[tuple[str, Object]]:
    """Return the same as `documents`.

    Raises:
        UsageError: something cannot be read.

    """
    faults: list[str] = []
    found = list(documents(source, faults, notes))
    if faults:
        raise UsageError(*faults)
    return found


def parsed(
    source: str, content: bytes, faults: list[str], notes: list[str]
) -> Iterator[tuple[str, Object]]:
    """Yield the objects in the content of a file: JSON or YAML, compressed or not."""
    try:
        escaped = _in_ascii(content)
        del content  # of what is large, one copy is enough
        text = _text(escaped)
        del escaped
        name = source.removesuffix(".gz")
        is_yaml = name.endswith((".yaml", ".yml")) or (
            not name.endswith(".json") and not text.lstrip().startswith(("{", "["))
        )
        found = list(_yaml(text) if is_yaml else _json(text))
        del text
    except RecursionError:
        faults.append(f"{source}: it is nested too deeply")
        return
    except (ValueError, OSError, EOFError) as error:
        faults.append(f"{source}: {' '.join(str(error).split())}")
        return
    if not found:
        notes.append(f"{source}: it is empty")
    for position, document in enumerate(found):
        where = source if len(found) == 1 else f"{source}, document {position + 1}"
        if isinstance(document, dict):
            yield where, cast("Object", document)
        else:
            faults.append(f"{where}: expected an object, got {str(document)[:40]!r}")


def text_of_file(source: str) -> str:
    """Return the text of a file, or of standard input (``-``), compressed or not.

    Raises:
        UsageError: it cannot be read.

    """
    try:
        return _text(sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes())
    except (OSError, ValueError) as error:  # a name may have what no name of a file has
        told = _told(error) if isinstance(error, OSError) else f"{source}: {error}"
        raise UsageError(told) from None


def _in_ascii(content: bytes) -> bytes | bytearray:
    """Return JSON with all escaped that is not ASCII: else one emoji quadruples its text."""
    start = content[:_HEAD].removeprefix(BOM_UTF8).lstrip()
    if content.isascii() or not start.startswith((b"{", b"[")):
        return content
    escaped, position = bytearray(), len(BOM_UTF8) * content.startswith(BOM_UTF8)
    view = memoryview(content)
    try:
        for found in _NOT_ASCII.finditer(content, position):
            escaped += view[position : found.start()]
            escaped += json.dumps(found[0].decode())[1:-1].encode()
            position = found.end()
    except UnicodeDecodeError:
        return content  # as a text it cannot be read, which says where
    escaped += view[position:]
    return escaped


def _text(content: bytes | bytearray) -> str:
    """Return the text of a file in UTF-8, compressed or not."""
    if content.startswith(_GZIP):
        import gzip  # noqa: PLC0415 - only for compressed files
        import zlib  # noqa: PLC0415

        try:
            with gzip.open(BytesIO(content)) as file:
                content = file.read(_MOST_UNPACKED + 1)
        except (zlib.error, EOFError, OSError) as error:
            raise ValueError(f"it cannot be decompressed: {error}") from None
        if len(content) > _MOST_UNPACKED:
            most = f"{_MOST_UNPACKED >> 20} MiB"
            raise ValueError(f"it unpacks to more than {most}: unpack it, and give that file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"expected text in UTF-8: {error.reason} at byte {error.start}") from None


def _json(text: str) -> Iterator[object]:
    """Yield the documents of a text of JSON: one, or several after one another."""
    decoder = json.JSONDecoder(object_hook=_what_is_read)
    position = _after_space(text, 0)
    while position < len(text):
        found, position = decoder.raw_decode(text, position)
        yield found
        position = _after_space(text, position)


def _what_is_read(content: dict[str, object]) -> dict[str, object]:
    """Return a part of an object without what is nowhere read, and is most of a dump."""
    if not _NOT_READ.isdisjoint(content):
        for key in _NOT_READ.intersection(content):
            if key == _LAST_APPLIED or isinstance(content[key], list):
                del content[key]
    return content


def _after_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


_WITHOUT_YAML = "to read YAML, install PyYAML (pip install pyyaml), or give JSON"


def _yaml(text: str) -> Iterator[object]:
    """Yield the documents of a text of YAML, with times as strings, as JSON has them."""
    if find_spec("yaml") is None:
        raise ValueError(_WITHOUT_YAML)
    import yaml  # noqa: PLC0415 - an optional dependency

    try:
        yield from _YamlReader(text).documents()
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


class _YamlReader:
    """Reads YAML event by event, straight to plain values.

    For a dump of 8 MB this takes an eighth of the time, and a seventh of the memory, of PyYAML's
    own way by nodes. Keys are strings, as in JSON.
    """

    def __init__(self, text: str) -> None:
        import yaml  # noqa: PLC0415 - an optional dependency

        self.yaml = yaml
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.next: Callable[[], Any] = loader(text).get_event
        self.most = max(_LEAST_VALUES, len(text))
        """The most values that aliases may make of a text."""
        self.made = 0
        self.anchors: dict[str, tuple[object, int]] = {}
        """What anchors name, and of how many values it is made."""
        self.plain: dict[str, object] = {}
        """The values of scalars without quotes."""
        self.scalars: Any = yaml.SafeLoader("")
        self.resolvers: Mapping[str, Any] = yaml.SafeLoader.yaml_implicit_resolvers

    def documents(self) -> Iterator[object]:
        """Yield the documents that are not empty."""
        event = self.next()
        while event is not None:
            if isinstance(event, self.yaml.DocumentStartEvent):
                self.anchors.clear()
                found = self.value(self.next())
                if found is not None:
                    yield found
            event = self.next()

    def value(self, event: Any) -> object:
        """Return the value that begins with an event."""
        if isinstance(event, self.yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise ValueError(f"alias {event.anchor} stands before what it names")
            found, size = self.anchors[event.anchor]
            self.made += size
            if self.made > self.most:
                raise ValueError("its aliases stand for too much")
            return found
        before = self.made
        self.made += 1
        found = self.read(event)
        if event.anchor is not None:
            self.anchors[event.anchor] = found, self.made - before
        return found

    def read(self, event: Any) -> object:
        """Return a scalar, a mapping or a list."""
        if isinstance(event, self.yaml.ScalarEvent):
            text: str = event.value
            if not event.implicit[0]:
                return text
            if text not in self.plain:
                self.plain[text] = self.resolved(text)
            return self.plain[text]
        if isinstance(event, self.yaml.SequenceStartEvent):
            found: list[object] = []
            event = self.next()
            while not isinstance(event, self.yaml.SequenceEndEvent):
                found.append(self.value(event))
                event = self.next()
            return found
        content: dict[str, object] = {}
        event = self.next()
        while not isinstance(event, self.yaml.MappingEndEvent):
            if not isinstance(event, self.yaml.ScalarEvent):
                raise ValueError(f"expected a plain key{event.start_mark}")
            if event.value == "<<" and event.implicit[0]:
                raise ValueError(f"a merge key (<<) is not read{event.start_mark}")
            content[event.value] = self.value(self.next())
            event = self.next()
        return _what_is_read(content)

    def resolved(self, text: str) -> object:
        """Return the value of a scalar without quotes; all but numbers and the like is text."""
        for tag, pattern in self.resolvers.get(text[:1], ()):
            if tag.rpartition(":")[2] in ("null", "bool", "int", "float") and pattern.match(text):
                return self.scalars.construct_object(self.yaml.ScalarNode(tag, text))
        return text


# Objects


def _each_object(given: Iterable[Object]) -> Iterator[Object]:
    """Yield objects, and those in Lists."""
    for each in given:
        items: object = each.get("items")
        if isinstance(items, list):
            listed = cast("list[object]", items)
            yield from (cast("Object", item) for item in listed if isinstance(item, dict))
        else:
            yield each


def _is_there(given: Object) -> bool:
    """Return whether an object comes from a cluster, and is no manifest."""
    metadata = _part(given, "metadata")
    return "status" in given or not {"uid", "creationTimestamp"}.isdisjoint(metadata)


def _is_config_map(given: Object) -> bool:
    return given.get("kind") == "ConfigMap"


def _part(given: Object, key: str) -> Object:
    part: object = given.get(key)
    return cast("Object", part) if isinstance(part, dict) else {}


def _owners_of(metadata: Object) -> Iterator[tuple[str, str]]:
    """Yield the kinds and names of what owns an object, as far as they can be read."""
    listed: object = metadata.get("ownerReferences")
    for each in cast("list[object]", listed) if isinstance(listed, list) else ():
        owner: Object = cast("Object", each) if isinstance(each, dict) else {}
        yield str(owner.get("kind")), str(owner.get("name"))


def _scheduler_of(pod: Object) -> str:
    return str(_part(pod, "spec").get("schedulerName") or "default-scheduler")


def _name_of(given: Object) -> object:
    return _part(given, "metadata").get("name")


def configuration_content(where: str, document: Object) -> Object:
    """Return the content of a configuration: plain, or in a ConfigMap, or in a List of them."""
    maps = [each for each in _each_object([document]) if _is_config_map(each)]
    if not maps:
        return document
    named = [each for each in maps if _name_of(each) == VOLCANO_CONFIG]
    if len(maps) > 1 and len(named) != 1:
        names = ", ".join(sorted(str(_name_of(each)) for each in maps)[:_MOST_NAMES])
        raise UsageError(f"{where}: expected one ConfigMap, got {names}")
    data: object = (named or maps)[0].get("data")
    texts: Object = cast("Object", data) if isinstance(data, dict) else {}
    found: dict[str, Object] = {}
    for key, text in sorted(texts.items(), key=lambda item: str(item[0])):
        faults: list[str] = []
        contents = list(parsed(f"{where}, {key}.yaml", str(text).encode(), faults, []))
        if len(contents) == 1 and "actions" in contents[0][1]:
            found[str(key)] = contents[0][1]
        elif faults and len(texts) == 1:
            raise UsageError(*faults)
    if len(found) != 1:
        keys = ", ".join(sorted(map(str, texts))) or "none"
        which = "none has" if not found else "several have"
        raise UsageError(f"{where}: expected a key with `actions`; {which}; its keys: {keys}")
    return next(iter(found.values()))


def _configuration(name: str, content: Object) -> Configuration:
    try:
        if content.get("format") == _KEPT_CONFIG:
            config = SchedulerConfig.from_dict(content)
        else:
            config = SchedulerConfig.from_mapping(content, unknown="notice")
    except BatchschedError as error:
        raise UsageError(*(f"{name}: {line}" for line in lines_of(error))) from None
    return Configuration(name, config)
