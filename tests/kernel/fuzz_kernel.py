"""The kernel under AddressSanitizer and UndefinedBehaviorSanitizer: tests of its twins, then abuse.

    python tests/kernel/fuzz_kernel.py [--calls 200000] [--seed 1]

The C files are built with both sanitizers into a temporary folder, with wide registers where the
processor has them and without. With that module in place of the installed one, first the tests run
that compare each loop with its NumPy twin; then every function is called with arguments that are
almost right: arrays cut, stretched, of another dtype, with wild numbers in them. It must return or
raise an exception that Python knows; whatever is read or written outside of an array ends the
process. Needs gcc; `make faults` runs it.
"""

import argparse
import functools
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "src" / "tokenmill" / "kernel"
FLAGS = ["-g", "-O1", "-fPIC", "-shared", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
FLAGS += ["-DPy_LIMITED_API=0x030B0000"]
TESTS_OF_TWINS = [
    "tests/kernel/test_kernel.py",
    "tests/kernel/test_gather_spans.py",
    "tests/augment/test_augmentation.py",
    "tests/order/test_permutation.py",
    "tests/order/test_recipes.py",
    "tests/order/test_plain_rows.py",
    "tests/text/test_clean.py",
    "tests/text/test_evals.py",
    "tests/text/test_near.py",
    "tests/text/test_lines.py",
    "tests/text/test_filters.py",
    "tests/batches/test_document_masks.py",
    "tests/batches/test_document_rows.py",
]
REFUSED = (TypeError, ValueError, BufferError, OverflowError, IndexError, MemoryError)
WILD = [0, 1, -1, 2, 63, 64, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), -(2**31)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only_abuse", action="store_true", help="without the tests of twins")
    parser.add_argument("--module", type=Path, help="used by the process that is under test")
    options = parser.parse_args()
    if options.module is not None:
        sys.exit(check(options))
    with tempfile.TemporaryDirectory() as folder:
        for registers in ([], ["-DTOKENMILL_NO_AVX512"]):
            module = Path(folder) / f"loops_{len(registers)}.so"
            build(module, registers)
            if code := run_under_sanitizers(module, options):
                sys.exit(code)


def build(module: Path, more: list[str]) -> None:
    include = sysconfig.get_paths()["include"]
    sources = sorted(map(str, KERNEL.glob("*.c")))
    subprocess.run(["gcc", *FLAGS, *more, f"-I{include}", *sources, "-o", module], check=True)


def run_under_sanitizers(module: Path, options: argparse.Namespace) -> int:
    names = ("libasan.so", "libubsan.so")
    libraries = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in names
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
    }
    command = [sys.executable, __file__, "--module", module]
    command += ["--calls", str(options.calls), "--seed", str(options.seed)]
    command += ["--only_abuse"] if options.only_abuse else []
    return subprocess.run(command, env=environment, cwd=ROOT).returncode


def check(options: argparse.Namespace) -> int:
    """Put the module in place, run the tests of twins, then the abuse."""
    import pytest

    spec = importlib.util.spec_from_file_location("tokenmill.kernel.loops", options.module)
    loops = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loops)
    sys.modules["tokenmill.kernel.loops"] = loops
    from tokenmill import kernel

    assert kernel.compiled is loops
    if options.only_abuse:
        return abuse(loops, options.calls, options.seed)
    deselected = ["without_a_compiler", "version_says", "selects_the_twins"]  # start processes
    words = ["-q", "-x", "-p", "no:cacheprovider", "-k", f"not ({' or '.join(deselected)})"]
    code = pytest.main([*words, *TESTS_OF_TWINS])
    return int(code) or abuse(loops, options.calls, options.seed)


# Arguments that are right


def texts(rng: np.random.Generator) -> list[bytes]:
    letters = np.frombuffer(b"ab \t\n\x07\x7f\xc2\x85\xcc\x81\xe2\x80\x99\xff", np.uint8)
    return [rng.choice(letters, rng.integers(0, 200)).tobytes() for _ in range(rng.integers(0, 5))]


def lines(rng: np.random.Generator) -> tuple[bytes, np.ndarray]:
    whole = b"".join(text + b"\n" for text in texts(rng))
    return whole, np.flatnonzero(np.frombuffer(whole, np.uint8) == ord("\n"))


