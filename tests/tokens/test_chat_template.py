"""A template is a stranger's program: it is ended when it loops, calls or writes too much."""

import json
import time
import tracemalloc

import pytest

from tokenmill.errors import FormatError
from tokenmill.tokens import chat_template
from tokenmill.tokens.chat_template import TemplateError, compiled

MESSAGES = {"messages": [{"role": "user", "content": "a" * 1000}]}
LOOP = "{% for i in range(9999) %}"


def render(text):
    return compiled(f"{{% set all = messages %}}{text}", json.dumps({})).render(MESSAGES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{LOOP}{LOOP}{{% endfor %}}{{% endfor %}}", "more than 1,000,000 steps"),
        ("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}", "steps|recursion"),
        (f"{LOOP}{{{{ messages[0].content * 20 }}}}{{% endfor %}}", "more than 67,108,864 char"),
        (
            f"{{% set n = namespace(x='ab') %}}{LOOP}{{% set n.x = n.x + n.x %}}{{% endfor %}}",
            "larger than 67,108,864",
        ),
        ("{{ 'a' * 10 ** 9 }}", "10 \\*\\* 9 is too large|too large"),
        ("{{ [0] * 9999999 }}", "is too large"),
        ("{{ '%999999999d' % 1 }}", "more than 99,999 characters"),
        ("{{ '{:999999999}'.format(1) }}", "more than 99,999 characters"),
        ("{{ messages | tojson(indent=99999999) }}", "an indent of 99,999,999"),
        ("{{ 'a' | indent(99999999) }}", "an indent of 99,999,999"),
        ("{{ 'a'.ljust(99999999) }}", "larger than 1,000,000"),
        ("{{ range(999999) | list }}", "Range too big"),
        ("{{ messages.__class__ }}{{ messages.append(1) }}", "is unsafe|not callable|not safely"),
        ("{{ raise_exception('never') }}", "says: never"),
        ("{{ messages[0].content.name.other }}", "the chat template says: .* has no attribute"),
    ],
)
def test_a_template_is_ended_with_its_reason(text, message):
    started = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(TemplateError, match=message):
            render(text)
        assert tracemalloc.get_traced_memory()[1] < 1 << 29
    finally:
        tracemalloc.stop()
    assert time.process_time() - started < 30


def test_a_template_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(chat_template, "MOST_SECONDS", 0.0)

    with pytest.raises(TemplateError, match="more than 0 seconds"):
        render(f"{LOOP}a{{% endfor %}}")


@pytest.mark.parametrize("name", ["random", "lipsum", "now", "pprint", "center"])
def test_a_template_has_no_clock_no_chance_and_no_wide_text(name):
    with pytest.raises((FormatError, TemplateError), match=name):
        render(f"{{{{ {name}() }}}}{{{{ 'a' | {name} }}}}")


def test_each_conversation_has_steps_of_its_own():
    template = compiled(
        "{% set all = messages %}{% for i in range(90000) %}{{ i % 2 }}{% endfor %}", json.dumps({})
    )

    assert {len(template.render(MESSAGES)) for _ in range(30)} == {90000}
