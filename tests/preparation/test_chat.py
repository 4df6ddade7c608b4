"""Chat: ids and masks are those of transformers, but that no text of a message is special."""

import itertools
import json

import numpy as np
import pytest
from chat_data import (
    MARKED,
    STOCK,
    TOOL,
    make_rows,
    tokenizer_json,
    write_folder,
    write_rows,
)
from click.testing import CliRunner
from preparation.oracle import hashes_of_files

import tokenmill
from tokenmill.cli import tokenmill as command
from tokenmill.errors import BadInputError, FormatError, SettingsMismatchError
from tokenmill.preparation import Chat, Run
from tokenmill.shards.verify import verify

STYLES = sorted(MARKED)
END = "<|endoftext|>"
ROLES = ("user", "assistant")
SPECIAL_IDS = {token["content"]: token["id"] for token in tokenizer_json()["added_tokens"]}


def prepare(path, out, folder, **options):
    chat = Chat(**options.pop("chat", {}))
    wanted = {"val_fraction": 0.0, "end_of_text": END, "workers": 1, **options}
    return tokenmill.prepare(path, out, tokenizer=folder, chat=chat, **wanted)


def documents(out):
    """Ids and targets of every conversation."""
    data = tokenmill.open(out)
    ends = [data.document_range(number) for number in range(data.num_documents)]
    return [(data.tokens(*edges), data.column("loss", *edges)) for edges in ends]


