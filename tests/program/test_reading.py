"""What the program reads: files, folders, standard input, configurations; and what it refuses."""

import gzip
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import dumps
from tests.support.program import run

from batchsched import SchedulerConfig
from batchsched.kubernetes import read_dump
from batchsched_cli import reading
from batchsched_cli.arguments import parsed as arguments_of
from batchsched_cli.program import COMMANDS
from batchsched_cli.reading import PRESETS, Question, parsed

yaml = pytest.importorskip("yaml")

CONFIG = """
actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
"""


def as_list(objects):
    return json.dumps({"kind": "List", "apiVersion": "v1", "items": objects})


def config_map(name="volcano-scheduler-configmap", **data):
    return dumps.thing("v1", "ConfigMap", name, namespace="volcano-system", data=data)


def shown(tmp_path, **files):
    """Return what `jobs` shows of files in a folder."""
    for name, content in files.items():
        (tmp_path / name.replace("__", ".")).write_bytes(content)
    return run("jobs", "-f", tmp_path)


def test_every_packaging_of_a_dump_gives_the_same_answer(tmp_path):
    objects = dumps.kai_gangs()
    expected = run("jobs", given=objects)
    assert expected.status == 0
    packed = {
        "list.json": as_list(objects).encode(),
        "several.json": "\n".join(map(json.dumps, objects)).encode(),
        "list.yaml": yaml.safe_dump(json.loads(as_list(objects))).encode(),
        "documents.yml": yaml.safe_dump_all(objects).encode(),
        "list.json.gz": gzip.compress(as_list(objects).encode()),
        "marked.json": b"\xef\xbb\xbf" + as_list(objects).encode(),
    }
    for name, content in packed.items():
        file = tmp_path / name
        file.write_bytes(content)
        assert run("jobs", "-f", file).out == expected.out, name
        assert run("jobs", "-f", "-", given=content).out == expected.out, name
    assert run("jobs", "-f", tmp_path).out == expected.out  # what comes twice counts once


def test_files_of_other_kinds_in_a_folder_are_left_alone(tmp_path):
    content = as_list(dumps.native_gated()).encode()
    assert shown(tmp_path, cluster__json=content, notes__txt=b"\xff").status == 0


