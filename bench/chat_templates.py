"""Are ids and masks those of transformers? All training templates of a folder, at random.

    pip download trl==1.16 --no-deps && unzip trl-*.whl 'trl/chat_templates/*'
    python bench/chat_templates.py trl/chat_templates                        # 10,000 of each
    python bench/chat_templates.py trl/chat_templates --conversations 300 --only llama3

For each `NAME_training.jinja`, random conversations (empty turns, tools where it has them,
reasoning, contents of null; in every other one special strings inside contents) are compared with
`apply_chat_template(return_assistant_tokens_mask=True)`. There, a special string inside a content
is hidden behind a private character before it is rendered, and is text when pieces between special
tokens are encoded. `NAME.jinja`, the published twin without marks, must have the same mask where
its text is the same, or be refused. Counts go to bench/results/chat.json, under `templates`.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.remove(str(HERE))  # tokenizers.py there is not the package
sys.path.append(str(HERE.parent / "tests"))

from chat_data import TOOL, WORDS, tokenizer_json  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402

from tokenmill.preparation.planning.settings import Settings  # noqa: E402
from tokenmill.preparation.stages.conversations import (  # noqa: E402
    ConversationEncoder,
    Conversations,
    reader_of,
)
from tokenmill.text.reading.bad_input import NotReadableError  # noqa: E402
from tokenmill.tokens.chat_template import OFF, ON  # noqa: E402
from tokenmill.tokens.load_tokenizer import load  # noqa: E402

RESULTS = HERE / "results" / "chat.json"
SPECIAL = re.compile(r"<[|｜/]?[A-Za-z][A-Za-z_/▁0-9.]*[|｜]?>|\[/?[A-Z_]+\]")
TODAY = "2026-01-31"
NAMED = {"bos_token": "<s>", "eos_token": "</s>"}
IN_PARTS = ("llava_next", "smolvlm", "idefics3")  # their contents are lists of parts
TAKES_PARTS = ("qwen2_5_vl", "qwen3_vl", "gemma3", "diffusion_gemma")
HIDDEN = 0xE000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--twins", type=int, default=1500, help="of them, also without marks")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for path in sorted(options.folder.glob("*_training.jinja")):
        name = path.name.removesuffix("_training.jinja")
        if options.only in ("", name):
            began = time.perf_counter()
            found[name] = compare(path, options.conversations, options.twins)
            print(f"{name}, {time.perf_counter() - began:.0f} s: {found[name]}", flush=True)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results["templates"] = {**results.get("templates", {}), **found}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def compare(path: Path, number: int, num_twins: int) -> dict[str, int]:
    """Count how conversations compare."""
    name = path.name.removesuffix("_training.jinja")
    template = path.read_text()
    stock = path.with_name(f"{name}.jinja").read_text()
    named = {*NAMED.values(), "<|endoftext|>", *SPECIAL.findall(template + stock)}
    tally: Counter[str] = Counter()
    chosen = random.Random(name)
    with tempfile.TemporaryDirectory() as folder:
        specials = write_tokenizer(Path(folder), sorted(named))
        tokenizer = load(folder, end_of_text="<|endoftext|>")
        oracle = Oracle(Path(folder), template, specials)
        variables = json.dumps({**NAMED, "strftime_now": TODAY})
        ours, twin = (
            reader_of(
                Settings(chat=True, chat_template=text, template_variables=variables), tokenizer
            )
            for text in (template, stock)
        )
        encoder = ConversationEncoder(tokenizer)
        for k in range(number):
            in_parts = name in IN_PARTS or (name in TAKES_PARTS and k % 3 == 0)
            row = conversation(chosen, specials if k % 2 else [], k % 3 == 1, in_parts)
            if "tools" not in template:
                row.pop("tools", None)
            theirs, text = oracle.ids_and_mask(row), text_of(ours, row)
            tally[verdict(encoder, theirs, text)] += 1
            if text is not None and k < num_twins:
                tally[f"twin: {verdict_of_twin(encoder, text, text_of(twin, row))}"] += 1
    return dict(sorted(tally.items()))


def verdict(encoder: ConversationEncoder, theirs: Any, text: bytes | None) -> str:
    if theirs is None or text is None:
        both = theirs is None and text is None
        return "refused by both" if both else "refused by one"
    ids, _, targets = encoder.encode([text])
    if ids.tolist() != theirs[0]:
        return "other ids"
    return "equal" if targets[:-1].tolist() == theirs[1] else "another mask"


def verdict_of_twin(encoder: ConversationEncoder, text: bytes, other: bytes | None) -> str:
    if other is None:
        return "refused"
    plain = [each.replace(ON.encode(), b"").replace(OFF.encode(), b"") for each in (text, other)]
    if plain[0] != plain[1]:
        return "another text"
    masks = [encoder.encode([each])[2] for each in (text, other)]
    return "equal" if np.array_equal(*masks) else "another mask"


def text_of(reader: Conversations, row: Any) -> bytes | None:
    try:
        return reader.text_of(row)
    except NotReadableError:
        return None


def write_tokenizer(folder: Path, specials: list[str]) -> list[str]:
    """Write a tokenizer with these special tokens, and one without any."""
    tree = tokenizer_json()
    first = len(tree["model"]["vocab"])
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    (folder / "plain.json").write_text(json.dumps({**tree, "added_tokens": []}))
    tree["added_tokens"] = [
        {"id": first + n, "content": text, "special": True, **flags}
        for n, text in enumerate(specials)
    ]
    (folder / "tokenizer.json").write_text(json.dumps(tree))
    return specials


def conversation(chosen: random.Random, specials: list[str], tools: bool, in_parts: bool) -> Any:
    def content(is_empty: bool = False) -> Any:
        words = [] if is_empty else chosen.choices(WORDS, k=chosen.choice((0, 1, 2, 5, 20)))
        if specials and not is_empty and chosen.random() < 0.4:
            words.insert(chosen.randrange(len(words) + 1), chosen.choice(specials))
        text = chosen.choice(("", " ") if specials else (" ",)).join(words)
        return [{"type": "text", "text": text}] if in_parts else text

    messages = []
    row: dict[str, Any] = {"messages": messages}
    if chosen.random() < 0.4:
        messages.append({"role": "system", "content": content()})
    for _ in range(chosen.choice((1, 1, 2, 4))):
        messages.append({"role": "user", "content": content()})
        if tools and chosen.random() < 0.4:
            function = {"name": "grind", "arguments": {"kg": chosen.randrange(9)}}
            calls = [{"type": "function", "function": function}]
            said = None if chosen.random() < 0.3 else content(chosen.random() < 0.5)
            messages.append({"role": "assistant", "content": said, "tool_calls": calls})
            messages.append({"role": "tool", "name": "grind", "content": content()})
        if tools and chosen.random() < 0.5:
            row["tools"] = [TOOL]
        messages.append({"role": "assistant", "content": content()})
        if chosen.random() < 0.2 and not in_parts:
            messages[-1]["reasoning_content"] = content()
    if chosen.random() < 0.05:
        messages.pop()
    return row


class Oracle:
    """Ids and masks by transformers, but that special strings inside contents stay text."""

    def __init__(self, folder: Path, template: str, specials: list[str]) -> None:
        file = str(folder / "tokenizer.json")
        self._tokenizer = PreTrainedTokenizerFast(tokenizer_file=file, **NAMED)
        self._plain = Tokenizer.from_file(str(folder / "plain.json"))
        self._template = template
        self._specials = specials
        longest = sorted(specials, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest)))
        compiled = chat_template_utils._compile_jinja_template(template)
        compiled.globals["strftime_now"] = lambda _: TODAY

    def ids_and_mask(self, row: Any) -> tuple[list[int], list[bool]] | None:
        """Return ids and mask; None if the template refuses the conversation."""
        try:
            if self._pattern.search(json.dumps(row, ensure_ascii=False)):
                return self._of_pieces(row)
            out = self._tokenizer.apply_chat_template(
                row["messages"],
                tools=row.get("tools"),
                chat_template=self._template,
                return_assistant_tokens_mask=True,
                return_dict=True,
            )
        except Exception:  # of Jinja, or of the template's Python
            return None
        mask = list(map(bool, out["assistant_masks"]))
        spans = out.encodings[0].offsets
        for i in range(1, len(mask)):  # it leaves out all but one token of an answer's last letter
            mask[i] |= spans[i] == spans[i - 1] and spans[i][1] - spans[i][0] == 1 and mask[i - 1]
        return out["input_ids"], mask

    def _of_pieces(self, row: Any) -> tuple[list[int], list[bool]]:
        messages = [
            {name: value if name == "role" else self._hidden(value) for name, value in each.items()}
            for each in row["messages"]
        ]
        messages = [{k: v for k, v in each.items() if v is not None} for each in messages]
        (text,), (answers,) = chat_template_utils.render_jinja_template(
            [messages],
            tools=self._hidden(row.get("tools")),
            chat_template=self._template,
            return_assistant_tokens_mask=True,
            **NAMED,
        )
        inside = np.zeros(len(text) + 1, bool)
        for start, stop in answers:
            inside[start:stop] = True
        ids: list[int] = []
        mask: list[bool] = []
        done = 0
        for special in [*self._pattern.finditer(text), None]:
            stop = special.start() if special else len(text)
            for number, places in self._encoded(text, done, stop):
                ids.append(number)
                mask.append(bool(inside[places].any()))
            if special:
                ids.append(self._tokenizer.convert_tokens_to_ids(special[0]))
                mask.append(bool(inside[special.start() : special.end()].any()))
                done = special.end()
        return ids, mask

    def _encoded(self, text: str, start: int, stop: int) -> Iterator[tuple[int, list[int]]]:
        """Yield ids of a piece without special tokens, and the places of each in the text."""
        shown: list[str] = []
        places: list[int] = []
        for place in range(start, stop):
            number = ord(text[place]) - HIDDEN
            letters = self._specials[number] if 0 <= number < len(self._specials) else text[place]
            shown.append(letters)
            places += [place] * len(letters)
        encoded = self._plain.encode("".join(shown), add_special_tokens=False)
        for number, (first, last) in zip(encoded.ids, encoded.offsets, strict=True):
            yield number, places[first : max(last, first + 1)]

    def _hidden(self, value: Any) -> Any:
        """Return a value with a private character for each special string in it."""
        if isinstance(value, str):
            return self._pattern.sub(lambda m: chr(HIDDEN + self._specials.index(m[0])), value)
        if isinstance(value, dict):
            return {name: self._hidden(inner) for name, inner in value.items()}
        return [self._hidden(inner) for inner in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