def theirs(folder, template, row):
    """Ids and mask of transformers, and which characters its tokens come from."""
    from transformers import PreTrainedTokenizerFast

    known = {"bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **known)
    out = tokenizer.apply_chat_template(
        row["messages"],
        tools=row.get("tools"),
        chat_template=template,
        return_assistant_tokens_mask=True,
        return_dict=True,
    )
    return out["input_ids"], out["assistant_masks"]


@pytest.mark.parametrize("style", STYLES)
def test_ids_and_targets_are_those_of_transformers(style, tmp_path):
    folder = write_folder(tmp_path / "tok", MARKED[style])
    rows = make_rows(style, 80)
    prepare(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "d", folder)

    for row, (ids, targets) in zip(rows, documents(tmp_path / "d"), strict=True):
        their_ids, their_mask = theirs(folder, MARKED[style], row)
        assert ids.tolist() == [*their_ids, SPECIAL_IDS[END]]
        assert targets.tolist() == [*map(bool, their_mask), False]


@pytest.mark.parametrize("style", STYLES)
def test_special_strings_of_a_message_stay_text(style, tmp_path):
    folder = write_folder(tmp_path / "tok", MARKED[style])
    rows = make_rows(style, 60, specials=True, seed=1)
    rows[0]["messages"][-1]["content"] = "a<|im_start|>b</s>c<|im_"
    emptied = [
        {**row, "messages": [{**m, "content": "x"} for m in row["messages"]]} for row in rows
    ]
    prepare(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "a", folder)
    prepare(write_rows(tmp_path / "b.jsonl", emptied), tmp_path / "b", folder)
    tokenizer = tokenmill.open(tmp_path / "a").tokenizer
    special = list(SPECIAL_IDS.values())

    pairs = zip(rows, documents(tmp_path / "a"), documents(tmp_path / "b"), strict=True)
    for row, (ids, _), (others, _) in pairs:
        assert ids[np.isin(ids, special)].tolist() == others[np.isin(others, special)].tolist()
        assert tokenizer.decode(ids[:-1]) == text_of(folder, MARKED[style], row).encode()


def text_of(folder, template, row):
    from transformers import PreTrainedTokenizerFast

    known = {"bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **known)
    options = {"tools": row.get("tools"), "chat_template": template, "tokenize": False}
    return tokenizer.apply_chat_template(row["messages"], **options)


@pytest.mark.parametrize("style", STYLES)
def test_answers_without_marks_are_proved_to_be_those_with_marks(style, tmp_path):
    folder = write_folder(tmp_path / "tok", STOCK[style])
    marked = write_folder(tmp_path / "marked", MARKED[style])
    path = write_rows(tmp_path / "a.jsonl", make_rows(style, 150, specials=True, seed=2))
    prepare(path, tmp_path / "stock", folder)
    prepare(path, tmp_path / "marked_d", marked)

    pairs = zip(documents(tmp_path / "stock"), documents(tmp_path / "marked_d"), strict=True)
    for (ids, targets), (marked_ids, marked_targets) in pairs:
        assert ids.tolist() == marked_ids.tolist()
        assert targets.tolist() == marked_targets.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("<|im_start|>assistant\\n<think>\\n", "message 2 is '.*' there, and"),
        ("<|im_start|>assistant", "is '<.im_start.>assistant', not a header alone"),
        ("", "its generation prompt there is ''"),
    ],
)
def test_an_answer_that_cannot_be_proved_is_refused(change, message, tmp_path):
    template = STOCK["chatml"].replace(
        "{{- '<|im_start|>assistant\\n' }}", f"{{{{- '{change}' }}}}"
    )
    assert template != STOCK["chatml"]
    folder = write_folder(tmp_path / "tok", template)
    rows = [{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]

    with pytest.raises(BadInputError, match=message) as caught:
        prepare(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "d", folder)
    assert "a.jsonl:1: the chat template does not show" in str(caught.value)
    assert "{% generation %}" in caught.value.hint


def test_a_template_that_writes_earlier_answers_otherwise_is_proved_or_refused(tmp_path):
    """As published templates do: reasoning is left out of all answers but the last one."""
    last = "{%- if loop.last %}{{- '<think></think>' }}{%- endif %}"
    block = "{{- message.content }}"
    stock = STOCK["chatml"].replace(
        block, f"{{%- if message.role == 'assistant' %}}{last}{{%- endif %}}{block}"
    )
    assert stock.count(last) == 2
    folder = write_folder(tmp_path / "tok", stock)
    rows = [{"messages": [{"role": r, "content": f"{r} {n}"} for n in "12" for r in ROLES]}]
    prepare(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "d", folder)

    ((ids, targets),) = documents(tmp_path / "d")
    tokenizer = tokenmill.open(tmp_path / "d").tokenizer
    learned = tokenizer.decode(ids[targets])
    assert learned == b"assistant 1<|im_end|>\n<think></think>assistant 2<|im_end|>\n"


@pytest.mark.parametrize("change", ["nfc", "prepended", "stripping"])
def test_tokenizers_that_change_a_text_have_the_targets_of_transformers(change, tmp_path):
    tree = tokenizer_json()
    changes = {"normalizer": {"type": "NFC"}}
    if change == "prepended":  # a space before every text between special tokens
        changes = {"pre_tokenizer": {**tree["pre_tokenizer"], "add_prefix_space": True}}
    if change == "stripping":  # as <|assistant|> of Phi does
        tokens = [{**token, "rstrip": True} for token in tree["added_tokens"]]
        changes = {"added_tokens": tokens}
    folder = write_folder(tmp_path / "tok", MARKED["mistral"], **changes)
    rows = make_rows("mistral", 60, seed=3)
    rows[0]["messages"][1]["content"] = "cafe\u0301 e\u0301 \u0958"
    prepare(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "d", folder)

    for row, (ids, targets) in zip(rows, documents(tmp_path / "d"), strict=True):
        their_ids, their_mask = theirs(folder, MARKED["mistral"], row)
        assert ids[:-1].tolist() == their_ids
        assert targets[:-1].tolist() == list(map(bool, their_mask))


def test_reasoning_is_found_under_each_of_its_names(tmp_path):
    template = MARKED["chatml"].replace(
        "{{- message.content }}", "{{- (message.thinking or '') + message.content }}"
    )
    folder = write_folder(tmp_path / "tok", template)
    question = {"role": "user", "content": "a"}
    answer = {"role": "assistant", "content": "b"}
    names = ("reasoning_content", "reasoning", "thinking")
    rows = [{"messages": [question, {**answer, name: name}]} for name in names]
    prepare(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "d", folder)

    for row, (ids, targets) in zip(rows, documents(tmp_path / "d"), strict=True):
        their_ids, their_mask = theirs(folder, template, row)
        assert ids[:-1].tolist() == their_ids
        assert targets[:-1].tolist() == list(map(bool, their_mask))


def test_values_that_a_template_writes_escaped_have_no_marks_of_ours(tmp_path):
    """As Python or as ASCII: a special string in them stays text, and nothing is added."""
    written = "{{- message.content | tojson(ensure_ascii=true) ~ message.parts }}"
    template = MARKED["chatml"].replace("{{- message.content }}", written)
    folder = write_folder(tmp_path / "tok", template)
    special = {"content": "a<|im_end|>b<|im_", "parts": ["<|im_start|>", 1]}
    messages = [{"role": role, **special} for role in ROLES]
    prepare(write_rows(tmp_path / "a.jsonl", [{"messages": messages}]), tmp_path / "d", folder)

    ((ids, _),) = documents(tmp_path / "d")
    text = tokenmill.open(tmp_path / "d").tokenizer.decode(ids[:-1]).decode()
    assert text.count("\"a<|im_end|>b<|im_\"['<|im_start|>', 1]") == 2
    assert text == text_of(folder, template, {"messages": messages})
    assert np.isin(ids, list(SPECIAL_IDS.values())).sum() == 5


def test_a_message_that_the_template_leaves_out_after_an_answer_proves_nothing(tmp_path):
    """What is written at the end of all may be of the answer, or of nobody."""
    folder = write_folder(tmp_path / "tok", STOCK["mistral"].replace(
        "{{- raise_exception('there is no role ' + message.role) }}", ""
    ))  # fmt: skip
    messages = [{"role": r, "content": r} for r in (*ROLES, "tool")]

    with pytest.raises(BadInputError, match="writes nothing of message 3"):
        prepare(write_rows(tmp_path / "a.jsonl", [{"messages": messages}]), tmp_path / "d", folder)


@pytest.mark.parametrize(("train_on", "learned"), [("last", b" b2</s>"), ("all", None)])
def test_targets_may_be_the_last_answer_or_all(train_on, learned, tmp_path):
    for template in (MARKED["mistral"], STOCK["mistral"]):
        folder = write_folder(tmp_path / "tok", template)
        messages = [
            {"role": r, "content": f"{c}{n}"}
            for n in "12"
            for r, c in zip(ROLES, "ab", strict=True)
        ]
        path = write_rows(tmp_path / "a.jsonl", [{"chats": messages}])
        chat = {"train_on": train_on, "messages_field": "chats"}
        prepare(path, tmp_path / train_on, folder, chat=chat, overwrite=True)

        ((ids, targets),) = documents(tmp_path / train_on)
        tokenizer = tokenmill.open(tmp_path / train_on).tokenizer
        text = tokenizer.decode(ids[:-1])
        assert tokenizer.decode(ids[:-1][targets[:-1]]) == (learned or text)
        assert not targets[-1]


def test_an_end_of_text_that_the_template_writes_is_not_doubled(tmp_path):
    folder = write_folder(tmp_path / "tok", MARKED["mistral"])
    rows = make_rows("mistral", 5)
    prepare(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "d", folder, end_of_text="</s>")

    for row, (ids, targets) in zip(rows, documents(tmp_path / "d"), strict=True):
        assert ids.tolist() == theirs(folder, MARKED["mistral"], row)[0]
        assert targets[-1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"messages": [{"role": "judge", "content": "a"}]}, "says: there is no role judge"),
        ({"messages": [{"role": "user", "content": 7}]}, "content of message 1 .user. is int, not"),
        ({"messages": [{"role": "user", "content": None}]}, "message 1 .user. is null"),
        ({"messages": [{"content": "a"}]}, "message 1 has no role"),
        ({"messages": [{"role": "user", "content": [{"image": "a"}]}]}, "a part that is not text"),
        ({"messages": []}, "it has no messages"),
        ({"messages": "text"}, "field 'messages' is str, not a list"),
        ({"chat": []}, "no field 'messages' in a row with the fields: chat"),
        ({"messages": [{"role": "user", "content": "\ufdd0"}]}, "a noncharacter"),
        ({"messages": [{"role": "user", "content": "a"}], "tools": [TOOL]}, "does not use them"),
    ],
)
def test_a_bad_row_is_named_or_counted(row, message, tmp_path):
    folder = write_folder(tmp_path / "tok", MARKED["mistral"])
    rows = [*make_rows("mistral", 2), row, *make_rows("mistral", 1)]
    path = write_rows(tmp_path / "a.jsonl", rows)

    with pytest.raises(BadInputError, match=f"a.jsonl:3: .*{message}"):
        prepare(path, tmp_path / "d", folder)
    summary = prepare(path, tmp_path / "d", folder, on_bad_input="skip")

    assert (summary.documents_in, summary.documents_written) == (4, 3)
    assert list(summary.dropped.values()) == [1]
    assert summary.bad_input[0].startswith("a.jsonl:3: ")


