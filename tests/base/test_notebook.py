"""HTML for notebooks: complete, and text in it is never markup."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from tokenmill.base.notebook import coloured, facts, strips

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
TAGS = {"div", "b", "table", "tr", "td", "span", "svg", "rect", "title"}


class Found(HTMLParser):
    """The tags and the text of some HTML."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data


@given(st.text())
def test_any_text_is_shown_and_never_markup(words):
    for html in (
        facts(words, {words: words}),
        coloured([(words, words)]),
        strips(words, [[(3, 0, words)]]),
    ):
        found = Found(html)
        assert found.tags <= TAGS
        assert not any(name.startswith("on") for name in found.attributes)


def test_a_hostile_title_is_text():
    assert HOSTILE in Found(facts(HOSTILE, {})).text
    assert Found(coloured([("a", HOSTILE)])).tags == {"div", "span"}


def test_numbers_are_grouped_and_none_is_left_out():
    assert Found(facts("t", {"tokens": 1234567, "nothing": None})).text == "ttokens1,234,567"


def test_strips_fill_their_width_without_gaps():
    html = strips("t", [[(3, 0, "a"), (5, 1, "b")], [(8, -1, "c")]])
    boxes = re.findall(r'x="(\d+)" y="(\d+)" width="(\d+)"', html)

    assert boxes == [("0", "0", "3"), ("3", "0", "5"), ("0", "14", "8")]
    assert 'viewBox="0 0 8 28"' in html
