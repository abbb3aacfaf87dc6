"""Two processes find what is made from the order of a set; one cannot."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from tests.support.books import built_in
from tests.support.clusters import cluster, job, node
from tests.testing import order_of_sets
from tests.testing.order_of_sets import (
    OrdersByASet,
    OrdersByName,
    ScoresByASet,
    fails,
    scheduler_by_a_set,
)

from batchsched.testing import (
    HashSeedViolation,
    check_hash_seeds,
    check_plugin,
    hashing,
    snapshots,
)
from batchsched.testing.hashing import carry_out, name_of_target

pytestmark = pytest.mark.slow

MODULE = "tests.testing.order_of_sets"
BIG = cluster(
    [node(f"n{number}", "1C1G") for number in range(1, 6)],
    *(job(f"j{number}", "1C1G") for number in range(1, 8)),
)


def test_what_is_made_from_the_order_of_a_set_is_found() -> None:
    targets = [ScoresByASet, OrdersByASet, scheduler_by_a_set, OrdersByName]
    names = [name_of_target(target) for target in targets]
    found = {violation.target: violation for violation in hashing.differences(names, [BIG])}
    assert list(found) == names[:3]
    score, key, action = found.values()
    assert score.question == "node_scores of task 'j1-1' on node 'n1'"
    assert str(score).startswith(f"{MODULE}:ScoresByASet: node_scores of task 'j1-1' on node 'n1' ")
    assert key.question.startswith("job_order_key of job 'default/j")
    assert "number " in key.seen
    assert action.question == "the result"
    assert "binds: " in action.seen
    assert (
        f"check_hash_seeds('{MODULE}:ScoresByASet', examples=st.just(snapshot))" in score.as_code()
    )


def test_one_process_cannot_see_it() -> None:
    check_plugin(ScoresByASet, max_examples=8)


def test_the_first_difference_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """With both processes played here, as if one had come to the names in another order."""

    def here(order: str, seed: int) -> str:
        told = carry_out(order)
        return told.replace('"0"', '"7"') if seed == 2 else told

    monkeypatch.setattr(hashing, "run_child", here)
    with pytest.raises(HashSeedViolation, match="'0' in one process and '7' in another") as caught:
        check_hash_seeds(f"{MODULE}:OrdersByName", ScoresByASet, examples=st.just(BIG))
    assert caught.value.target == f"{MODULE}:ScoresByASet"

    def alike(order: str, _seed: int) -> str:
        return carry_out(order)

    monkeypatch.setattr(hashing, "run_child", alike)
    check_hash_seeds(OrdersByName, type(built_in("drf")), labels={"team": ["red"]}, max_examples=3)


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="PYTHONHASHSEED=1 failed: OSError: no such cluster"):
        check_hash_seeds(fails, examples=st.just(BIG))


def nested() -> type[object]:
    class Nested:
        """Nobody finds this from outside."""

    return Nested


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("no_such_module:Plugin", "No module named 'no_such_module'"),
        (f"{MODULE}:Nothing", "has no attribute 'Nothing'"),
        ("Plugin", "No module named 'Plugin'.*or its name: 'module:name'"),
        (nested(), "invalid format: .*<locals>"),
        (built_in("drf"), r"expected a class or a function .*, got DrfPlugin\(\)"),
    ],
)
def test_what_another_process_would_not_find_is_refused(target: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_hash_seeds(target)  # type: ignore[arg-type]


def test_labels_are_for_the_default_examples() -> None:
    with pytest.raises(ValueError, match=r"examples=snapshots\(labels="):
        check_hash_seeds(order_of_sets.OrdersByName, examples=snapshots(), labels={"a": ["b"]})
