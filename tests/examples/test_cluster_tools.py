"""The programs for people who run clusters answer on realistic dumps and on openb."""

from __future__ import annotations

import importlib
import io
import json
import sys
from pathlib import Path

import pytest

from batchsched import Snapshot

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
WAITS = "task-0208"
"""A task of a twentieth of the openb trace that finds no place."""
DUMP = str(Path(__file__).parents[1] / "kubernetes" / "fixtures" / "cluster")


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))


def run(program: str, *arguments: str) -> int:
    sys.modules.pop(program, None)
    return int(importlib.import_module(program).main(list(arguments)))


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"actions": "reclaim, allocate, preempt, backfill"}))
    return str(file)


def fits_a_screen(text: str) -> bool:
    lines = text.splitlines()
    return len(lines) <= 60 and max(map(len, lines)) <= 100


def test_why_tells_of_a_job_that_does_not_wait(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("why", DUMP, "--job", "notebook") == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(
        "Job research/notebook\n  it starts in this cycle: research/notebook-0 on cpu-2"
    )
    assert "notes on what is not honoured" in printed.err


def test_why_tells_of_a_job_that_waits(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pods = json.loads((Path(DUMP) / "pods.json").read_text())
    for pod in pods["items"]:
        if pod["metadata"]["name"] == "notebook-0":
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500"}}
    folder = tmp_path / "dump"
    folder.mkdir()
    for file in Path(DUMP).iterdir():
        (folder / file.name).write_text(file.read_text())
    (folder / "pods.json").write_text(json.dumps(pods))
    assert run("why", str(folder), "--job", "research/notebook") == 1
    printed = capsys.readouterr().out
    print(printed)
    assert fits_a_screen(printed)
    assert "insufficient cpu" in printed
    assert "more on node" in printed


def test_why_on_openb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", "openb:0.05", "--other", str(EXAMPLES / "nothing.json")) == 2
    assert "No such file" in capsys.readouterr().err
    assert run("why", "openb:0.05", "--job", "task-0000", "--json") == 0
    assert json.loads(capsys.readouterr().out)["job"] == "default/task-0000"
    assert run("why", "openb:0.05", "--job", WAITS) == 1
    printed = capsys.readouterr().out
    assert fits_a_screen(printed)
    assert "Nearest nodes" in printed
    assert "It would start now with any one of these" in printed


def test_what_if(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--cordon", "gpu-1", "--add-node", "new=cpu=64,memory=256Gi,nvidia.com/gpu=8"]
    assert run("what_if", DUMP, *changes, "--starts", "research/train-7f9c") == 0
    printed = capsys.readouterr().out
    assert fits_a_screen(printed)
    assert printed.startswith("If\n")
    assert "NodeAdded 'new': 64 cpu, 256 GiB, 8 nvidia.com/gpu" in printed
    assert "start on another node" in printed
    assert run("what_if", "openb:0.05", "--weight", "BE=9", "--json") == 0
    assert json.loads(capsys.readouterr().out)["if"] == ["QueueChanged 'BE': weight=9"]


def test_compare(capsys: pytest.CaptureFixture[str], config: str) -> None:
    assert run("compare", DUMP, "--other", config) == 0
    assert capsys.readouterr().out.startswith("Both make the same decisions.")
    plain = Path(config).with_name("plain.json")
    plain.write_text(json.dumps({"tiers": [{"plugins": ["gang", "predicates"]}]}))
    assert run("compare", "openb:0.1", "--other", str(plain)) == 1
    printed = capsys.readouterr().out
    assert fits_a_screen(printed)
    assert "The first decision that differs" in printed


def test_check(capsys: pytest.CaptureFixture[str], config: str) -> None:
    assert run("check") == 1
    printed = capsys.readouterr().out
    assert fits_a_screen(printed)
    assert "CapacityWithoutReclaim at tiers[1].plugins[2]" in printed
    assert run("check", "--config", config, "openb:0.05") == 0
    assert capsys.readouterr().out == "0 finding(s)\n"
    assert run("check", DUMP, "--json") == 1
    (finding, *_) = json.loads(capsys.readouterr().out)
    assert finding["shows_on_yours"] is False


def test_yaml_is_read_where_it_can_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("yaml")
    file = tmp_path / "configmap.yaml"
    file.write_text(
        "kind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n"
        "    actions: allocate\n    tiers:\n    - plugins:\n      - name: gang\n"
    )
    assert run("check", "--config", str(file)) == 1
    assert "NoPredicates" in capsys.readouterr().out


def test_a_kept_snapshot_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster_files = importlib.import_module("cluster_files")
    parser = cluster_files.parser_for("", "")
    snapshot = cluster_files.read_cluster(parser.parse_args([DUMP]))
    file = tmp_path / "kept.json"
    file.write_text(json.dumps(snapshot.to_dict()))
    assert cluster_files.read_cluster(parser.parse_args([str(file)])) == snapshot
    file.write_text('{"format": "batchsched.Snapshot", "version": 9}')
    assert run("why", str(file), "--job", "x") == 2
    assert "this was written by a newer version of batchsched" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["why", DUMP, "--job", "nobody"], "job 'nobody' is not there"),
        (["what_if", DUMP, "--weight", "q"], "expected NAME=VALUE, got 'q'"),
        (["what_if", DUMP, "--end", "research/sweep-0", "--weight", "nope=3"], "nope"),
        (
            ["what_if", DUMP, "--priority", "research/notebook=x"],
            "expected a whole number, got 'x'",
        ),
        (["why", "openb:0", "--job", "x"], "openb:0: expected a scale above 0"),
        (["why", "missing.json", "--job", "x"], "missing.json"),
    ],
)
def test_what_is_wrong_is_told(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = run(*arguments)
    printed = capsys.readouterr()
    assert status == 2
    assert said in printed.err


NOTHING = "there are no objects of kind Node, Pod"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("cut.json", b'{"items": [', "cut.json: Expecting value"),
        ("empty.json", b"", "empty.json: Expecting value"),
        ("latin.json", b"\xff", "latin.json: expected text in UTF-8"),
        ("list.json", b"[1]", "list.json: expected an object, got '[1]'"),
        ("deep.json", b"[" * 100_000, "deep.json: it is nested too deeply"),
        ("items.json", b'{"items": {"a": 1}}', "items.json: items: expected a list"),
        ("item.json", b'{"items": [1]}', "item.json: items[0]: expected an object, got '1'"),
        ("pod.json", b'{"kind": "Pod", "spec": 3}', "pods[0].metadata.name: is missing"),
        ("secret.json", b'{"kind": "Secret"}', NOTHING),
        ("kept.json", b'{"format": 5}', "version: is missing"),
    ],
)
def test_what_is_wrong_with_a_dump_is_told(
    name: str, content: bytes, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    assert run("why", str(tmp_path / name), "--job", "x") == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        ({"kind": "ConfigMap"}, 2, "expected data with one string in the ConfigMap"),
        ({"kind": "ConfigMap", "data": {"a": "", "b": ""}}, 2, "expected data with one string"),
        ({"actions": "allocate", "tiers": 3}, 1, "Invalid at tiers\n"),
        ({"actions": "enqueue, allocate"}, 1, "UnknownAction at actions[0]\n"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_told(
    content: object, status: int, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps(content))
    assert run("check", "--config", str(file)) == status
    printed = capsys.readouterr()
    assert said in printed.out + printed.err


def test_a_folder_may_hold_other_things_and_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    below = tmp_path / "more.json"
    below.mkdir()
    for file in Path(DUMP).iterdir():
        (below / file.name).write_text(file.read_text())
    (tmp_path / "readme.txt").write_text("hello")
    (tmp_path / "secret.json").write_text('{"kind": "Secret"}')
    assert run("why", str(tmp_path), "--job", "notebook") == 0
    assert capsys.readouterr().out.startswith("Job research/notebook\n")
    (tmp_path / "kept.json").write_text(json.dumps(Snapshot().to_dict()))
    assert run("why", str(tmp_path), "--job", "notebook") == 2
    assert "give nothing else with a kept snapshot" in capsys.readouterr().err


def test_a_dump_may_come_by_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [
        item
        for file in sorted(Path(DUMP).iterdir())
        for item in json.loads(file.read_text())["items"]
    ]
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"kind": "List", "items": items})))
    assert run("why", "-", "--job", "notebook") == 0
    assert capsys.readouterr().out.startswith("Job research/notebook\n")


def test_many_findings_fit_a_screen(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    arguments = {f"unknown-{i}": i for i in range(40)}
    file.write_text(json.dumps({"actions": [{"name": "allocate", "arguments": arguments}]}))
    assert run("check", "--config", str(file)) == 1
    printed = capsys.readouterr().out
    assert fits_a_screen(printed)
    assert printed.endswith("41 finding(s)\n")
    assert "more (--json tells all)" in printed