def words(rng: np.random.Generator) -> list[bytes]:
    letters = np.frombuffer("ab \n_1(\u00e9\u4e2d\u3000\u0e01\U0001f642".encode(), np.uint8)
    return [rng.choice(letters, rng.integers(0, 300)).tobytes() for _ in range(rng.integers(1, 5))]


def spelled(rng: np.random.Generator) -> tuple[Any, ...]:
    lengths = rng.integers(0, 30, 9)
    edges = np.append(0, lengths.cumsum()).astype(np.int32)
    width = int(rng.choice([2, 4]))
    return rng.integers(0, 9, 50).astype(f"u{width}"), width, bytes(int(edges[-1])), edges


def compared(rng: np.random.Generator) -> tuple[Any, ...]:
    some = words(rng)
    pairs = rng.integers(0, len(some), (rng.integers(0, 9), 2))
    return some, pairs, bool(rng.integers(2)), int(rng.integers(1, 9))


def looked_for(rng: np.random.Generator) -> tuple[Any, ...]:
    tables = [rng.integers(0, 2**63, 1 << rng.integers(1, 6), np.uint64) for _ in range(3)]
    for table in tables[1:]:
        table[rng.integers(0, len(table))] = 0
    sizes = rng.integers(0, 2**32, len(tables[2]), np.uint64).astype(np.uint32)
    return words(rng), int(rng.integers(1, 14)), int(rng.integers(0, 6)), *tables, sizes


def marked(rng: np.random.Generator) -> tuple[Any, ...]:
    """Batches, of which some have more documents than there is room for."""
    num_batches, num_rows, length = rng.integers(1, 4), rng.integers(1, 5), rng.integers(2, 70)
    continues = rng.random((num_batches, num_rows, length)) < rng.choice([0.3, 0.95])
    filled = rng.integers(0, length + 1, (num_batches, num_rows))
    numbers = [np.empty(num_batches, np.int64) for _ in range(2)]
    cu_seqlens = np.empty((num_batches, rng.integers(1, 40)), np.int32)
    return cu_seqlens, *numbers, continues, filled if rng.random() < 0.5 else None, int(length)


def spread(rng: np.random.Generator) -> tuple[Any, ...]:
    begins = np.append(0, rng.integers(0, 9, rng.integers(0, 9)).cumsum()).astype(np.int32)
    return np.empty(begins[-1], np.int32), begins, int(rng.integers(0, 20))


def ids(rng: np.random.Generator) -> tuple[Any, ...]:
    width = int(rng.choice([2, 4]))
    lengths = rng.integers(0, 9, rng.integers(0, 9))
    complete = rng.integers(0, 2, len(lengths)).astype(bool)
    out = np.empty(lengths.sum() + complete.sum(), f"u{width}")
    return out, width, np.arange(lengths.sum(), dtype=np.uint32), lengths.cumsum(), complete, 7


def augmented(rng: np.random.Generator) -> tuple[Any, ...]:
    num_rows, length = rng.integers(1, 6), rng.integers(1, 150)
    tokens = rng.integers(0, 30, (num_rows, length))
    filled = rng.integers(0, length + 1, num_rows)
    continues = rng.random(tokens.shape) < 0.8
    labels = np.empty((num_rows, length - 1), np.int64)
    chances = np.array([0, 1, 2**31, 2**32 - 1, 2**32], np.uint64)
    steps = rng.choice(chances, (rng.integers(1, 5), 8))
    steps[:, 0] = rng.integers(0, 5, len(steps))
    special = rng.random(12) < 0.2
    return (tokens, rng.integers(0, 99, num_rows), filled, continues, labels, steps, special,
            np.array([2, 7]), 28)  # fmt: skip


def permuted(rng: np.random.Generator) -> tuple[Any, ...]:
    sizes = rng.choice([1, 2, 3, 17, 4097, 2**40, 2**62], 5)
    which = rng.integers(0, 5, rng.integers(0, 700))
    numbers = rng.integers(0, sizes[which])
    keys = rng.integers(0, 2**64, (5, 6), np.uint64)
    return np.empty_like(numbers), numbers, which, sizes, keys, bool(rng.integers(2))


def expanded(rng: np.random.Generator) -> tuple[Any, ...]:
    counts = rng.integers(0, 6, 4)
    recipe = rng.integers(0, 4, 9)
    tables = [rng.integers(0, 99, counts.sum()) for _ in range(4)]
    out = [np.empty(counts[recipe].sum(), np.int64) for _ in range(4)]
    starts = np.append(0, counts.cumsum())
    return (*out, recipe, rng.integers(0, 50, 9), starts, *tables)


