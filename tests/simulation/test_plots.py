"""Pictures show what the runs hold."""

from __future__ import annotations

import io
from typing import Any

import pytest

from batchsched import Queue
from batchsched.simulation import (
    Easy,
    Fcfs,
    FirstFit,
    Job,
    Run,
    Scheduled,
    Srtf,
    Workload,
    generate,
    nodes_needed,
    simulate,
    sweep,
)

pytest.importorskip("matplotlib", reason="plots are drawn with matplotlib (extra plots)")
plots: Any = pytest.importorskip("batchsched.simulation.plots")


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(generate(jobs=300, nodes=32, seed=1), Easy())


def drawn(figure: Any) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="svg")
    return file.getvalue()


def test_the_queue_is_that_of_the_series(run: Run) -> None:
    figure = plots.queue_and_utilisation(run, step=3600)
    [line] = figure.axes[0].lines
    assert list(line.get_ydata()) == run.series(3600)["queued"]
    assert len(drawn(figure)) > 5000


@pytest.mark.slow
def test_bars_of_jobs_do_not_overlap_and_cover_what_was_held(run: Run) -> None:
    for each in (run, simulate(run.workload, Srtf())):
        figure = plots.gantt(each)
        boxes = [
            tuple(path.get_extents().extents)
            for collection in figure.axes[0].collections
            for path in collection.get_paths()
        ]
        area = sum((right - left) * (top - bottom) for left, bottom, right, top in boxes)
        held = sum(h * p for h, p in zip(each.held, each.workload.processors, strict=True))
        assert area * 86400 == pytest.approx(held, rel=1e-6)
        assert all(0 <= bottom < top <= 32 for _, bottom, _, top in boxes)
        boxes.sort()
        for number, (left, bottom, right, top) in enumerate(boxes):
            for other_left, other_bottom, _, other_top in boxes[number + 1 :]:
                if other_left >= right - 1e-9:
                    break
                assert other_bottom >= top or other_top <= bottom or other_left >= right - 1e-9
            assert left < right


@pytest.mark.slow
def test_a_part_of_the_time_can_be_drawn(run: Run) -> None:
    day = 86400
    figure = plots.gantt(run, start=day, end=2 * day)
    assert figure.axes[0].get_xlim() == (1, 2)
    assert len(figure.axes[0].collections) < len(plots.gantt(run).axes[0].collections)


def test_waits_are_drawn_for_each_run_and_size(run: Run) -> None:
    figure = plots.waits([run, simulate(run.workload, Fcfs())], classes=(1, 8))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "EASY (requested time)",
        "FCFS",
    ]
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["1", "2-8", "9-"]
    assert len(drawn(plots.waits(run))) > 5000


def test_shares_add_up_to_what_is_used(run: Run) -> None:
    figure = plots.shares(run, by="user")
    assert len(figure.axes[0].collections) == 9
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[-1] == "others"
    # Nobody has a queue: an empty picture, and no error.
    assert not plots.shares(run, by="queue").axes[0].collections


def test_a_sweep_is_drawn_with_intervals() -> None:
    workloads = {str(seed): generate(jobs=80, nodes=16, seed=seed) for seed in range(3)}
    table = sweep(policies={"fcfs": Fcfs(), "easy": Easy()}, variants=workloads)
    figure = plots.comparison(table, "wait")
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["fcfs", "easy"]
    assert len(figure.axes[0].containers) == 2
    alone = sweep(workloads["0"], policies=[Easy()])
    assert not plots.comparison(alone).axes[0].containers


@pytest.mark.slow
def test_an_empty_run_can_be_drawn() -> None:
    run = simulate(Workload([]).on(nodes=2), Easy())
    one = simulate(Workload([Job(id=1, submit=0, run=0, processors=1)]).on(nodes=2), Fcfs())
    for each in (run, one):
        for draw in (plots.queue_and_utilisation, plots.gantt, plots.waits, plots.shares):
            assert drawn(draw(each))


def test_of_a_tree_of_queues_the_shares_of_leaves_are_stacked() -> None:
    queues = (Queue(name="all"), *(Queue(name=name, parent="all") for name in "ab"))
    jobs = [Job(id=name, submit=0, run=86400, processors=1, queue=name) for name in "ab"]
    run = simulate(Workload(jobs).on(nodes=2), Scheduled(queues=queues))
    (axes,) = plots.shares(run, by="queue").axes
    assert [each.get_label() for each in axes.collections] == ["a", "b"]


def test_jobs_are_drawn_by_node_and_waits_by_number_of_nodes() -> None:
    log = generate(jobs=40, nodes=8, seed=1)
    run = simulate(log.on(nodes=4, per_node=2), Fcfs(placement=FirstFit()), engine="general")
    axes = plots.gantt(run, by="node").axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == [f"node-{n}" for n in range(4)]
    assert axes.get_ylabel() == "nodes"
    found = nodes_needed(log, Easy(), longest_wait=86400, most=30)
    assert plots.nodes_needed(found).axes[0].get_xlabel() == "nodes"
