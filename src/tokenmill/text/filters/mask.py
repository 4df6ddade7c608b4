"""E-mail and IP addresses are replaced by addresses that nobody has, and counted.

An e-mail address becomes `email@example.com`, and an IP address one of those that are reserved for
documentation (RFC 5737, RFC 3849). IP addresses that are not of the public internet (127.0.0.1,
192.168.0.1) say nothing about anybody and stay. Four numbers with dots that are a version and not
an address look the same, and are replaced.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Network, IPv6Address

import numpy as np

from tokenmill.base.suggest import one_of
from tokenmill.text.filters.rule import Batch, Rule, Verdict

KINDS = ("email", "ip")
EMAIL = b"email@example.com"
IPV4 = b"192.0.2.1"
IPV6 = b"2001:db8::1"
# Each begins with a byte that is rare in text, so that most of it is passed over quickly.
_DOMAIN = re.compile(rb"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.))+[A-Za-z]{2,24}(?![A-Za-z0-9-])")
_LOCAL = re.compile(rb"[A-Za-z0-9!#$%&*+/=?^_`{|}~.-]{1,64}\Z")
_THREE_NUMBERS = re.compile(rb"\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\d]|\.\d)")
_FIRST_NUMBER = re.compile(rb"(?<![\w.])\d{1,3}\Z")
_GROUP = rb"[23][0-9A-Fa-f]{3}:"
_REST_OF_IPV6 = re.compile(rb":(?<=%s)(?<![\w:.]%s)[0-9A-Fa-f:]{2,34}(?![\w:])" % (_GROUP, _GROUP))
_NOT_PUBLIC = [
    IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.2.0/24", "192.168.0.0/16", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/3"),
    )
]
_PRIVATE = [(int(each.network_address), int(each.netmask)) for each in _NOT_PUBLIC]
Match = tuple[int, int, bytes]
"""First and last byte of what is replaced, and by what."""


@dataclass(frozen=True)
class Mask(Rule):
    """Replaces addresses of these kinds."""

    name = "mask"
    kinds: tuple[str, ...]

    def apply(self, batch: Batch) -> Verdict:
        whole = batch.whole
        finders = {"email": ("e-mail addresses", _emails), "ip": ("IP addresses", _ips)}
        counts = {}
        places: dict[int, list[Match]] = {}
        for what, find in (finders[kind] for kind in self.kinds):
            counts[what] = np.zeros(len(batch), np.int64)
            matches = list(find(whole))
            starts = np.array([start for start, _, _ in matches], np.int64)
            documents = batch.ends.searchsorted(starts, side="right").tolist()
            for document, match in zip(documents, matches, strict=True):
                counts[what][document] += 1
                places.setdefault(document, []).append(match)
        texts = {
            document: _replaced(whole, int(batch.starts[document]), int(batch.ends[document]), some)
            for document, some in places.items()
        }
        kept = np.zeros(len(batch), np.uint16)
        return Verdict(kept, np.full(len(batch), np.nan), texts, counts)


def kinds_of(words: str) -> tuple[str, ...]:
    """Return the kinds in `email,ip`, in one order."""
    asked = words.split(",")
    for kind in asked:
        one_of("mask", kind, KINDS)
    return tuple(kind for kind in KINDS if kind in asked)


def _replaced(whole: bytes, start: int, stop: int, matches: list[Match]) -> bytes:
    parts = []
    for first, last, instead in sorted(matches):
        if first >= start:  # not inside the one before
            parts += [whole[start:first], instead]
            start = last
    return b"".join([*parts, whole[start:stop]])


def _emails(whole: bytes) -> Iterator[Match]:
    for domain in _DOMAIN.finditer(whole):
        at = domain.start()
        local = _LOCAL.search(whole[max(0, at - 64) : at])
        if local is not None and not local[0].endswith(b"."):
            yield at - len(local[0].lstrip(b".")), domain.end(), EMAIL


def _ips(whole: bytes) -> Iterator[Match]:
    for rest in _THREE_NUMBERS.finditer(whole):
        first = _FIRST_NUMBER.search(whole, max(0, rest.start() - 5), rest.start())
        if first is not None and _is_public(first[0] + rest[0]):
            yield first.start(), rest.end(), IPV4
    for rest in _REST_OF_IPV6.finditer(whole):
        start = rest.start() - 4
        try:
            IPv6Address(whole[start : rest.end()].decode())
        except AddressValueError:
            continue
        yield start, rest.end(), IPV6


def _is_public(address: bytes) -> bool:
    numbers = list(map(int, address.split(b".")))
    value = int.from_bytes(bytes(numbers), "big") if max(numbers) < 256 else 0
    return all(value & mask != network for network, mask in _PRIVATE)