@pytest.mark.parametrize("content", [b"", b" \n", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_noted_since_kubectl_writes_one_for_a_kind_that_is_not_there(
    tmp_path, content
):
    cluster = as_list(dumps.native_gated()).encode()
    ended = shown(tmp_path, cluster__json=cluster, podgroups__json=content)
    empty = tmp_path / "podgroups.json"
    assert (ended.status, ended.err) == (0, f"note: {empty}: it is empty\n")
    named = run("jobs", "-f", tmp_path / "cluster.json", "-f", empty)
    assert named == ended
    alone = run("jobs", "-f", empty)
    assert (alone.status, alone.err) == (2, f"batchsched: {empty}: there are no objects\n")


def test_a_kept_snapshot_is_a_cluster(tmp_path):
    snapshot = read_dump(dumps.native_gated()).snapshot
    file = tmp_path / "kept.json"
    file.write_text(json.dumps(snapshot.to_dict()))
    ended = run("why", "g", "-f", file)
    assert (ended.status, ended.lines[0].partition(":")[0]) == (1, "team/g waits, gated")
    ended = run("jobs", "-f", file, "-f", file)
    assert (ended.status, "kept snapshot" in ended.err) == (2, True)
    file.write_text(json.dumps({**snapshot.to_dict(), "now": "noon", "nods": []}))
    ended = run("jobs", "-f", file)
    assert ended.status == 2
    assert [line.startswith(f"batchsched: {file}: n") for line in ended.err.splitlines()] == [
        True,
        True,
    ]


def test_the_present_time_is_the_one_that_is_given(tmp_path):
    objects = dumps.native_gated()
    since = [
        run(
            "jobs",
            "--now",
            now,
            given=objects,
        )
        .lines[2]
        .split("  ")
        for now in ("2026-11-20T09:30:42Z", "2026-11-20T11:40:00Z")
    ]
    assert ["42 s" in " ".join(since[0]), "2 h 10 min" in " ".join(since[1])] == [True, True]


FAULTS = {
    "no file": (["-f", "missing.json"], None, "missing.json: No such file"),
    "no name": (["-f", ""], None, "'': expected the name of a file or folder"),
    "broken JSON": ([], b'{"kind": "Pod"', "standard input: Expecting"),
    "not an object": ([], b"[1, 2]", "standard input: expected an object, got '[1, 2]'"),
    "empty": ([], b"", "standard input: there are no objects"),
    "no kind": ([], b'{"metadata": {}}', "expected an object with a kind; its keys: metadata"),
    "a configuration": ([], b'{"actions": "allocate"}', "give it with -c"),
    "no text": ([], b"\x00\xff\xfe", "expected text in UTF-8"),
    "a cut archive": ([], gzip.compress(b"{}" * 50)[:-9], "cannot be decompressed"),
    "wrong value": (
        [],
        as_list([dumps.pod("p", "abc")]).encode(),
        "pods['team/p'].spec.containers[0].resources.requests.cpu: expected a quantity",
    ),
    "wrong time": (["--now", "noon"], as_list(dumps.native_gated()).encode(), "now: expected"),
    "unknown preset": (["-c", "volcan"], as_list([]).encode(), "did you mean volcano?"),
    "unknown option with a value": (["--widht", "60"], b"{}", "--widht; did you mean --width"),
    "unknown option": (["--jsn"], b"{}", "no option is called --jsn; did you mean --json"),
    "no value": (["--width"], b"{}", "--width: expected N after it"),
    "no number": (["--width", "wide"], b"{}", "--width: expected a whole number"),
    "unknown choice": (["--color", "red"], b"{}", "expected auto|always|never, got 'red'"),
    "unknown queue": (
        ["--queue", "reserch"],
        as_list(dumps.kueue_waits()).encode(),
        "no queue is called reserch; did you mean research?",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_used_is_told_in_a_line(name):
    words, content, expected = FAULTS[name]
    ended = run("jobs", *words, given=content)
    assert (ended.status, ended.out) == (2, "")
    assert any(expected in line for line in ended.err.splitlines()), ended.err
    assert len(ended.err.splitlines()) == (2 if name == "wrong value" else 1)
    in_json = run("jobs", *words, "--json", given=content)
    assert (in_json.status, in_json.err) == (2, "")
    assert any(expected in line for line in in_json.data["error"])


def test_a_compressed_file_that_becomes_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_MOST_UNPACKED", 1 << 20)
    file = tmp_path / "cluster.json.gz"
    file.write_bytes(gzip.compress(as_list(dumps.native_gated()).encode() + b" " * (1 << 20)))
    ended = run("jobs", "-f", file)
    told = "it unpacks to more than 1 MiB: unpack it, and give that file"
    assert (ended.status, ended.err) == (2, f"batchsched: {file}: {told}\n")


def test_what_nothing_reads_is_not_kept(tmp_path):
    fields = {f"f:{number}": {"f:value": {}, ".": {}} for number in range(30)}
    managed = [{"manager": "kubelet", "fieldsV1": {"f:spec": fields}}] * 3
    pods = [dumps.pod(f"p{number}") for number in range(300)]
    plain = run("jobs", given=pods)
    for one in pods:
        one["metadata"]["managedFields"] = managed
    file = tmp_path / "cluster.json"
    file.write_text(as_list(pods))
    assert run("jobs", "-f", file).out == plain.out
    found = list(parsed(str(file), file.read_bytes(), [], []))
    assert "managedFields" not in str(found)
    tracemalloc.start()
    try:
        Question(arguments_of(["jobs", "-f", str(file)], COMMANDS)).dump()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 3 * file.stat().st_size


def test_every_fault_of_a_dump_has_a_line_and_that_of_many_objects_one():
    objects = [dumps.pod(f"p{place}", "abc") for place in range(30)]
    ended = run("jobs", given=[*objects, dumps.native_group("g", "three")])
    told = ended.err.splitlines()
    assert [line.partition("[")[0] for line in told] == [
        *["batchsched: pods"] * 2,
        "batchsched: podgroups.scheduling.k8s.io",
    ]
    for line, what in zip(told[:2], ("requests", "limits"), strict=True):
        assert line.startswith(f"batchsched: pods['team/p0'].spec.containers[0].resources.{what}")
        assert "(and 29 more: pods['team/p1']" in line


def test_all_faults_are_told_at_once(tmp_path):
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text(json.dumps({"some": 1}))
    ended = run("jobs", "-f", tmp_path, "-f", tmp_path / "c.json")
    assert ended.status == 2
    assert [line.partition(": ")[2].rpartition("/")[2][:6] for line in ended.err.splitlines()] == [
        "a.json",
        "b.json",
        "c.json",
    ]


def test_without_a_cluster_the_line_that_makes_one_is_told():
    ended = run("jobs")
    assert ended.status == 2
    assert "kubectl get $kind -A -o json" in ended.err


# Configurations


def configuration(objects, *words):
    return run("why", "--json", *words, given=objects).data["configuration"]


def test_a_configuration_is_that_of_the_system_that_is_found():
    found = {
        name: configuration(make()).partition(" ")[0]
        for name, make in dumps.DUMPS.items()
        if name in ("kai_gangs", "kueue_waits", "volcano_pending", "native_gated")
    }
    assert found == {
        "kai_gangs": "kai",
        "kueue_waits": "kueue",
        "volcano_pending": "volcano",
        "native_gated": "kubernetes",
    }
    assert configuration([dumps.node("n1"), dumps.pod("p", scheduler="kube-batch", cpu="9")])[
        :8
    ] == ("default ")


def test_a_tree_of_volcano_queues_takes_capacity_in_place_of_proportion():
    assert "proportion" in configuration(dumps.volcano_closed())
    above = [dumps.volcano_queue("dept", parent="root"), dumps.volcano_queue("a", parent="dept")]
    assert "capacity" in configuration([*dumps.volcano_closed(), *above])
    deserves = dumps.volcano_queue("b", deserved={"cpu": "1"})
    assert "capacity" in configuration([*dumps.volcano_closed(), deserves])


def test_the_configuration_of_the_dump_comes_before_the_presets(tmp_path):
    objects = [*dumps.volcano_closed(), config_map(**{"volcano-scheduler.conf": CONFIG})]
    expected = "(allocate, backfill; priority, gang | predicates, proportion)"
    assert configuration(objects) == f"ConfigMap volcano-scheduler-configmap {expected}"
    assert configuration(objects, "-c", "kai").startswith("kai ")
    file = tmp_path / "plain.yaml"
    file.write_text(CONFIG)
    assert configuration(objects, "-c", file) == f"{file} {expected}"


def test_every_preset_is_a_configuration():
    for name, content in PRESETS.items():
        assert content is None or SchedulerConfig.from_mapping(content).actions, name
        assert configuration(dumps.native_gated(), "-c", name).startswith(f"{name} (")


def test_a_config_map_with_several_keys_gives_the_one_with_actions(tmp_path):
    file = tmp_path / "map.json"
    file.write_text(json.dumps(config_map("other", a="x: 1", b=CONFIG)))
    assert "proportion" in configuration(dumps.native_gated(), "-c", file)
    for data in ({"a": "x: 1", "second": "y: 2"}, {"a": CONFIG, "second": CONFIG}, {}):
        file.write_text(json.dumps(config_map("other", **data)))
        ended = run("why", "-c", file, given=dumps.native_gated())
        assert ended.status == 2
        assert ", ".join(data) in ended.err


def test_faults_of_a_configuration_are_told_with_its_file(tmp_path):
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps({"actions": 1, "tiers": [{"plugins": 3}]}))
    ended = run("jobs", "-c", file, given=dumps.native_gated())
    assert ended.status == 2
    assert [str(file) in line for line in ended.err.splitlines()] == [True, True]


# YAML


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=2)
    ),
    max_leaves=4,
)


