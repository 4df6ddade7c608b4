"""Small chat templates of the styles that exist, a tokenizer with their tokens, and conversations.

Each style is there twice: with `{% generation %}`, and as it is published, without.
"""

import json
import random

SPECIALS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|header|>", "<|end_header|>", "<|eot|>"),
    *("<turn>", "<end_turn>", "<s>", "</s>", "[INST]", "[/INST]"),
)
PROMPT = "{%- if add_generation_prompt %}{{- '@' }}{%- endif %}"
CHATML = """
{%- if tools %}
    {{- '<|im_start|>tools\\n' }}
    {%- for tool in tools %}{{- tool | tojson + '\\n' }}{%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {% generation %}
        {{- message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<call>' + (call.function | tojson) + '</call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- endgeneration %}
{%- endfor %}""" + PROMPT.replace("@", "<|im_start|>assistant\\n")
LLAMA = """{{- bos_token }}
{%- for message in messages %}
    {{- '<|header|>' + message['role'] + '<|end_header|>\\n\\n' }}
    {% generation %}{{- message['content'] | trim + '<|eot|>' }}{%- endgeneration %}
{%- endfor %}""" + PROMPT.replace("@", "<|header|>assistant<|end_header|>\\n\\n")
GEMMA = """{{- bos_token }}
{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('roles must alternate') }}
    {%- endif %}
    {%- set role = 'model' if message.role == 'assistant' else message.role %}
    {{- '<turn>' + role + '\\n' }}
    {% generation %}{{- message.content | trim + '<end_turn>\\n' }}{%- endgeneration %}
{%- endfor %}""" + PROMPT.replace("@", "<turn>model\\n")
MISTRAL = """{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + message.content + ' [/INST]' }}
    {%- elif message.role == 'assistant' %}
        {% generation %}{{- ' ' + message.content + eos_token }}{%- endgeneration %}
    {%- else %}
        {{- raise_exception('there is no role ' + message.role) }}
    {%- endif %}
{%- endfor %}"""


def _for_assistants(template):
    """A block that is marked where the assistant writes it, and not elsewhere."""
    before, _, rest = template.partition("{% generation %}")
    block, _, after = rest.partition("{%- endgeneration %}")
    marked = "{% generation %}" + block + "{%- endgeneration %}"
    condition = "{%- if message.role == 'assistant' %}"
    return f"{before}{condition}{marked}{{%- else %}}{block}{{%- endif %}}{after}"


MARKED = {
    "chatml": _for_assistants(CHATML),
    "llama": _for_assistants(LLAMA),
    "gemma": _for_assistants(GEMMA),
    "mistral": MISTRAL,
}
STOCK = {
    name: text.replace("{% generation %}", "{% if true %}").replace("endgeneration", "endif")
    for name, text in MARKED.items()
}
HAS_SYSTEM = ("chatml", "llama")
WORDS = [
    *["the", "mill", "grinds", "isn't", "1,234", "café", "水车", "🎉", "<", "<|", "[", ">", "two"],
    "\n",
    " ",
    "\t",
]
TOOL = {"type": "function", "function": {"name": "grind", "parameters": {"kg": "number"}}}


def byte_letters():
    """How a byte-level vocabulary spells each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {b: chr(256 + n) for n, b in enumerate(other)}


def tokenizer_json(**changes):
    """Single bytes, some merges, and special tokens of all styles."""
    step = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": True,
    }
    letters = byte_letters()
    vocab = {letter: byte for byte, letter in letters.items()}
    merges = []
    for pair in ("th", "he", "mi", "ll", "\u0120t", "\u0120m", "an", "is", "in", "\u0120\u0120"):
        merges.append([pair[0], pair[1]])
        vocab[pair] = len(vocab)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [
        {"id": len(vocab) + n, "content": text, "special": True, **flags}
        for n, text in enumerate(SPECIALS)
    ]
    model = {"type": "BPE", "vocab": vocab, "merges": merges}
    plain = {"version": "1.0", "normalizer": None, "pre_tokenizer": step, "decoder": step}
    return {**plain, "post_processor": None, "added_tokens": added, "model": model, **changes}


def write_folder(folder, template=None, **changes):
    """A folder as it is published: tokenizer.json, tokenizer_config.json with its template."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(**changes)), "utf-8")
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": None}
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def make_text(rng, specials):
    words = rng.choices(WORDS, k=rng.choice((0, 1, 2, 5, 20)))
    if specials and rng.random() < 0.3:
        words.insert(rng.randrange(len(words) + 1), rng.choice(SPECIALS))
    return " ".join(words)


def make_conversation(rng, style, *, specials=False):
    """A row: empty turns, a system turn and tools where the style has them."""
    messages = []
    row = {"messages": messages}
    if style in HAS_SYSTEM and rng.random() < 0.5:
        messages.append({"role": "system", "content": make_text(rng, specials)})
    for _ in range(rng.choice((1, 1, 2, 4))):
        messages.append({"role": "user", "content": make_text(rng, specials)})
        if style == "chatml" and rng.random() < 0.3:
            call = {"type": "function", "function": {"name": "grind", "arguments": {"kg": 3}}}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "content": make_text(rng, specials)})
            row["tools"] = [TOOL]
        messages.append({"role": "assistant", "content": make_text(rng, specials)})
    return row


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def make_rows(style, count, *, seed=0, specials=False):
    rng = random.Random(seed)
    return [make_conversation(rng, style, specials=specials) for _ in range(count)]
