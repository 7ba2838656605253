"""The dot plot of a claim."""

import re

import pytest

from tff_partial.report import dots
from tff_partial.report.ledger import HOLDS, Estimate, Finding


def finding(kind="difference", ours=None, paper=None):
    return Finding("own/t", "c", "A.", "t", HOLDS, kind=kind, ours=ours, paper=paper)


def test_axes_go_from_end_to_end_and_are_symmetric_around_no_difference():
    assert dots.place("difference", -60.0) == 10.0
    assert dots.place("difference", 60.0) == dots.place("difference", 500.0) == 210.0
    assert dots.place("difference", 0.0) == 110.0
    for value in (0.5, 3.0, 44.8):
        right, left = dots.place("difference", value), dots.place("difference", -value)
        assert right + left == pytest.approx(220.0, abs=0.2)
    assert dots.place("ratio", 0.2) == 10.0 < dots.place("ratio", 0.5) < dots.place("ratio", 1.0)
    assert dots.place("value", 50.0) == 110.0


def test_the_paper_ours_and_its_interval_are_drawn():
    svg = dots.svg(finding(ours=Estimate(1.0, 0.5, 3.0), paper=10.0), "words")
    assert re.findall(r'class="(\w+)"', svg) == [
        "dots",
        "axis",
        "axis",
        "interval",
        "ours",
        "paper",
    ]
    line = re.search(r'interval" x1="([\d.]+)" x2="([\d.]+)"', svg)
    ours, paper = (re.search(rf'{name}" cx="([\d.]+)"', svg) for name in ("ours", "paper"))
    assert float(line[1]) < float(ours[1]) < float(line[2]) < float(paper[1])
    assert 'aria-label="words"' in svg


def test_what_is_not_known_is_not_drawn():
    assert dots.svg(finding(), "") == ""
    assert dots.svg(finding("exact", Estimate(9), 9.0), "") == ""
    assert "interval" not in dots.svg(finding(ours=Estimate(1.0)), "")
    assert "−30" in dots.axis("difference")
