"""Pictures in SVG."""

import re
import xml.dom.minidom

from tff_partial.results import pictures
from tff_partial.results.pictures import Panel, Picture

LINES = Panel("first <1>", "x", {"a & b": [(0.0, 1.0), (2.0, 3.0)], "c": [(1.0, 2.0)]})


def test_ends_of_lines_are_at_the_edges_of_the_panel():
    text = pictures.svg(Picture("two lines", [LINES, LINES]))
    first, second, *_ = re.findall(r'<polyline class="line s(\d)" points="([^"]*)"', text)
    frame = re.search(r'class="frame" x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', text)
    left, top, width, height = map(int, frame.groups())
    start, end = ([float(v) for v in pair.split(",")] for pair in first[1].split())
    assert (start, end) == ([left, top + height], [left + width, top])
    assert [float(v) for v in second[1].split(",")] == [left + width / 2, top + height / 2]
    assert (first[0], second[0]) == ("0", "1")


def test_text_is_escaped_and_pages_need_no_styles():
    text = pictures.svg(Picture('a "caption"', [LINES]))
    xml.dom.minidom.parseString(text)
    assert "first &lt;1&gt;" in text
    assert "a &amp; b" in text
    assert "style" not in text


def test_panels_stand_in_rows_and_a_file_has_its_colours():
    text = pictures.standalone(Picture("five", [LINES] * 5))
    root = xml.dom.minidom.parseString(text).documentElement
    width, height = (int(root.getAttribute(name)) for name in ("width", "height"))
    assert (width, height > 2 * pictures.HEIGHT) == (4 * pictures.WIDTH, True)
    assert pictures.COLOURS[0] in text


def test_pieces_are_the_keys_and_the_panels():
    keys, panels = pictures.pieces(Picture("two", [LINES, LINES]))
    assert [len(keys), len(panels)] == [2, 2]
    for piece in (*keys, *panels):
        xml.dom.minidom.parseString(piece)
    _, [alone] = pictures.pieces(Picture("one", [LINES]))
    width = int(xml.dom.minidom.parseString(alone).documentElement.getAttribute("width"))
    assert width == 1.5 * pictures.WIDTH


def test_points_that_are_all_alike_have_a_place():
    text = pictures.svg(Picture("", [Panel("", "x", {"a": [(1.0, 1.0)] * 2}, is_scatter=True)]))
    assert text.count("<circle") == 2
    assert "nan" not in text
    assert pictures.svg(Picture("", [Panel("", "x", {})])).count("<rect") == 1