@given(st.dictionaries(st.text(max_size=8), PLAIN, min_size=1, max_size=2), st.booleans())
def test_yaml_is_read_as_the_json_that_it_stands_for(content, is_flow):
    text = yaml.safe_dump(content, default_flow_style=is_flow)
    faults = []
    assert [found for _, found in parsed("x.yaml", text.encode(), faults, faults)] == [content]
    assert faults == []


@pytest.mark.parametrize("name", ["volcano-scheduler.conf", "dump", "dump.gz"])
def test_a_file_whose_name_does_not_say_what_it_is_may_be_either(name):
    for text in ("actions: allocate", '{"actions": "allocate"}'):
        faults = []
        found = [each for _, each in parsed(name, text.encode(), faults, faults)]
        assert (found, faults) == ([{"actions": "allocate"}], [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 2026-11-20T10:00:00Z\n1: yes\n", [{"a": "2026-11-20T10:00:00Z", "1": True}]),
        ("a: &x [1]\nb: *x\n", [{"a": [1], "b": [1]}]),
        ("a: 1\n---\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("a: &x [*x]", "alias x stands before"),
        ("? [a]\n: b", "expected a plain key"),
        ("<<: {a: 1}", "a merge key (<<) is not read"),
        ("a: [", "expected"),
        (
            "\n".join(
                f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9 if i else 'x')}]" for i in range(9)
            ),
            "its aliases stand for too much",
        ),
    ],
)
def test_yaml_in_all_its_ways(text, expected):
    faults = []
    found = [each for _, each in parsed("x.yaml", text.encode(), faults, faults)]
    if isinstance(expected, str):
        assert expected in faults[0]
    else:
        assert (found, faults) == (expected, [])


