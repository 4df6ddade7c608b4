"""One hash that tells two tokenizers apart: of the vocabulary, and of what it does to a text.

A hash of the file alone would miss that the same file means other ids to another release of a
library (it has happened: transformers 4 and 5); a hash of ids alone would miss tokens that the
probe does not use. Equal vocabularies from files of different kinds give equal fingerprints:
gpt2 from `gpt2.tiktoken` and from a `tokenizer.json` is one tokenizer.
"""

from collections.abc import Mapping

import numpy as np
import xxhash

from tokenmill.tokens.tokenizer import Ids

# Frozen: a change here makes every stored dataset look like one of another tokenizer.
PROBE = (
    "The mill grinds 1,234,567 words a day; isn't that MORE than we'd need?\n\n"
    "def grind(grain: list[str]) -> int:\n\treturn sum(len(g) for g in grain)  # 3.14159e-10\n"
    "    {'a': [1, 22, 333, 4444]}\r\n\r\n   trailing   spaces   \n"
    "We'LL see; THEY'VE gone; camelCaseWords snake_case_words; https://example.org/?q=a%20b\n"
    "na\u00efve caf\u00e9 e\u0301 \u00df \u0130stanbul \u03a9\u03bc\u03ad\u03b3\u03b1 "
    "\u041c\u0435\u043b\u044c\u043d\u0438\u0446\u0430 \u05d8\u05d7\u05e0\u05d4 "
    "\u0645\u0637\u062d\u0646\u0629 \u091a\u0915\u094d\u0915\u0940\n"
    "\u6c34\u8f66\u78e8\u574a\uff0c\u4e00\u4e5d\u4e8c\u4e09\u5e74\u3002\u6c34\u8eca\u3067"
    "\u7c89\u3092\u3072\u304f\u3002\ubb3c\ub808\ubc29\uc544\n"
    "\U0001f33e\U0001f3fd\u200d\U0001f468 \u00a0\u2003\u3000 <|endoftext|></s><s>\n"
).encode()


def fingerprint(vocabulary: Mapping[int, bytes], probe_ids: Ids) -> str:
    """Hash id -> spelling, in order of the ids, and the ids of the probe text."""
    ids = sorted(vocabulary)
    spellings = [vocabulary[i] for i in ids]
    digest = xxhash.xxh3_128()
    digest.update(np.array([len(ids), len(probe_ids)], "<u8").tobytes())
    digest.update(np.array(ids, "<u8").tobytes())
    digest.update(np.array([len(s) for s in spellings], "<u8").tobytes())
    digest.update(b"".join(spellings))
    digest.update(probe_ids.astype("<u4").tobytes())
    return digest.hexdigest()
