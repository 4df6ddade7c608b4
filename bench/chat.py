"""How fast do conversations become ids and masks? Against transformers, in one run, on one core.

    python bench/chat.py                      # 4,000 conversations, 4 MB
    python bench/chat.py --template FILE      # with another template that marks answers

A conversation is rendered and encoded with its mask: here by the two steps of `prepare`, from lines
of JSON, and by the whole command; there by `apply_chat_template(return_assistant_tokens_mask=True)`
of a fast tokenizer with the same vocabulary, whose parsing of JSON is not counted. Bytes are those
of the JSON. `stock` is the same template without marks, whose answers are proved. Each is timed in
turns by the time of the processor, and the best turn counts. Results go to bench/results/chat.json.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import orjson
from corpus import source_code
from measure import machine

import tokenmill
from tokenmill.preparation import Chat
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.stages.conversations import ConversationEncoder, reader_of
from tokenmill.tokens.load_tokenizer import load
from tokenmill.tokens.merges import byte_level_tree
from tokenmill.tokens.tokenizer_json import byte_letters

HERE = Path(__file__).parent
sys.path.remove(str(HERE))  # tokenizers.py there is not the package
TURNS = 5
CHUNK = 800  # conversations, about a MB
CHATML = """\
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' }}
        {%- generation %}{{- message.content + '<|im_end|>\\n' }}{% endgeneration %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--conversations", type=int, default=4000)
    parser.add_argument("--template", type=Path)
    options = parser.parse_args()
    template = options.template.read_text() if options.template else CHATML
    stock = template.replace("{%- generation %}", "").replace("{% endgeneration %}", "")
    results: dict[str, object] = {"machine": machine(), "conversations": options.conversations}
    with tempfile.TemporaryDirectory() as name:
        folder = write_tokenizer(Path(name))
        lines = list(conversations(options.conversations))
        size = sum(map(len, lines)) / 1e6
        rates = {"transformers": size / best(theirs(folder, template, lines), 2)}
        rates["jinja alone"] = size / best(jinja_alone(template, lines), TURNS)
        rates["marked"] = size / best(ours(folder, template, lines), TURNS)
        rates["stock"] = size / best(ours(folder, stock, lines), TURNS)
        rates["prepare"] = size / best(whole_command(folder, template, lines), 2)
    for case, rate in rates.items():
        ratio = rate / rates["transformers"]
        print(f"{case:14} {rate:6.1f} MB/s a core, {ratio:5.1f} x transformers")
        results[case] = {"MB/s": round(rate, 2), "of transformers": round(ratio, 2)}
    path = HERE / "results" / "chat.json"
    if path.exists() and "templates" in (known := json.loads(path.read_text())):
        results["templates"] = known["templates"]  # of chat_templates.py
    path.write_text(json.dumps(results, indent=1) + "\n")


def best(run: Callable[[], object], turns: int) -> float:
    """Seconds of the processor that the best of some turns took, after one to get warm."""
    run()
    seconds = []
    for _ in range(turns):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return min(seconds)


def conversations(count: int):
    """Lines of JSON: one to three turns of source code, with a system turn here and there."""
    text = b"\n".join(source_code(8)).decode()
    chance = random.Random(0)

    def content(length: int) -> str:
        start = chance.randrange(len(text) - length)
        return text[start : start + length]

    for _ in range(count):
        messages = [{"role": "system", "content": content(80)}] * (chance.random() < 0.3)
        for _ in range(chance.choice((1, 1, 2, 3))):
            messages.append({"role": "user", "content": content(chance.randrange(20, 300))})
            messages.append({"role": "assistant", "content": content(chance.randrange(50, 900))})
        yield orjson.dumps({"messages": messages})


def write_tokenizer(folder: Path) -> Path:
    """GPT-2's vocabulary as a tokenizer.json, by transformers, with the tokens of ChatML."""
    tokenizer = tokenmill.load_tokenizer("gpt2")
    ranks = {bytes(data): number for number, data in tokenizer._vocabulary.spellings.items()}
    ranks.pop(b"<|endoftext|>", None)
    letter = {byte: text for text, byte in byte_letters().items()}

    def spelt(data: bytes) -> str:
        return "".join(map(letter.__getitem__, data))

    merges = [list(map(spelt, parts_of(data, ranks))) for data in ranks if len(data) > 1]
    vocab = {spelt(data): number for data, number in ranks.items()}
    specials = {name: 50256 + number for number, name in enumerate(SPECIALS)}
    (folder / "tokenizer.json").write_text(json.dumps(byte_level_tree(vocab, merges, specials)))
    return folder


def parts_of(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """The two tokens that are merged into one."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        pairs = [ranks.get(a + b, 1 << 30) for a, b in pairwise(parts)]
        at = pairs.index(min(pairs))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def theirs(folder: Path, template: str, lines: list[bytes]) -> Callable[[], object]:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    chats = [orjson.loads(line)["messages"] for line in lines]
    options = {"chat_template": template, "return_dict": True, "return_assistant_tokens_mask": True}
    return lambda: [tokenizer.apply_chat_template(chat, **options) for chat in chats]


def jinja_alone(template: str, lines: list[bytes]) -> Callable[[], object]:
    """Jinja's own sandbox on parsed conversations, without the marks."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    text = template.replace("{%- generation %}", "").replace("{% endgeneration %}", "")
    compiled = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(text)
    chats = [orjson.loads(line) for line in lines]
    return lambda: [compiled.render(chat, add_generation_prompt=False) for chat in chats]


def ours(folder: Path, template: str, lines: list[bytes]) -> Callable[[], object]:
    settings = Settings(chat=True, chat_template=template, template_variables="{}")
    tokenizer = load(folder, end_of_text="<|endoftext|>")
    reader = reader_of(settings, tokenizer)
    encoder = ConversationEncoder(tokenizer)

    def run() -> None:
        for start in range(0, len(lines), CHUNK):
            rows = map(orjson.loads, lines[start : start + CHUNK])
            encoder.encode([reader.text_of(row) for row in rows])

    return run


def whole_command(folder: Path, template: str, lines: list[bytes]) -> Callable[[], object]:
    path = folder / "chats.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")

    def run() -> None:
        chat = Chat(chat_template=template)
        tokenmill.prepare(
            path, folder / "out", tokenizer=folder, end_of_text="<|endoftext|>", chat=chat,
            workers=1, overwrite=True,
        )  # fmt: skip
        shutil.rmtree(folder / "out")

    return run


if __name__ == "__main__":
    main()
