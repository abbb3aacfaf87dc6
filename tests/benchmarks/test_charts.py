"""Charts show what the result files say."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib", reason="charts are drawn with matplotlib (group charts)")

from benchmarks import charts

TABLE = """\
40 nodes

| strategy | GPU used | large: mean | large: longest |
|---|---:|---:|---:|
| allocate | 62.6% | 115.4 | 299 |
| reserve | 68.5% | 45.2 | 132 |

another table
"""


def test_the_chart_of_waiting_has_a_bar_for_each_strategy() -> None:
    waits, use = charts.waiting(TABLE).axes
    assert [label.get_text() for label in waits.get_yticklabels()] == ["allocate", "reserve"]
    assert [bar.get_width() for bar in waits.patches] == [299, 132, 115.4, 45.2]
    assert [bar.get_width() for bar in use.patches] == [62.6, 68.5]
