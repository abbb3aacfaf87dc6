"""Reads descriptions of a cluster: dumps of Kubernetes objects, kept snapshots, configurations.

Shared by `why.py`, `what_if.py`, `compare.py` and `check.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

from batchsched import BatchschedError, SchedulerConfig, Snapshot
from batchsched.kubernetes import read_objects

BAD_INPUT = 2
"""The exit status where files or arguments cannot be used."""

YAML = (".yaml", ".yml")
MOST_SCALE = 10

KINDS = {
    "Node": "nodes",
    "Pod": "pods",
    "PodGroup": "pod_groups",
    "Queue": "queues",
    "PriorityClass": "priority_classes",
    "Namespace": "namespaces",
}


class Answer(Protocol):
    """The answer of a tool."""

    def to_dict(self) -> Mapping[str, object]:
        """Return the answer as plain data."""
        ...


def parser_for(description: str, exit_codes: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments of all programs."""
    parser = argparse.ArgumentParser(
        description=description,
        epilog=f"exit status: {exit_codes}; {BAD_INPUT} if files or arguments cannot be used",
    )
    parser.add_argument(
        "cluster",
        nargs="+",
        help="files or folders with Kubernetes objects (JSON, or YAML if PyYAML is installed), "
        "- for standard input, a kept snapshot, or openb[:SCALE] for the example's trace",
    )
    parser.add_argument("--config", metavar="FILE", help="a kube-batch or Volcano configuration")
    parser.add_argument("--scheduler", metavar="NAME", help="the schedulerName of pods (guessed)")
    parser.add_argument("--now", help="the present time, RFC 3339 (the latest that is told)")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    parser.add_argument("--notes", action="store_true", help="tell all that is not honoured")
    return parser


