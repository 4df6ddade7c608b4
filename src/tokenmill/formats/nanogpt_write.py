"""Write raw `.bin` files as nanoGPT reads them: `train.bin`, `val.bin`, ids and nothing else.

What the files cannot say goes into `meta.json` beside them: dtype, vocabulary, end-of-text id.
nanoGPT does not read it; tokenmill does.
"""

from pathlib import Path

import orjson

from tokenmill.formats.engine.writing import Rolling, Target, write_file

DTYPES = ("uint16", "uint32", "uint8", "int32", "int64")
TOKENS_PER_SHARD = MAX_TOKENS_PER_SHARD = 2**62


class NanogptWriter(Rolling):
    """One split as one file."""

    whole_documents = False

    def path(self, number: int) -> Path:
        """Named as nanoGPT names them."""
        return self.folder / f"{self.target.split or 'train'}.bin"


def open_writer(folder: Path, target: Target) -> NanogptWriter:
    """A writer of one split; the first also writes meta.json."""
    meta: dict[str, object] = {"dtype": target.dtype.name}
    if target.vocab_size is not None:
        meta["vocab_size"] = target.vocab_size
    if target.end_of_text_id is not None:
        meta["end_of_text_id"] = target.end_of_text_id
    if not (folder / "meta.json").exists():
        write_file(folder / "meta.json", orjson.dumps(meta, option=orjson.OPT_APPEND_NEWLINE))
    return NanogptWriter(folder, target)
