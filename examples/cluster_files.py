"""Reads what describes a cluster: dumps of Kubernetes objects, kept snapshots, configurations.

Shared by `why.py`, `what_if.py`, `compare.py` and `check.py`.
"""

from __future__ import annotations

import argparse
import json
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

KINDS = {
    "Node": "nodes",
    "Pod": "pods",
    "PodGroup": "pod_groups",
    "Queue": "queues",
    "PriorityClass": "priority_classes",
    "Namespace": "namespaces",
}


class Answer(Protocol):
    """What a tool answers."""

    def to_dict(self) -> Mapping[str, object]:
        """Return it as plain data."""
        ...


def parser_for(description: str, exit_codes: str) -> argparse.ArgumentParser:
    """Return a parser with what all programs take."""
    parser = argparse.ArgumentParser(
        description=description,
        epilog=f"exit status: {exit_codes}; {BAD_INPUT} if files or arguments cannot be used",
    )
    parser.add_argument(
        "cluster",
        nargs="+",
        help="files or folders with Kubernetes objects (JSON, or YAML if PyYAML is installed), a "
        "kept snapshot, or openb[:SCALE] for the example's trace",
    )
    parser.add_argument("--config", metavar="FILE", help="a kube-batch or Volcano configuration")
    parser.add_argument("--scheduler", metavar="NAME", help="the schedulerName of pods (guessed)")
    parser.add_argument("--now", help="the present time, RFC 3339 (the latest that is told)")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    parser.add_argument("--notes", action="store_true", help="tell all that is not honoured")
    return parser


def run(main: Callable[[], int]) -> int:
    """Return what a program returns, or say what is wrong with its input."""
    try:
        return main()
    except (BatchschedError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer."""
    print(json.dumps(answer.to_dict(), indent=1) if as_json else answer)


def read_cluster(arguments: argparse.Namespace) -> Snapshot:
    """Return the snapshot that the arguments name."""
    sources: list[str] = arguments.cluster
    if sources[0].partition(":")[0] == "openb" and not Path(sources[0]).exists():
        return _openb(sources[0])
    documents = [document for source in sources for document in _documents(Path(source))]
    if len(documents) == 1 and "format" in documents[0]:
        return Snapshot.from_dict(documents[0])
    objects: dict[str, list[Mapping[str, Any]]] = {name: [] for name in KINDS.values()}
    for document in documents:
        for kind, item in _objects(document):
            if kind in KINDS:
                objects[KINDS[kind]].append(item)
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
    (content,) = _documents(Path(path))
    if content.get("kind") == "ConfigMap":
        text = next(iter(cast("Mapping[str, str]", content["data"]).values()))
        content = _yaml(text)[0]
    if "format" in content:
        return SchedulerConfig.from_dict(content)
    config = SchedulerConfig.from_mapping(content, unknown="notice")
    for notice in config.notices:
        print(f"note: {notice}", file=sys.stderr)
    return config


def job_named(snapshot: Snapshot, name: str) -> str:
    """Return the UID of the job or task that a person names: by UID, or by name alone."""
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
    import openb  # noqa: PLC0415 - only where it is asked for

    scale = float(source.partition(":")[2] or 1)
    return openb.make_snapshot(openb.read_shapes(), scale=scale)


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    """Yield what is in a file, or in all files of a folder."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix in (".json", ".yaml", ".yml"):
                yield from _documents(file)
        return
    text = path.read_text(encoding="utf-8")
    found: Sequence[object]
    try:
        found = [json.loads(text)] if path.suffix not in (".yaml", ".yml") else _yaml(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    for document in found:
        if not isinstance(document, dict):
            raise ValueError(f"{path}: expected an object, got {str(document)[:40]!r}")
        yield cast("dict[str, Any]", document)


def _yaml(text: str) -> list[dict[str, Any]]:
    if find_spec("yaml") is None:
        raise ValueError("to read YAML, install PyYAML; or give JSON")
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional dependency

    try:
        return [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _objects(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a document with their kinds; a list has many."""
    kind: str = document.get("kind") or ""
    if "items" not in document:
        yield kind, document
        return
    for item in cast("list[Mapping[str, Any]]", document["items"]):
        yield item.get("kind") or kind.removesuffix("List"), item


def _scheduler_name(pods: Sequence[Mapping[str, Any]]) -> str:
    """Return the scheduler that most pods ask for, other than that of Kubernetes."""
    names = Counter(str(pod.get("spec", {}).get("schedulerName", "")) for pod in pods)
    for name in ("", "default-scheduler"):
        names.pop(name, None)
    return min(names, key=lambda name: (-names[name], name)) if names else "default-scheduler"
