"""The reference of all flags."""

import pathlib

from tff_partial.cli import flag_reference

ROOT = pathlib.Path(__file__).parents[2]


def test_the_page_of_flags_is_up_to_date():
    page = (ROOT / "docs" / "flags.md").read_text()
    assert page == flag_reference.text(), "make docs writes it"


def test_the_page_is_written_where_it_is_asked_for(tmp_path, capsys):
    assert flag_reference.write([str(tmp_path / "flags.md")]) == 0
    assert (tmp_path / "flags.md").read_text() == flag_reference.text()
    for arguments in ([], [str(tmp_path)]):
        assert flag_reference.write(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "Received:" in line