def located(rng: np.random.Generator) -> tuple[Any, ...]:
    runs = np.append(0, rng.integers(1, 4, 5).cumsum())
    starts = np.concatenate([np.arange(n) * 10 for n in np.diff(runs)])
    length, nth = rng.integers(0, 5, 40), rng.integers(0, 40, 40)
    tables = [rng.integers(1, 9, len(starts)) for _ in range(3)]
    return (np.empty(40, np.int64), np.empty(40, np.int64), length, nth, runs, starts, *tables)


def mapped(rng: np.random.Generator) -> tuple[Any, ...]:
    """The arguments of `use_maps`: runs of which one may be missing, spans that may overlap."""
    kind = np.dtype(str(rng.choice(["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])))
    sizes = rng.integers(0, 40, rng.integers(1, 6))
    edges = np.append(0, sizes.cumsum())
    tokens = [rng.integers(0, 99, size).astype(kind) for size in sizes]
    runs = list(range(rng.integers(max(1, len(sizes) - 1), len(sizes) + 1)))
    out = np.empty((8, 50), rng.choice(np.array(["u1", "u2", "i4", "i8", "f8"])))
    length = rng.integers(0, min(50, edges[-1]) + 1, rng.integers(0, 12))
    spans = (rng.integers(0, 8, len(length)), rng.integers(0, 51 - length),
             rng.integers(0, edges[-1] + 1 - length), length)  # fmt: skip
    largest = int(rng.choice(np.array([50, 255, 2**64 - 1], np.uint64)))
    overlaps = bool(rng.random() < 0.2)
    flags = np.ones(out.shape, bool) if rng.random() < 0.5 else None
    marks = (flags, int(rng.choice([7, 2**40])), bool(rng.integers(2)))
    return (edges, kind.itemsize, kind.kind == "i", runs, tokens, overlaps, out, *spans, largest,
            0, *marks)  # fmt: skip


def documents(rng: np.random.Generator) -> tuple[Any, ...]:
    """A text, and where its documents end."""
    pieces = [
        b"word ", b"Don't. ", b"a-b=c:) ", b"(x[:]", b"...", b"\n", b"\r\n", b"\xe2\x80\xa6",
        b"\xe2", b"\xf0\x9f\x98\x80", b"\xc2\x85", b" [12]", b"http://a.b/c", b"10km", b"{",
        b"use cookies", b"The end of the line is here.\n", b"\xff", b"lorem ipsum", b"x" * 40,
    ]  # fmt: skip
    counts = rng.integers(0, 12, rng.integers(0, 5))
    docs = [b"".join(pieces[n] for n in rng.integers(0, len(pieces), count)) for count in counts]
    ends = np.cumsum([len(doc) + 1 for doc in docs]).astype(np.int64) - 1
    return b"".join(doc + b"\n" for doc in docs), ends


@functools.cache
def word_tables() -> tuple[np.ndarray, ...]:
    from tokenmill.text.filters.word_rule import tables

    return tables()


def of_words(rng: np.random.Generator) -> tuple[Any, ...]:
    """A text, its words, and the tables, of which the forms may be spoiled."""
    from tokenmill import kernel

    whole, ends = documents(rng)
    split = kernel.compiled.split_words(whole, ends, word_tables())
    classes, forms = word_tables()
    if rng.random() < 0.2:
        forms = np.ascontiguousarray(spoiled_array(forms.view(np.uint32), rng))
    words = (np.frombuffer(some, kind) for some, kind in zip(split, ("<u4", "<i8"), strict=True))
    return whole, ends, *words, (classes, forms)


def measured(rng: np.random.Generator) -> tuple[Any, ...]:
    *texts, tables = of_words(rng)
    what = int(rng.integers(0, 3))
    columns = (10, 7 + 2 * int(rng.integers(0, 12)), 7)[what]
    left = rng.integers(0, 2, len(texts[1])).astype(np.uint8)
    return *texts, np.empty((len(texts[1]), columns), np.int64), left, tables, what, 30


def cleaned(rng: np.random.Generator) -> tuple[Any, ...]:
    *texts, tables = of_words(rng)
    counts = np.empty((len(texts[1]), 9), np.int64)
    left = rng.integers(0, 2, len(texts[1])).astype(np.uint8)
    return *texts, counts, left, tables, int(rng.integers(0, 64)), int(rng.integers(-1, 30)), 2


def use_maps(loops: Any, edges: Any, width: Any, is_signed: Any, runs: Any, *rest: Any) -> None:
    """Put runs in, and gather; then again after one was dropped and another one replaced.

    With `overlaps` the rows lie over the tokens that are put in last.
    """
    tokens, overlaps, *call = rest
    maps = loops.Maps(edges, width, is_signed)
    for run, array in zip(runs, tokens, strict=False):
        maps.put(run, array)
    maps.gather(*call)
    if overlaps:
        rows = np.ravel(call[0]).view(np.uint8)
        maps.put(runs[-1], rows[: np.asarray(tokens[runs[-1]]).nbytes])
        maps.gather(*call)
    maps.drop(runs[0])
    maps.drop(runs[0])
    maps.gather(*call)


RIGHT: dict[str, Callable[[np.random.Generator], tuple[Any, ...]]] = {
    "odd_texts": lambda rng: (texts(rng), rng.choice([b"", bytes(0x200000 // 8)])),
    "squeeze": lambda rng: (texts(rng), bool(rng.integers(2)), bool(rng.integers(2))),
    "lines_that_count": lambda rng: (*lines(rng), int(rng.integers(0, 9)), 99),
    "hash_lines": lambda rng: (lambda w, s: (w, s, np.ones(len(s), bool)))(*lines(rng)),
    "with_ends": ids,
    "spell": spelled,
    "hash_bands": lambda rng: (words(rng), bool(rng.integers(2)), int(rng.integers(1, 9)), 10, 4),
    "compare_texts": compared,
    "find_runs": looked_for,
    "mark_documents": marked,
    "spread_documents": spread,
    "augment_rows": augmented,
    "permute": permuted,
    "expand_rows": expanded,
    "locate_pieces": located,
    "split_words": lambda rng: (*documents(rng), of_words(rng)[-1]),
    "measure_texts": measured,
    "clean_lines": cleaned,
    "Maps": mapped,
}


# Arguments that are almost right


def spoiled(value: Any, rng: np.random.Generator) -> Any:
    """Another value where this one belongs."""
    if isinstance(value, np.ndarray) and rng.random() < 0.95:
        return spoiled_array(value, rng)
    if isinstance(value, bytes) and rng.random() < 0.8:
        return value[: rng.integers(0, len(value) + 1)]
    if isinstance(value, list) and rng.random() < 0.8:
        place = rng.integers(len(value) + 1)
        return [*value[:place], spoiled([*value, 0][place], rng), *value[place + 1 :]]
    return [*WILD, None, b"", b"12345678", np.empty(3), [], "text"][rng.integers(len(WILD) + 6)]


def spoiled_array(value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if value.ndim == 2 and rng.random() < 0.5:
        return [value[:, ::2], value[::-1], value.T, value[:1], value[:, :7].copy()][
            rng.integers(5)
        ]
    flat = value.reshape(-1).copy()
    match rng.integers(6):
        case 0 if flat.size:
            places = rng.integers(0, flat.size, rng.integers(1, 4))
            flat[places] = np.array(rng.choice(np.array(WILD), len(places))).astype(flat.dtype)
        case 1:
            flat = flat[: rng.integers(0, flat.size + 1)].copy()
        case 2:
            flat = np.append(flat, flat[: rng.integers(0, flat.size + 1)])
        case 3:
            with np.errstate(invalid="ignore"):
                flat = flat.astype(rng.choice(np.array(["i1", "i4", "u8", "f8", "u2"])))
        case 4:
            flat = flat[:: rng.choice([-1, 2])]
        case _:
            flat.flags.writeable = False
    return flat


def abuse(loops: Any, calls: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    names = [name for name in RIGHT if hasattr(loops, name)]
    functions = {name: getattr(loops, name) for name in names}
    functions["Maps"] = functools.partial(use_maps, loops)
    returned = 0
    for _ in range(calls):
        name = names[rng.integers(len(names))]
        arguments = list(RIGHT[name](rng))
        if rng.random() < 0.1:
            functions[name](*arguments)  # these are right
        for _ in range(rng.integers(1, 3)):
            place = rng.integers(len(arguments))
            arguments[place] = spoiled(arguments[place], rng)
        try:
            functions[name](*arguments)
            returned += 1
        except REFUSED:
            pass
    print(f"{calls:,} calls of {len(names)} functions: {returned:,} returned, the rest was refused")
    return 0


if __name__ == "__main__":
    main()
