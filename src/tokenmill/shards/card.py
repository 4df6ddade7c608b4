"""The README.md of a dataset."""

from tokenmill.shards.manifest import Manifest


def dataset_card(manifest: Manifest, command: str) -> str:
    """A first version: the command that makes it again."""
    return f"# Token dataset\n\n    {command}\n"