def run(main: Callable[[], int]) -> int:
    """Run a program and return its exit status; print mistakes in its input."""
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (BatchschedError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    return status


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer."""
    print(json.dumps(answer.to_dict(), indent=1) if as_json else answer)


def read_cluster(arguments: argparse.Namespace) -> Snapshot:
    """Return the snapshot that the arguments name."""
    sources: list[str] = arguments.cluster
    if sources[0].partition(":")[0] == "openb" and not Path(sources[0]).exists():
        return _openb(sources[0])
    documents = [(source, document) for source in sources for document in _documents(source)]
    kept = [(source, document) for source, document in documents if "format" in document]
    if kept and len(documents) > 1:
        raise ValueError(f"{kept[0][0]}: this is kept data; give nothing else with a kept snapshot")
    if kept:
        return Snapshot.from_dict(kept[0][1])
    objects: dict[str, list[Mapping[str, Any]]] = {name: [] for name in KINDS.values()}
    for source, document in documents:
        for kind, item in _objects(source, document):
            if kind in KINDS:
                objects[KINDS[kind]].append(item)
    if not any(objects.values()):
        raise ValueError(f"{', '.join(sources)}: there are no objects of kind {', '.join(KINDS)}")
    namespaces = objects.pop("namespaces")
    name = arguments.scheduler or _scheduler_name(objects["pods"])
    snapshot, notices = read_objects(
        nodes=objects["nodes"],
        pods=objects["pods"],
        pod_groups=objects["pod_groups"],
        queues=objects["queues"],
        priority_classes=objects["priority_classes"],
        namespaces=namespaces or None,
        scheduler_name=name,
        now=arguments.now,
    )
    _tell(notices, arguments)
    return snapshot


def read_config(path: str | None) -> SchedulerConfig:
    """Return the configuration in a file, or the default."""
    if path is None:
        return SchedulerConfig()
    content = config_content(path)
    if "format" in content:
        return SchedulerConfig.from_dict(content)
    config = SchedulerConfig.from_mapping(content, unknown="notice")
    for notice in config.notices:
        print(f"note: {notice}", file=sys.stderr)
    return config


def config_content(path: str) -> Mapping[str, object]:
    """Return the content of a configuration file, or of the ConfigMap in it."""
    documents = list(_documents(path))
    if len(documents) != 1:
        raise ValueError(f"{path}: expected one configuration, got {len(documents)}")
    content = documents[0]
    if content.get("kind") != "ConfigMap":
        return content
    data: object = content.get("data")
    texts = list(cast("Mapping[str, object]", data).values()) if isinstance(data, dict) else []
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise ValueError(f"{path}: expected data with one string in the ConfigMap")
    found = _parsed(path, texts[0], is_yaml=True)
    if len(found) != 1:
        raise ValueError(f"{path}: expected one configuration in the ConfigMap, got {len(found)}")
    return found[0]


def job_named(snapshot: Snapshot, name: str) -> str:
    """Return the UID of the job or task that the user gives by UID, or by name alone."""
    uids = {job.uid for job in snapshot.jobs}
    uids |= {task.uid for job in snapshot.jobs for task in job.tasks}
    if name in uids:
        return name
    found = [job.uid for job in snapshot.jobs if job.name == name]
    found += [
        task.uid
        for job in snapshot.jobs
        for task in job.tasks
        if name in (task.name, task.full_name) and job.uid not in found
    ]
    if len(found) == 1:
        return found[0]
    problem = "is not there" if not found else f"may be any of {', '.join(found)}"
    raise ValueError(f"job {name!r} {problem}")


def _tell(notices: Sequence[object], arguments: argparse.Namespace) -> None:
    if notices and not arguments.notes:
        print(f"({len(notices)} notes on what is not honoured: --notes)", file=sys.stderr)
        return
    for notice in notices:
        print(f"note: {notice}", file=sys.stderr)


def _openb(source: str) -> Snapshot:
    sys.path.insert(0, str(Path(__file__).parent))
    import openb  # noqa: PLC0415 - only where it is needed

    text = source.partition(":")[2] or "1"
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= MOST_SCALE:
        raise ValueError(f"openb:{text}: expected a scale above 0 and up to {MOST_SCALE}")
    return openb.make_snapshot(openb.read_shapes(), scale=scale)


def _documents(source: str) -> Iterator[dict[str, Any]]:
    """Yield the contents of a file, of all files of a folder, or of standard input."""
    path = Path(source)
    if source == "-":
        yield from _parsed("standard input", sys.stdin.read(), is_yaml=False)
    elif path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix in (".json", *YAML) and file.is_file():
                yield from _documents(str(file))
    else:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: expected text in UTF-8: {error.reason}") from None
        yield from _parsed(str(path), text, is_yaml=path.suffix in YAML)


def _parsed(source: str, text: str, *, is_yaml: bool) -> list[dict[str, Any]]:
    """Return the objects in a text of JSON or YAML."""
    try:
        found = _yaml(text) if is_yaml else [json.loads(text)]
    except RecursionError:
        raise ValueError(f"{source}: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    for document in found:
        if not isinstance(document, dict):
            raise ValueError(f"{source}: expected an object, got {str(document)[:40]!r}")
    return cast("list[dict[str, Any]]", found)


def _yaml(text: str) -> list[object]:
    if find_spec("yaml") is None:
        raise ValueError("to read YAML, install PyYAML; or give JSON")
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional dependency

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # untyped
        """Reads times as strings, as JSON has them."""

    Loader.yaml_implicit_resolvers = {
        first: [each for each in resolvers if not each[0].endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        found = list(yaml.load_all(text, Loader=Loader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    return [document for document in found if document is not None]


def _objects(source: str, document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a document with their kinds; a list has many."""
    kind = str(document.get("kind") or "")
    if "items" not in document:
        yield kind, document
        return
    items: object = document["items"]
    if not isinstance(items, list):
        raise ValueError(f"{source}: items: expected a list, got {str(items)[:40]!r}")
    for position, item in enumerate(cast("list[object]", items)):
        if not isinstance(item, dict):
            found = str(item)[:40]
            raise ValueError(f"{source}: items[{position}]: expected an object, got {found!r}")
        listed = cast("dict[str, Any]", item)
        yield str(listed.get("kind") or kind.removesuffix("List")), listed


def _scheduler_name(pods: Sequence[Mapping[str, Any]]) -> str:
    """Return the scheduler that most pods name, other than that of Kubernetes."""
    specs = [pod.get("spec") for pod in pods]
    known = [cast("dict[str, Any]", spec) for spec in specs if isinstance(spec, dict)]
    names = Counter(str(spec.get("schedulerName", "")) for spec in known)
    for name in ("", "default-scheduler"):
        names.pop(name, None)
    return min(names, key=lambda name: (-names[name], name)) if names else "default-scheduler"
