"""A tokenizer.json of single bytes with special tokens of its own, made in a moment."""

import json

SPECIAL = ("<|end_of_text|>", "<s>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "[MASK]")
END, BEGIN, PREFIX, MIDDLE, SUFFIX, MASK = range(256, 256 + len(SPECIAL))

BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}


def byte_letters():
    """How a byte-level vocabulary spells each byte: printable ones as they are."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {b: chr(256 + n) for n, b in enumerate(other)}


def write_tokenizer(path):
    """Byte b is id b; the special tokens follow, as END, BEGIN and so on."""
    vocab = {letter: byte for byte, letter in byte_letters().items()}
    added = [
        {
            "id": 256 + number,
            "content": text,
            "special": True,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for number, text in enumerate(SPECIAL)
    ]
    tree = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }
    path.write_text(json.dumps(tree), "utf-8")
    return path
