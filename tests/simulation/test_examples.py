"""The examples of the simulator run, and print what they found."""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from types import ModuleType

import pytest

from batchsched.simulation import Easy, generate, read_swf, simulate

from .traces import lines, trace

pytestmark = pytest.mark.slow

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
    assert "log.swf: 2,000 jobs, 2 problems" in printed
    assert "expected 18 numbers, got 3 (left out)" in printed
    assert "means over 2 workloads" in printed


def test_pictures_are_left_where_they_were_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="plots are drawn with matplotlib (extra plots)")
    assert example.main(["--jobs", "120", "--seeds", "2", "--plots", str(tmp_path)]) == 0
    assert len(list(tmp_path.glob("*.svg"))) == 5
    assert "pictures: simulation-queue.svg" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("results", "folder", "names", "rows"),
    [
        ("kth-sp2", "kth_sp2", ["KTH-SP2-filtered-28481.swf"], 26),
        ("muri", "philly_muri", [f"trace{number}.csv" for number in (1, 2, 3, 4)], 12),
    ],
)
def test_all_rows_are_shown_beside_the_published_ones(
    results: str,
    folder: str,
    names: list[str],
    rows: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On the first jobs of each file: that the figures are reached is tested by themselves."""
    for name in names:
        first = "".join(islice(lines(f"{folder}/{name}.gz"), 100))
        (tmp_path / name).write_text(first, encoding="utf-8")
    assert reproduce.main([results, str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + rows


def test_differences_from_published_rows_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce.main(["helios", str(trace("philly_muri/trace1.csv.gz").parent)]) == 0
    printed = capsys.readouterr().out.splitlines()[1:]
    assert len(printed) == 24
    assert max(abs(float(line.split()[-1])) for line in printed) < 0.02


def test_the_best_published_row_of_kth_sp2_is_learned_online() -> None:
    log, _ = read_swf(lines("kth_sp2/KTH-SP2-filtered-28481.swf.gz"))
    name, policy, slowdown, response = reproduce.ONLINE[0]
    figures = simulate(log, policy).metrics(tau=10)
    assert figures["bsld"] == pytest.approx(slowdown, rel=1e-12), name
    assert figures["response"] == pytest.approx(response, rel=1e-12)


def test_what_predictions_watch_is_the_same_in_both_engines() -> None:
    log = generate(jobs=60, nodes=16, seed=2)
    fast, general = (
        simulate(log, reproduce.ONLINE[1][1], engine=engine) for engine in ("fast", "general")
    )
    for name in ("predicted", "start", "end"):
        assert fast.jobs[name] == general.jobs[name]


def test_elasticflow_chooses_the_published_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    """All starts and ends of its figure 10, under deadlines and under Tiresias."""
    assert reproduce.main(["elasticflow", str(trace("elasticflow/jobs.csv").parent)]) == 0
    printed = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[2:4] for line in printed[::2]] == [
        ["63318.750000", "63318.750000"], ["51045.950000", "51045.950000"]
    ]  # fmt: skip
    assert printed[1::2] == [
        "edf: 100 of 100 starts and ends are equal, 92 jobs on time",
        "tiresias: 100 of 100 starts and ends are equal, 100 jobs on time",
    ]


@pytest.mark.slow
def test_fgd_allocates_the_published_part_of_openb() -> None:
    folder = trace("openb/README.md").parent
    snapshot = reproduce.openb_snapshot(folder, "default", 42)
    assert round(reproduce.openb_allocated(snapshot), 2) == 95.36


@pytest.mark.parametrize(
    ("results", "file", "printed"),
    [
        (
            "cea-curie",
            "cea_curie/curie_sample_EasyBackfillScheduler.swf.gz",
            [
                "EASY, a pass an event: 10,000 of 10,000 starts are equal",
                "EASY, a pass an instant: 9,786 of 10,000 starts are equal",
            ],
        ),
        (
            "tiresias",
            "tiresias/60_jobs.json",
            [
                f"{name}: 60 of 60 ends are equal"
                for name in ("fifo", "shortest", "shortest-gpu", "dlas-gpu")
            ],
        ),
    ],
)
def test_a_published_schedule_is_reached(
    results: str, file: str, printed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce.main([results, str(trace(file).parent)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == printed


def test_kueues_queues_hold_what_they_may_and_use_more_if_they_borrow() -> None:
    """On a few of each set of one cohort."""
    record = json.loads(trace("kueue/baseline.json").read_text(encoding="utf-8"))
    workload = reproduce.kueue_cohort(record, share=0.06)
    assert len(workload) == 180
    used = dict[tuple[bool, bool], float]()
    for borrows, evicts in product((False, True), repeat=2):
        policy = reproduce.kueue_policy(record, borrows=borrows, evicts=evicts)
        run = simulate(workload, policy, passes="instant")
        assert run.unfinished == {}
        most = max(max(run.series(queue=f"queue-{number}")["busy"]) for number in range(6))
        assert most > 20 if borrows else most == 20
        assert bool(sum(run.jobs["preemptions"])) is evicts  # type: ignore[arg-type]
        used[borrows, evicts] = 1 / run.metrics()["makespan"]
    assert used[True, False] > used[False, False]
    assert used[True, True] > used[False, True]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("simulation.ipynb", 4), ("research.ipynb", 4)])
def test_a_notebook_prints_what_is_kept_in_it(
    name: str, count: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    notebook = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    kept = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            if "import plots" in source and find_spec("matplotlib") is None:
                continue
            exec(compile(source, name, "exec"), names)
            outputs = [out for out in cell["outputs"] if out["output_type"] == "stream"]
            kept += len(outputs)
            assert capsys.readouterr().out == "".join(t for out in outputs for t in out["text"])
    assert kept == count


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"has none of KTH-SP2_log\.swf"):
        reproduce.main(["kth-sp2", str(tmp_path)])
