"""What an address looks like: `s3://bucket/key`, `gs://bucket/key`, `az://container/key`, https;
and `hf://datasets/OWNER/NAME@REVISION/PATH`, which only inputs of a preparation have."""

import re
from typing import NamedTuple

WRITABLE = ("s3", "gs", "az")
SCHEMES = (*WRITABLE, "https", "http")
HUB = "hf://"
SHOWN = "s3://, gs://, az:// or https://"
_SCHEME = re.compile(rf"({'|'.join(SCHEMES)})://")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$-]{1,254}")
_HOST = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


class Address(NamedTuple):
    """Where an object is."""

    scheme: str
    bucket: str
    """The name of a bucket or container; of a host with its port for https."""
    key: str

    @property
    def root(self) -> str:
        """The address of the bucket."""
        return f"{self.scheme}://{self.bucket}"


def is_remote(path: object) -> bool:
    """Whether this is an address rather than a path."""
    return isinstance(path, str) and _SCHEME.match(path) is not None


def is_hub(path: object) -> bool:
    """Return True for the address of files on the Hugging Face hub."""
    return isinstance(path, str) and path.startswith(HUB)


def is_address(path: object) -> bool:
    """Return True for an address of either kind: what is not, is a path."""
    return is_remote(path) or is_hub(path)


def check_address(address: str) -> str:
    """The address without a slash at its end, if it is one; else ValueError."""
    split(address)
    return address.rstrip("/")


def split(address: str) -> Address:
    """Scheme, bucket and key."""
    found = _SCHEME.match(address)
    scheme, rest = (found[1], address[found.end() :]) if found else ("", address)
    bucket, _, key = rest.partition("/")
    form = _HOST if scheme.startswith("http") else _BUCKET
    # What is there may be a key with its secret, or a signature: it is not repeated.
    if not found or not form.fullmatch(bucket):
        raise ValueError(
            f"the address does not begin with {SHOWN} and the name of a bucket or host (letters, "
            "digits, '.', '_', '-'); credentials belong in the environment, not in the address"
        )
    if scheme.startswith("http") and ("?" in key or "#" in key):
        raise ValueError(
            f"the address {scheme}://{bucket}/... has a query or a fragment, and the names of "
            "other files cannot be made from it; fetch such a file to a disk first"
        )
    return Address(scheme, bucket, key.rstrip("/"))


def join(address: str, name: str) -> str:
    """The address of a file below another address."""
    return f"{address.rstrip('/')}/{name}"
