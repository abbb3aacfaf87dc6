"""The examples of the simulator run, and print what they found."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from batchsched.simulation import Easy, generate, simulate

from .traces import trace

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / name)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[f"{name}_example"] = module
    specification.loader.exec_module(module)
    return module


example = load("simulate.py")
reproduce = load("reproduce.py")


def test_three_policies_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert example.main(["--jobs", "200", "--seeds", "3", "--nodes", "32"]) == 0
    printed = capsys.readouterr().out
    assert "EASY (requested time): 200 jobs on 32 processors" in printed
    assert "means over 3 workloads" in printed
    assert "conservative - EASY: " in printed
    assert "3 workloads)" in printed


def test_a_log_is_read_and_its_users_drawn_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = simulate(generate(jobs=2000, nodes=16, seed=3), Easy())
    file = tmp_path / "log.swf"
    lines = [*run.to_swf(), "9999 1 1"]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert example.main(["--swf", str(file), "--seeds", "2"]) == 0
    printed = capsys.readouterr().out
    assert "log.swf: 2,000 jobs, 2 oddities" in printed
    assert "expected 18 numbers, got 3 of them (left out)" in printed
    assert "means over 2 workloads" in printed


def test_pictures_are_left_where_they_were_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    assert example.main(["--jobs", "120", "--seeds", "2", "--plots", str(tmp_path)]) == 0
    assert len(list(tmp_path.glob("*.svg"))) == 5
    assert "pictures: simulation-queue.svg" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("results", "folder", "file", "rows"),
    [
        ("kth-sp2", "kth_sp2", "KTH-SP2-filtered-28481.swf.gz", 26),
        ("helios", "philly_muri", "trace1.csv.gz", 24),
        ("muri", "philly_muri", "trace1.csv.gz", 12),
    ],
)
def test_published_results_are_shown_beside_what_is_reached(
    results: str, folder: str, file: str, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    where = trace(f"{folder}/{file}").parent
    assert reproduce.main([results, str(where)]) == 0
    printed = capsys.readouterr().out.splitlines()[1:]
    assert len(printed) == rows
    differences = [abs(float(line.split()[-1])) for line in printed]
    assert max(differences) < {"kth-sp2": 1e-6, "helios": 0.02, "muri": 1e-5}[results]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has none of KTH-SP2_log\.swf"):
        reproduce.main(["kth-sp2", str(tmp_path)])
