"""Charts show what the result files say."""

from __future__ import annotations

import re

import pytest

mpl = pytest.importorskip("matplotlib", reason="charts are drawn with matplotlib (group charts)")

from benchmarks import charts  # noqa: E402 - it needs matplotlib

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
    shown = [text.get_text() for text in waits.texts]
    assert [name for name in shown if not name.isdigit()] == ["allocate", "reserve"]
    assert [bar.get_width() for bar in waits.patches] == [299, 132, 115.4, 45.2]
    assert [bar.get_width() for bar in use.patches] == [62.6, 68.5]


def test_charts_take_the_colours_of_the_page() -> None:
    with mpl.rc_context(charts.STYLE):
        chart = charts.themed(charts.waiting(TABLE), "waits by strategy")
    assert 'aria-label="waits by strategy"' in chart
    assert "var(--color-foreground-primary" in chart
    assert not re.findall("#000000|#ffffff|#010101|<style", chart)
    assert ">allocate</text>" in chart, "the text is text, which can be searched and enlarged"
