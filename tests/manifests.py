"""Manifests written plainly, by the specification and not by the product."""

import json
from pathlib import Path

import xxhash

NAME = "dataset_metadata.json"


def signed(tree: dict) -> bytes:
    """These fields as the bytes of a manifest, with the hash of the others as the last field."""
    content = json.dumps({k: v for k, v in tree.items() if k != "xxh3_128"}, indent=2) + "\n"
    digest = xxhash.xxh3_128_hexdigest(content.encode())
    return content.removesuffix("\n}\n").encode() + f',\n  "xxh3_128": "{digest}"\n}}\n'.encode()


def rewrite(folder: Path, change) -> None:
    """Change the fields of the manifest of a dataset, and its hash with them."""
    path = Path(folder) / NAME
    tree = json.loads(path.read_bytes())
    change(tree)
    path.write_bytes(signed(tree))


def write_index(path: Path, tree: dict) -> None:
    """Write the index of a dataset of any format; a manifest with its hash."""
    path.write_bytes(signed(tree) if path.name == NAME else json.dumps(tree).encode())
