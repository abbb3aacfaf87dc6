"""The openb example counts right, says what it counts, and decides what it always decided."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchsched import Scheduler, Snapshot
from batchsched_cli import openb as cluster


def load_example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "openb.py"
    specification = importlib.util.spec_from_file_location("openb_example", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["openb_example"] = module
    specification.loader.exec_module(module)
    return module


openb = load_example()


@pytest.fixture(scope="module")
def full() -> Snapshot:
    snapshot: Snapshot = openb.make_snapshot(openb.read_shapes())
    return snapshot


def test_the_cluster_is_that_of_the_trace(full: Snapshot) -> None:
    assert len(full.nodes) == 1_213
    assert sum(node.allocatable.milli_cpu for node in full.nodes) == 107_018_000
    assert sum(node.allocatable.scalars["nvidia.com/gpu"] for node in full.nodes) == 6_212_000
    models = Counter(node.labels["gpu-model"] for node in full.nodes)
    assert models["G2"] == 549
    assert models["A10"] == 2


def test_the_tasks_are_those_of_the_trace(full: Snapshot) -> None:
    assert len(full.jobs) == 8_152
    assert all(len(job.tasks) == 1 for job in full.jobs)
    by_queue = Counter(job.queue for job in full.jobs)
    assert by_queue == {"LS": 4_647, "BE": 3_398, "Burstable": 100, "Guaranteed": 7}
    asked = sum(job.tasks[0].resreq.scalars.get("nvidia.com/gpu", 0) for job in full.jobs)
    assert asked == 6_086_800


def test_tasks_arrive_one_a_second_in_order_of_their_names(full: Snapshot) -> None:
    assert [job.creation_time for job in full.jobs] == list(range(8_152))
    assert [job.name for job in full.jobs] == [f"task-{number:04}" for number in range(8_152)]


def test_allowed_models_are_required_of_nodes() -> None:
    affinity = cluster.affinity_of("T4|P100")
    assert affinity.accepts({"gpu-model": "P100"}, "n")
    assert not affinity.accepts({"gpu-model": "G2"}, "n")
    assert cluster.affinity_of("") is None


@given(counts=st.lists(st.integers(0, 500), max_size=30), scale=st.floats(0.001, 1))
def test_scaled_counts_keep_the_proportions(counts: list[int], scale: float) -> None:
    scaled = cluster.scaled_counts(counts, scale)
    assert sum(scaled) == round(sum(counts) * scale)
    for count, part in zip(counts, scaled, strict=True):
        assert abs(part - count * scale) <= 1


@given(counts=st.lists(st.integers(0, 20), max_size=12))
def test_every_task_arrives_once(counts: list[int]) -> None:
    arrived = Counter(cluster.arrivals(counts))
    assert arrived == {shape: count for shape, count in enumerate(counts) if count}


def test_the_summary_says_what_was_decided(capsys: pytest.CaptureFixture[str]) -> None:
    assert openb.main(["--scale", "0.05"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 100
    assert "61 nodes with 315 GPUs; 408 tasks" in printed
    assert "401 of 408 tasks start" in printed
    assert "no node has room left for any of them" in printed
    # Whoever changes a decision on purpose changes this digest too, and says so.
    assert "59275bea55444cbd5a4de48ebc15c936858c6182b1be8926e536edaad5d10a05" in printed


def test_the_summary_in_json_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert openb.main(["--scale", "0.05", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    pending = sum(group["count"] for group in summary["pending"])
    assert summary["decisions"]["binds"] + pending == summary["tasks"] == 408
    assert sum(queue["bound"] for queue in summary["queues"]) == summary["decisions"]["binds"]
    assert sum(model["nodes"] for model in summary["models"]) == summary["nodes"] == 61
    assert summary["nodes_over_capacity"] == 0


def test_a_configuration_file_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"actions": "allocate", "tiers": [{"plugins": ["gang"]}]}))
    assert openb.main(["--scale", "0.01", "--config", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "  actions: allocate\n  plugins, by tier: gang\n" in printed


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "Expecting"),
        ('{"actions": "alocate"}', "did you mean 'allocate'?"),
    ],
)
def test_a_wrong_configuration_file_is_refused_in_words(
    content: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scheduler.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SystemExit):
        openb.main(["--config", str(file)])
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_nothing_pending_has_room_at_full_scale(full: Snapshot) -> None:
    config = openb.SchedulerConfig()
    result = Scheduler(config).schedule(full)
    summary = openb.summarise(full, config, result, openb.Took(1.0, 1.0), openb.Took(1.0, 1.0))
    assert summary.nodes_over_capacity == 0
    assert [group for group in summary.pending if group.nodes_with_room] == []
    assert summary.decisions["binds"] == 7_987
