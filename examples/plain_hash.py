"""XXH3 with 128 bits with Python's standard library alone.

    python examples/plain_hash.py data/corpus/train/shard_00000.bin

The hash of shards (format.md) and of documents (validation.md), after the specification
of xxHash: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md. Nothing is for speed.
Of four bytes or more: no id has fewer. tests/preparation/test_plain_prepare.py compares it with
the package `xxhash`.
"""

import sys
from pathlib import Path

WORD = (1 << 64) - 1
A, B, C = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
P, Q, R, S, T = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                 0x27D4EB2F165667C5)  # fmt: skip
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def read(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def key(at: int) -> int:
    return read(SECRET, at)


def fold(x: int, y: int) -> int:
    return (x * y & WORD) ^ (x * y >> 64)


def avalanche(h: int) -> int:
    h = (h ^ h >> 37) * 0x165667919E3779F9 & WORD
    return h ^ h >> 32


def up_to_8(data: bytes) -> tuple[int, int]:
    ends = int.from_bytes(data[:4], "little") | int.from_bytes(data[-4:], "little") << 32
    high, low = divmod((ends ^ key(16) ^ key(24)) * (P + (len(data) << 2)), 1 << 64)
    high = high + (low << 1) & WORD
    low ^= high >> 3
    low = (low ^ low >> 35) * 0x9FB21C651E98DF25 & WORD
    return low ^ low >> 28, avalanche(high)


def up_to_16(data: bytes) -> tuple[int, int]:
    first, last = read(data, 0), read(data, len(data) - 8)
    high, low = divmod((first ^ last ^ key(32) ^ key(40)) * P, 1 << 64)
    last ^= key(48) ^ key(56)
    low = low + (len(data) - 1 << 54) & WORD
    high = high + last + (last & 0xFFFFFFFF) * (B - 1) & WORD
    low ^= int.from_bytes(high.to_bytes(8, "little"), "big")
    return avalanche(low * Q & WORD), avalanche((low * Q >> 64) + high * Q & WORD)


def up_to_240(data: bytes) -> tuple[int, int]:
    n, low, high = len(data), len(data) * P & WORD, 0

    def mix(first: int, second: int, at: int) -> None:
        nonlocal low, high
        x, y, z, w = (read(data, i) for i in (first, first + 8, second, second + 8))
        low = (low + fold(x ^ key(at), y ^ key(at + 8)) & WORD) ^ (z + w & WORD)
        high = (high + fold(z ^ key(at + 16), w ^ key(at + 24)) & WORD) ^ (x + y & WORD)

    if n <= 128:
        for i in reversed(range(0, n - 1 >> 5 << 4 | 1, 16)):
            mix(i, n - 16 - i, 2 * i)
    else:
        for i in range(0, 128, 32):
            mix(i, i + 16, i)
        low, high = avalanche(low), avalanche(high)
        for i in range(128, n // 32 * 32, 32):
            mix(i, i + 16, i - 125)
        mix(n - 16, n - 32, 103)
    return avalanche(low + high & WORD), -avalanche(low * P + high * S + n * Q & WORD) & WORD


def longer(data: bytes) -> tuple[int, int]:
    sums = [C, P, Q, R, S, B, T, A]

    def add(place: int, secret: int) -> None:
        for i in range(8):
            word = read(data, place + 8 * i)
            keyed = word ^ key(secret + 8 * i)
            sums[i ^ 1] = sums[i ^ 1] + word & WORD
            sums[i] = sums[i] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & WORD

    for stripe in range((len(data) - 1) // 64):
        add(64 * stripe, stripe % 16 * 8)
        if stripe % 16 == 15:
            sums = [(x ^ x >> 47 ^ key(128 + 8 * i)) * A & WORD for i, x in enumerate(sums)]
    add(len(data) - 64, 121)

    def merge(secret: int, start: int) -> int:
        keyed = [word ^ key(secret + 8 * i) for i, word in enumerate(sums)]
        return avalanche(start + sum(map(fold, keyed[::2], keyed[1::2])) & WORD)

    return merge(11, len(data) * P & WORD), merge(117, ~(len(data) * Q) & WORD)


def xxh3_128(data: bytes) -> bytes:
    """The digest in its usual form: the upper half, then the lower one, each big-endian."""
    if len(data) < 4:
        raise ValueError(f"{len(data)} bytes; this is for 4 or more")
    kinds = ((8, up_to_8), (16, up_to_16), (240, up_to_240))
    low, high = next((kind for most, kind in kinds if len(data) <= most), longer)(data)
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(xxh3_128(Path(name).read_bytes()).hex(), name)