# Whose pods, and who admits


def test_admission_can_be_decided_here():
    assert run("why", "wait", given=dumps.kueue_waits()).status == 1
    ours = run("why", "wait", "--admission", "ours", given=dumps.kueue_waits())
    assert (ours.status, "starts now" in ours.lines[0]) == (0, True)
    assert "assumed: admission is decided here" in ours.out


def test_pods_of_a_further_scheduler_are_jobs():
    objects = [dumps.node("n1"), dumps.pod("own", cpu="9", scheduler="mine")]
    assert run("jobs", "--json", given=objects).data["jobs"] == []
    told = run("jobs", "--json", "--scheduler", "mine", given=objects).data["jobs"]
    assert [(each["job"], each["state"]) for each in told] == [("team/own", "NeverFits")]


def test_pods_that_wait_and_are_no_jobs_are_told_with_what_takes_them():
    objects = [dumps.node("n1"), dumps.pod("web-a"), dumps.pod("web-b"), dumps.pod("on", on="n1")]
    ended = run("jobs", given=objects)
    assert "2 pods that wait are left out: scheduler default-scheduler places no jobs" in ended.err
    ended = run("why", "web-a", given=objects)
    assert ended.status == 2
    assert "pod web-a is no job here: scheduler" in ended.err
    taken = run("jobs", "--scheduler", "default-scheduler", given=objects)
    assert taken.lines[0] == "0 jobs wait, 2 start now, 1 runs."
    assert "left out" not in taken.err


def test_a_namespace_without_jobs_is_told():
    given = dumps.kai_gangs()
    assert "no job is in namespace tea; did you mean" in run("jobs", "-n", "tea", given=given).err
    assert "namespace" not in run("jobs", "-n", "team", given=given).err


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_what_is_not_ascii_is_read_as_it_is(mark):
    pod = dumps.pod("x", schedulingGroup={"podGroupName": "g"})
    pod["metadata"]["labels"]["of"] = "déjà 🙂"
    items = [dumps.native_group("g", 1), pod, dumps.node("n1")]
    text = json.dumps({"kind": "List", "items": items}, ensure_ascii=False)
    ended = run("why", "g", "--json", given=mark + text.encode())
    assert (ended.status, ended.data["job"]) == (0, "team/g")
    broken = run("jobs", given=text.encode()[:-40] + b"\xff" + text.encode()[-40:])
    assert "expected text in UTF-8" in broken.err
