"""The command defrag: the moves as a table, as JSON, and as pictures before and after."""

from __future__ import annotations

import json
from pathlib import Path

from attrs import evolve
from tests.support.program import run

from batchsched import JobInfo, NodeInfo, Queue, Resource, Snapshot, TaskInfo, TaskStatus
from batchsched.tools import FreeNodes, MovePlan, plan_moves

DUMP = Path(__file__).parents[2] / "examples" / "dumps" / "kai.json"
GPU = "nvidia.com/gpu"


def cluster(*gpus: int) -> Snapshot:
    """Nodes of eight GPUs, on each a job that has so many of them."""
    names = [f"n{number}" for number in range(1, len(gpus) + 1)]
    nodes = [
        NodeInfo(name=name, allocatable=Resource(scalars={GPU: 8000}), labels={"pool": pool})
        for name, pool in zip(names, "aabb", strict=False)
    ]
    jobs = [
        JobInfo(
            name=f"j{number}",
            queue="q",
            tasks=[
                TaskInfo(
                    uid=f"u{number}",
                    name=f"j{number}-0",
                    resreq=Resource(scalars={GPU: 1000 * count}),
                    status=TaskStatus.RUNNING,
                    node_name=name,
                )
            ],
        )
        for number, (name, count) in enumerate(zip(names, gpus, strict=True), start=1)
    ]
    return Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=jobs)


def kept(folder: Path, snapshot: Snapshot) -> Path:
    file = folder / "cluster.json"
    file.write_text(json.dumps(snapshot.to_dict()))
    return file


def test_a_sentence_a_table_and_pictures_tell_the_moves() -> None:
    told = run("defrag", "--free", 1, "-f", DUMP)
    assert told.status == 0
    assert told.lines[:-2] == [
        "1 node is free after 1 move, at a cost of 1",
        "  STEP  TASK          FROM   TO     COST OF THE STEP",
        "     1  team/sweep-0  gpu-1  gpu-2                 1",
        "Before",
        "gpu-1  [AAAA....]  4 of 8 GPUs used",
        "gpu-2  [AAAA....]  4 of 8 GPUs used",
        "After",
        "gpu-1  [........]  0 of 8 GPUs used",
        "gpu-2  [AAAAAAAA]  8 of 8 GPUs used",
        "A team/sweep  . free",
    ]


def test_the_status_says_whether_the_goal_is_reached(tmp_path: Path) -> None:
    file = kept(tmp_path, cluster(2, 3, 7))
    told = run("defrag", "--free", 2, "-f", file)
    assert told.status == 1
    assert told.lines[0].startswith("Fewer than 2 nodes are free: 1 more after 1 move")
    full = kept(tmp_path, cluster(8, 8))
    assert run("defrag", "--free", 1, "-f", full).lines[0] == "No node can be freed"
    assert run("defrag", "--free", 1, "-f", full).status == 1
    empty = kept(tmp_path, evolve(cluster(8, 8), jobs=()))
    there = run("defrag", "--free", 2, "-f", empty)
    assert (there.status, there.lines[0]) == (0, "2 nodes are free already")


def test_options_say_which_nodes_count_what_it_may_cost_and_who_stays(tmp_path: Path) -> None:
    file = kept(tmp_path, cluster(2, 3, 4, 1))

    def moved(*options: object) -> list[str]:
        data = run("defrag", "--free", 1, "-f", file, "--json", *options).data
        plan = MovePlan.from_dict(data)
        return [f"{move.task_uid} from {move.from_node}" for move in plan.moves]

    assert moved() == ["u1 from n1"]
    assert moved("--selector", "pool=b") == ["u3 from n3"]
    assert moved("--exempt", "j1", "--exempt", "j2") == ["u3 from n3"]
    assert moved("--max-price", 0) == moved("--limit", 0) == []


