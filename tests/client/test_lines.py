"""Lines as a protocol means them: only a line feed ends one, whatever the text in it holds."""

import json

from hypothesis import given
from hypothesis import strategies as st

from parley.client.lines import Lines

BREAKS_OF_TEXT = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def test_only_a_line_feed_ends_a_line_and_a_carriage_return_before_it_is_none_of_it() -> None:
    lines = Lines()
    assert lines.take(f"data: {BREAKS_OF_TEXT}\r".encode()) == []
    assert lines.take(b"\n\nhalf\ra line") == [f"data: {BREAKS_OF_TEXT}", ""]
    assert lines.take(b"") == []
    assert lines.take(b"\r\r\n") == ["half\ra line\r"]


@given(st.lists(st.text(alphabet=st.one_of(st.sampled_from(BREAKS_OF_TEXT + '"\\\r\n'), st.characters()))), st.data())
def test_lines_come_out_as_they_went_in_however_they_are_cut(texts: list[str], data: st.DataObject) -> None:
    written = [json.dumps(text, ensure_ascii=False) if text.isprintable() else json.dumps(text) for text in texts]
    raw = "".join(line + data.draw(st.sampled_from(["\n", "\r\n"])) for line in written).encode()
    lines, heard = Lines(), list[str]()
    while raw:
        size = data.draw(st.integers(1, len(raw)))
        heard += lines.take(raw[:size])
        raw = raw[size:]
    assert heard == written


def test_bytes_that_are_no_text_end_nothing() -> None:
    assert Lines().take(b"\xff\xe2\x80\n") == ["\ufffd\ufffd"]
