"""What an address looks like: `s3://bucket/key`."""

import re

SCHEME = "s3://"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


def is_remote(path: object) -> bool:
    """Whether this is an address rather than a path."""
    return isinstance(path, str) and path.startswith(SCHEME)


def check_address(address: str) -> str:
    """The address without a slash at its end, if it is one; else ValueError."""
    split(address)
    return address.rstrip("/")


def split(address: str) -> tuple[str, str]:
    """Bucket and key."""
    bucket, _, key = address.removeprefix(SCHEME).partition("/")
    if not _BUCKET.fullmatch(bucket):
        # What is there may be a key with its secret: it is not repeated.
        raise ValueError(
            "the address does not begin with s3:// and the name of a bucket (letters, digits, "
            "'.', '_', '-'); credentials belong in the environment, not in the address"
        )
    return bucket, key.rstrip("/")


def join(address: str, name: str) -> str:
    """The address of a file below another address."""
    return f"{address.rstrip('/')}/{name}"
