"""Reports fit a screen, whatever they have to tell."""

from __future__ import annotations

from batchsched.tools.report import Section, as_html, as_text


def test_many_long_tables_and_lists_fit_a_screen() -> None:
    rows = [(f"row {i}", i, i / 3) for i in range(1000)]
    sections = [Section(f"Section {k}", (), ("name", "a", "b"), rows) for k in range(5)]
    sections.append(Section("Lines", tuple(f"line {i}" for i in range(1000))))
    lines = as_text(sections).splitlines()
    assert len(lines) <= 50
    assert sum("and " in line and " more" in line for line in lines) == 6
    assert as_html(sections).count("<tr>") == 5 * 1001


def test_a_few_rows_are_all_shown() -> None:
    section = Section("Few", (), ("name", "n"), [(f"row {i}", i) for i in range(12)])
    assert len(as_text([section]).splitlines()) == 14


def test_a_huge_cell_leaves_room_for_the_others() -> None:
    section = Section("Title" * 99, (), ("name", "n"), [("x" * 9999, 7), ("y", 8)])
    title, head, huge, small = as_text([section]).splitlines()
    assert len(title) == 100
    assert huge.endswith("...  7")
    assert small.endswith("8")
    assert head.index("n", 8) == small.index("8")


def test_what_cannot_be_printed_does_not_reach_the_terminal() -> None:
    section = Section("a\x1b[31mb", ("one\ntwo",), (), [("x\ry",)])
    assert as_text([section]) == "a?[31mb\n  one?two\n  x?y"
    assert as_html([Section("<b>", ("a & b",))]) == "<h4>&lt;b&gt;</h4><p>a &amp; b</p>"