def test_parquet_gives_what_json_lines_give(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = write_folder(tmp_path / "tok", MARKED["chatml"])
    rows = [{"id": 1, **row} for row in make_rows("llama", 30, specials=True)]
    prepare(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "a", folder)
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    prepare(tmp_path / "a.parquet", tmp_path / "b", folder)
    bad = [*rows, {"id": 2, "messages": [{"role": "user", "content": None}]}]
    parquet.write_table(pyarrow.Table.from_pylist(bad), tmp_path / "bad.parquet")

    for one, other in zip(documents(tmp_path / "a"), documents(tmp_path / "b"), strict=True):
        assert all(map(np.array_equal, one, other))
    with pytest.raises(BadInputError, match=r"bad.parquet, row 31: the content of message 1"):
        prepare(tmp_path / "bad.parquet", tmp_path / "c", folder)


def test_conversations_are_added_to_conversations_only(tmp_path):
    folder = write_folder(tmp_path / "tok", MARKED["chatml"])
    rows = make_rows("chatml", 40)
    first = write_rows(tmp_path / "a.jsonl", rows[:20])
    second = write_rows(tmp_path / "b.jsonl", rows[20:])
    prepare([first, second], tmp_path / "both", folder)
    prepare(first, tmp_path / "d", folder)
    tokenmill.prepare(second, tmp_path / "d", append=True, workers=1)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("text")
    tokenmill.prepare(tmp_path / "text" / "a.txt", tmp_path / "t", tokenizer="bytes", workers=1)

    for one, other in zip(documents(tmp_path / "d"), documents(tmp_path / "both"), strict=True):
        assert all(map(np.array_equal, one, other))
    assert verify(tmp_path / "d", full=True) == []
    with pytest.raises(SettingsMismatchError, match="has the columns none, and what is added"):
        tokenmill.prepare(
            second, tmp_path / "t", append=True, chat=Chat(chat_template="{{ messages }}")
        )
    with pytest.raises(SettingsMismatchError, match=r"train_on 'assistant'; .* 'last'"):
        prepare(first, tmp_path / "d", folder, append=True, chat={"train_on": "last"})


def test_units_workers_kinds_of_shards_and_repetition_change_nothing(tmp_path):
    folder = write_folder(tmp_path / "tok", STOCK["chatml"])
    rows = make_rows("chatml", 200, specials=True)
    path = write_rows(tmp_path / "a.jsonl", [*rows, *rows[:50]])
    options = {"dedup": "documents", "tokens_per_shard": 3000, "val_fraction": 0.1}
    prepare(path, tmp_path / "one", folder, **options)
    prepare(path, tmp_path / "two", folder, **options, workers=2, run=Run(unit_bytes=9000))
    prepare(path, tmp_path / "packed", folder, **options, compress="zstd:1")

    assert hashes_of_files(tmp_path / "one") == hashes_of_files(tmp_path / "two")
    for one, other in zip(documents(tmp_path / "one"), documents(tmp_path / "packed"), strict=True):
        assert all(map(np.array_equal, one, other))


def test_labels_are_the_tokens_after_targets_only(tmp_path):
    folder = write_folder(tmp_path / "tok", MARKED["llama"])
    prepare(write_rows(tmp_path / "a.jsonl", make_rows("llama", 50)), tmp_path / "d", folder)
    data = tokenmill.open(tmp_path / "d")
    loader = tokenmill.BatchLoader(data, batch_size=4, block_size=512, rows="documents")
    expected = {tuple(ids[1:][targets[1:]].tolist()) for ids, targets in documents(tmp_path / "d")}

    found = set()
    for batch in itertools.islice(loader, data.num_documents // 4):
        found |= {tuple(row[row >= 0].tolist()) for row in batch.labels}
    assert found <= expected
    assert len(found) > 20


def test_the_command_takes_the_flags_of_chat(tmp_path):
    folder = write_folder(tmp_path / "tok")
    (tmp_path / "own.jinja").write_text(MARKED["chatml"])
    path = write_rows(tmp_path / "a.jsonl", make_rows("chatml", 3))
    words = ["prepare", path, "-o", tmp_path / "d", "--tokenizer", folder, "--end_of_text", END]
    flags = ["--chat_template", tmp_path / "own.jinja", "--train_on", "last"]

    alone = CliRunner().invoke(command, list(map(str, [*words, *flags])))
    without = CliRunner().invoke(command, list(map(str, [*words, "--chat"])))
    done = CliRunner().invoke(command, list(map(str, [*words, "--chat", *flags])))

    assert "not --chat: add it" in alone.output
    assert "has no chat template" in str(without.exception)
    assert done.exit_code == 0, done.output
    settings = json.loads((tmp_path / "d" / "dataset_metadata.json").read_bytes())["settings"]
    assert settings["chat_template"] == MARKED["chatml"]
    assert settings["train_on"] == "last"

    words[3] = tmp_path / "by_jobs"
    for task in (["plan", *words[1:], "--chat", *flags], ["finish", words[3]]):
        done = CliRunner().invoke(command, list(map(str, ["prepare", *task])))
        assert done.exit_code == 0, done.output
    assert hashes_of_files(tmp_path / "by_jobs") == hashes_of_files(tmp_path / "d")
    guess = CliRunner().invoke(command, list(map(str, [*words, "--chat", *flags, "--estimate"])))
    assert "conversations cannot be estimated" in str(guess.exception)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clean": True}, "clean is True, but the chat template writes the text"),
        ({"chat": {"train_on": "user"}}, "train_on is 'user'"),
        ({"chat": {"chat_template": "{{ messages }}{{ eos_token }}{{ a_token }}"}}, "uses a_token"),
        ({"chat": {"chat_template": "{% for %}"}}, "the chat template, line 1: "),
        ({"chat": {"chat_template": "{{ 1 }}"}}, "does not use `messages`"),
        ({"chat": {"chat_template": "tool"}}, "no chat template 'tool': .* did you mean 'tools'"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(options, message, tmp_path):
    folder = write_folder(tmp_path / "tok")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tools.jinja").write_text(MARKED["chatml"])
    path = write_rows(tmp_path / "a.jsonl", make_rows("chatml", 3))

    with pytest.raises((ValueError, FormatError), match=message):
        prepare(path, tmp_path / "d", folder, **options)
    assert not (tmp_path / "d" / "dataset_metadata.json").exists()


def test_fine_tuning_counts_the_loss_of_answers_only(tmp_path):
    """A loss over rows is that of a plain loop over the conversations, with transformers' mask."""
    folder = write_folder(tmp_path / "tok", MARKED["llama"])
    rows = make_rows("llama", 24, seed=5)
    prepare(write_rows(tmp_path / "a.jsonl", rows), tmp_path / "d", folder)
    weights = np.random.default_rng(0).random(4096)  # a "loss" for each pair of neighbouring ids
    data = tokenmill.open(tmp_path / "d")
    loader = tokenmill.BatchLoader(data, batch_size=1, block_size=1024, rows="documents")

    counted = 0.0
    for batch in itertools.islice(loader, len(rows)):
        inputs, labels = batch.tokens[:, :-1].ravel(), batch.labels.ravel()
        is_target = labels >= 0
        counted += weights[(31 * inputs + 7 * labels)[is_target] % 4096].sum()
    plain = 0.0
    for row in rows:
        ids, mask = map(np.array, theirs(folder, MARKED["llama"], row))
        is_target = mask[1:] == 1
        plain += weights[(31 * ids[:-1] + 7 * ids[1:])[is_target] % 4096].sum()
    assert counted == pytest.approx(plain)


def test_a_tokenizer_of_ranks_takes_a_template(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", make_rows("chatml", 3))
    chat = Chat(chat_template=MARKED["chatml"])

    tokenmill.prepare(path, tmp_path / "d", tokenizer="gpt2", chat=chat, val_fraction=0.0)

    assert len(list(documents(tmp_path / "d"))) == 3
