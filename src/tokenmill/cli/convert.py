"""`tokenmill convert`: a dataset of any format as one of another."""

from typing import Any

import click

from tokenmill.base.human import plural
from tokenmill.cli.flags import given, open_options, switch, value
from tokenmill.cli.outcome import Outcome, OutcomeCommand


@click.command(cls=OutcomeCommand)
@click.argument("src")
@click.argument("dst")
@value("--to", "FORMAT", "Format to write")
@value("--compress", "KIND", "Compress the shards (of tokenmill): zstd or zstd:LEVEL, 1 to 22")
@switch("--decompress", "Write plain shards (of tokenmill)")
@value("--to_dtype", "TYPE", "Type of the written ids  [default: by vocabulary]")
@value("--tokens_per_shard", "N", "Tokens in each written shard", type=int)
@switch("--add_end_of_text", "Write the end-of-text id where a document lacks it")
@switch("--allow_lost_documents", "Convert even if some ends of documents are lost")
@switch("--overwrite", "Replace DST, once the new data is verified")
@open_options
def command(src: str, dst: str, **options: Any) -> Outcome:
    """Copy the token data at SRC to the new folder DST in another project's format.

    FORMAT is one of: tokenmill, llmc, nanogpt, npy, megatron, datatrove, dolma, mds, litdata.
    SRC may be of any of them, and of any format that `tokenmill inspect` reads. What is written
    is read back and compared before DST appears; what would be lost is refused. With --compress
    and --decompress, a dataset of tokenmill stays the same but for its files, and --to may be left
    out.

    \b
    Examples:
        tokenmill convert data/corpus data/megatron --to megatron
        tokenmill convert 'shards/*.bin' data/ours --to tokenmill
        tokenmill convert train.npy data/ours --to tokenmill --tokenizer gpt2
        tokenmill convert data/corpus data/small --compress zstd:9
    """
    from tokenmill.conversion.convert import convert

    done = convert(src, dst, **given(options))
    splits = {name: {"tokens": n, "files": files} for name, (n, files) in done.splits.items()}
    lines = [
        f"  {name:<6} {split['tokens']:,} tokens in {plural(split['files'], 'file')}, {done.dtype}"
        for name, split in splits.items()
    ]
    return Outcome(
        {"path": str(done.path), "format": done.format, "dtype": done.dtype, "splits": splits},
        notes=[*lines, f"Wrote {done.path} ({done.format})"],
    )
