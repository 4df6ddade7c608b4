"""`tokenmill convert`: a dataset of any format as one of another."""

import sys
from typing import Any

import click

from tokenmill.base.human import plural
from tokenmill.cli.dataset_options import dataset_options, given


@click.command()
@click.argument("src")
@click.argument("dst")
@click.option("--to", required=True, metavar="FORMAT", help="Format to write")
@click.option(
    "--to-dtype", metavar="TYPE", help="Type of the written ids  [default: by vocabulary]"
)
@click.option("--tokens-per-shard", type=int, metavar="N", help="Tokens in each written shard")
@click.option(
    "--add-end-of-text", is_flag=True, help="Write the end-of-text id where a document lacks it"
)
@click.option(
    "--allow-lost-documents", is_flag=True, help="Go on where some ends of documents are lost"
)
@click.option("--overwrite", is_flag=True, help="Replace DST, once the new data is verified")
@dataset_options
def command(src: str, dst: str, to: str, **options: Any) -> None:
    """Copy the token data at SRC to the new folder DST in another project's format.

    FORMAT is one of: tokenmill, llmc, nanogpt, npy, megatron, datatrove, dolma, mds, litdata.
    SRC may be of any of them, and of any format that `tokenmill inspect` reads. What is written
    is read back and compared before DST appears; what would be lost is refused.

    \b
    Examples:
        tokenmill convert data/corpus data/megatron --to megatron
        tokenmill convert 'shards/*.bin' data/ours --to tokenmill
        tokenmill convert train.npy data/ours --to tokenmill --tokenizer gpt2
    """
    from tokenmill.conversion.convert import convert

    done = convert(src, dst, to=to, **given(**options))
    for split, (tokens, shards) in done.splits.items():
        print(
            f"  {split:<6} {tokens:,} tokens in {plural(shards, 'file')}, {done.dtype}",
            file=sys.stderr,
        )
    print(f"Wrote {done.path} ({done.format})", file=sys.stderr)