def test_it_makes_room_for_a_job(tmp_path: Path) -> None:
    wants = TaskInfo(uid="w", name="w-0", resreq=Resource(scalars={GPU: 8000}))
    snapshot = cluster(2, 3)
    waits = evolve(snapshot, jobs=[*snapshot.jobs, JobInfo(name="w", queue="q", tasks=[wants])])
    words = ("-f", kept(tmp_path, waits), "-c", "kubernetes")
    told = run("defrag", "--room", "w", *words)
    assert (told.status, told.lines[0]) == (
        0,
        "There is room for default/w after 1 move, at a cost of 1",
    )
    dear = run("defrag", "--room", "w", "--max-price", 0, *words)
    assert (dear.status, dear.lines[0]) == (1, "No moves that make room for default/w were found")
    both = run("defrag", "--room", "ww", "--free", 2, *words)
    assert both.status == 2
    assert "--free: does not go with --room" in both.err
    assert "no job is called ww" in both.err


def test_what_if_tells_what_a_move_changes(tmp_path: Path) -> None:
    wants = TaskInfo(uid="w", name="w-0", resreq=Resource(scalars={GPU: 8000}))
    snapshot = cluster(2, 3)
    waits = evolve(snapshot, jobs=[*snapshot.jobs, JobInfo(name="w", queue="q", tasks=[wants])])
    words = ("-f", kept(tmp_path, waits), "-c", "kubernetes")
    told = run("what-if", "move", "j1", "to=n2", *words)
    assert told.status == 1
    assert told.lines[0] == "1 task of 1 job starts that waits now; nothing is evicted"
    faults = run(
        *("what-if", "move", "j1", "to=n9", "move", "w", "to=n1", "move", "j2", "on=n1"),
        *words,
    )
    assert faults.status == 2
    assert [line.removeprefix("batchsched: ") for line in faults.err.splitlines()] == [
        "no node is called n9",
        "move w: it is Pending, and only what runs can move",
        "move j2: expected to=NODE, got on=n1",
    ]
    full = ("-f", kept(tmp_path, cluster(2, 7)), "-c", "kubernetes")
    no_room = run("what-if", "move", "j1", "to=n2", *full)
    assert no_room.err == "batchsched: move j1: it needs 2 GPUs, and n2 has 1 GPU free\n"


def test_json_is_the_plan_of_the_library(tmp_path: Path) -> None:
    snapshot = cluster(2, 3, 4, 1)
    goal = FreeNodes(count=2, selector={"pool": "a"})
    words = ("--free", 2, "--selector", "pool=a", "-f", kept(tmp_path, snapshot), "-c", "default")
    assert run("defrag", *words, "--json").data == plan_moves(snapshot, goal).to_dict()


def test_a_page_has_both_pictures(tmp_path: Path) -> None:
    page = tmp_path / "moves.html"
    assert run("defrag", "--free", 1, "-f", DUMP, "--html", page).status == 0
    text = page.read_text()
    assert text.index("Before") < text.index("After")
    assert text.count("<svg") >= 2
    assert "team/sweep-0" in text


def test_all_that_is_wrong_is_told_at_once() -> None:
    words = ("--free", "two", "--selector", "zone=a", "--selector", "b", "--limit", -1)
    told = run("defrag", *words, "--max-price", "x", "--exempt", "swep", "-f", DUMP)
    assert told.status == 2
    assert [line for line in told.err.splitlines() if line.startswith("batchsched:")] == [
        "batchsched: --free: expected a whole number of at least 1, got 'two'",
        "batchsched: no label is called zone",
        "batchsched: --selector: expected LABEL=VALUE, got 'b'",
        "batchsched: --limit: expected a whole number of at least 0, got '-1'",
        "batchsched: --max-price: expected a whole number of at least 0, got 'x'",
        "batchsched: no job is called swep; did you mean team/pg-sweep-4b7d?",
    ]
    assert run("defrag", "-f", DUMP).err.startswith("batchsched: defrag: expected --free N")
