"""Write api.md from the code: every public name, its signature, what it does, one example.

    python scripts/make_api_page.py

A test compares the page with the code, and another one runs the examples in the order they have
here, in a folder with `corpus/` (text), `data/corpus` (a dataset), `train.npy` and `val.npy`.
"""

import importlib
import inspect
import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "api.md"
MODULES = [
    "tokenmill",
    "tokenmill.preparation",
    "tokenmill.edits",
    "tokenmill.augment",
    "tokenmill.torch",
    "tokenmill.compat",
    "tokenmill.train",
    "tokenmill.errors",
]
HEAD = """# The Python API

Every public name, generated from the code by `make docs`; the examples are run by the tests.
Arguments after `*` are given by name. The flags of the commands are in `tokenmill COMMAND --help`.
"""
# In the order of the page; later ones use names of earlier ones.
EXAMPLES = {
    "tokenmill.prepare": """
        import tokenmill

        summary = tokenmill.prepare("corpus/*.jsonl", "data/new", tokenizer="gpt2")
        print(summary.train_tokens, summary.dropped)""",
    "tokenmill.pretokenize": """
        (array,) = tokenmill.pretokenize("corpus.txt", tokenizer="gpt2")
        print(array.npy, array.tokens)""",
    "tokenmill.retokenize": """
        summary = tokenmill.retokenize("data/corpus", "data/corpus-bytes", tokenizer="bytes")
        print(summary.notes)  # the text is the same""",
    "tokenmill.load_tokenizer": """
        tokenizer = tokenmill.load_tokenizer("gpt2")
        ids = tokenizer.encode("two words")  # uint32
        assert tokenizer.decode(ids) == b"two words"
        assert tokenizer.bytes_of_ids()[ids[1]] == b" words"
    """,
    "tokenmill.train_tokenizer": """
        trained = tokenmill.train_tokenizer("corpus/*.jsonl", "tok", vocab_size=1000)
        print(trained.vocab_size, trained.special_ids)  # then: prepare(..., tokenizer="tok")""",
    "tokenmill.open": """
        data = tokenmill.open("data/corpus")  # the train split
        val = tokenmill.open("data/corpus", split="val")
        whole = tokenmill.open("train.npy", end_of_text=50256)  # has no splits: all of it""",
    "tokenmill.from_array": """
        import numpy as np

        small = tokenmill.from_array(np.arange(1000, dtype=np.uint16))
        assert small.num_tokens == 1000""",
    "tokenmill.TokenDataset": """
        print(len(data), data.dtype, data.num_documents)
        ids = data[1000:1010]  # a NumPy array of ids
        text = data.decode(ids)""",
    "tokenmill.BatchLoader": """
        loader = tokenmill.BatchLoader(data, batch_size=8, block_size=128, seed=0)
        inputs, targets = next(iter(loader))  # (8, 128) int64 each
        state = loader.state_dict()  # loader.load_state_dict(state) resumes after this batch""",
    "tokenmill.Mixture": """
        mixture = tokenmill.Mixture({"web": data, "code": whole}, weights={"web": 0.8, "code": 0.2})
        mixed = tokenmill.BatchLoader(mixture, batch_size=8, block_size=128)""",
    "tokenmill.preparation.Run": """
        from tokenmill.preparation import Details, Run

        small = Run(max_ram="2G")
        tokenmill.prepare("corpus/*.jsonl", "data/small", tokenizer="bytes", run=small)""",
    "tokenmill.preparation.Details": """
        rare = Details(dedup_min_chars=40)
        tokenmill.prepare("corpus/*.jsonl", "data/lines", dedup="lines", details=rare)""",
    "tokenmill.edits.Reweight": """
        mixed.edit(tokenmill.edits.Reweight({"web": 0.5, "code": 0.5}), note="ablation 7")""",
    "tokenmill.edits.Skip": """
        mixed.edit(tokenmill.edits.Skip(steps=(120, 130)))  # step 120 serves the batch of 130""",
    "tokenmill.edits.Cap": """
        mixed.edit(tokenmill.edits.Cap({"code": 4}))  # then all samples are of web""",
    "tokenmill.edits.Add": """
        new = {"web": 0.5, "code": 0.3, "crawl-2": 0.2}
        mixed.edit(tokenmill.edits.Add("crawl-2", data, weights=new), at=200)""",
    "tokenmill.edits.Ban": """
        forget = tokenmill.edits.Ban(documents=[3, 17], source="web")""",
    "tokenmill.edits.edit_state": """
        skip = tokenmill.edits.Skip(samples=(800, 900))
        state = tokenmill.edits.edit_state(mixed.state_dict(), skip)""",
    "tokenmill.convert": """
        done = tokenmill.convert("data/corpus", "data/as_npy", to="npy")
        print(done.splits)""",
    "tokenmill.inspect": """
        known = tokenmill.inspect("data/corpus")
        print(known.tokens)""",
    "tokenmill.verify": """
        result = tokenmill.verify("data/corpus", full=True)
        assert not result.damaged""",
    "tokenmill.download": """
        import inspect

        # folder = tokenmill.download("karpathy/fineweb-edu-100B-gpt2-token-shards", "data/fineweb")
        print(inspect.signature(tokenmill.download))""",
    "tokenmill.upload": """
        # tokenmill.upload("data/corpus", "me/corpus")
        print(inspect.signature(tokenmill.upload))""",
    "tokenmill.TokenmillError": """
        try:
            tokenmill.open("nowhere")
        except (tokenmill.TokenmillError, FileNotFoundError) as error:
            print(error)""",
    "tokenmill.augment.FillInTheMiddle": """
        from tokenmill.augment import DropTokens, FillInTheMiddle, MaskTokens, ReplaceTokens

        fim = FillInTheMiddle(rate=0.5, prefix_id=1, middle_id=2, suffix_id=3)
        coder = tokenmill.BatchLoader(data, block_size=128, augment=[fim])""",
    "tokenmill.augment.MaskTokens": """
        masks = MaskTokens(rate=0.15, mask_id=4)
        inputs, labels = next(tokenmill.BatchLoader(data, block_size=128, augment=[masks]))""",
    "tokenmill.augment.ReplaceTokens": """
        noise = ReplaceTokens(rate=0.1)
        noisy = tokenmill.BatchLoader(data, block_size=128, augment=[noise])""",
    "tokenmill.augment.DropTokens": """
        gaps = DropTokens(rate=0.1)
        short = tokenmill.BatchLoader(data, block_size=128, augment=[gaps])""",
    "tokenmill.torch.TorchLoader": """
        from tokenmill.torch import TorchLoader

        tensors = TorchLoader(data, batch_size=8, block_size=128, device="cpu")
        batch = next(iter(tensors))""",
    "tokenmill.torch.TorchBatch": """
        print(batch.inputs.shape, batch.targets.shape)""",
    "tokenmill.torch.loss_per_source": """
        from torch.nn.functional import cross_entropy

        from tokenmill.torch import loss_per_source

        logits = batch.inputs.new_zeros(8, 50257, 128).float()  # of a model
        losses = cross_entropy(logits, batch.targets, reduction="none")
        sums, counts = loss_per_source(losses, batch, num_sources=1)""",
    "tokenmill.torch.TokenDataLoader": """
        from tokenmill.torch import TokenDataLoader

        batches = TokenDataLoader(data, batch_size=8, block_size=128, num_workers=0)
        inputs, targets = next(iter(batches))""",
    "tokenmill.torch.WindowsDataset": """
        from tokenmill.torch import WindowsDataset

        windows = WindowsDataset(data, block_size=128, seed=0)
        print(len(windows), windows[0])""",
    "tokenmill.torch.find_ranks": """
        from tokenmill.torch import find_ranks

        ranks = find_ranks()""",
    "tokenmill.torch.Ranks": """
        print(ranks.rank, ranks.world_size)""",
    "tokenmill.compat.TokenizedDataset": """
        from tokenmill.compat import TokenizedDataset

        x, y = TokenizedDataset("data/corpus", split="train", block_size=128).get_batch(4)""",
    "tokenmill.compat.LocalTokenizedDataset": """
        from tokenmill.compat import LocalTokenizedDataset

        local = LocalTokenizedDataset("train.npy", max_length=128)""",
    "tokenmill.compat.LocalTokenizedDatasetFixed": """
        from tokenmill.compat import LocalTokenizedDatasetFixed

        fixed = LocalTokenizedDatasetFixed("val.npy", max_length=128)""",
    "tokenmill.compat.create_dataloaders": """
        from tokenmill.compat import create_dataloaders

        train_loader, val_loader = create_dataloaders(
            "train.npy", "val.npy", batch_size=4, max_length=128, num_workers=0
        )""",
    "tokenmill.compat.GPTDataLoader": """
        from types import SimpleNamespace

        from tokenmill.compat import GPTDataLoader

        config = SimpleNamespace(block_size=128, batch_size=4)
        x, y = GPTDataLoader(config, None, dataset_dir="data/corpus").get_batch("train")""",
    "tokenmill.compat.StreamingDataset": """
        from tokenmill.compat import StreamingDataset

        sequences = StreamingDataset("corpus.txt", seq_length=128)  # reads corpus.npy""",
    "tokenmill.compat.download_tokenized_data": """
        import inspect

        from tokenmill.compat import download_tokenized_data

        # folder = download_tokenized_data("data/fineweb-edu", shards=3)
        print(inspect.signature(download_tokenized_data))""",
    "tokenmill.compat.LocalDataModule": """
        from tokenmill.compat import LocalDataModule

        module = LocalDataModule("train.npy", "val.npy", batch_size=4, max_length=128)""",
    "tokenmill.train.train": """
        from tokenmill.train import train

        run = train(dataset_dir="data/corpus", config_file="configs/toy_cpu.json", max_iters=2)
        print(run.val_loss)""",
    "tokenmill.train.sample": """
        from tokenmill.train import sample

        print(sample(run.run_dir, "The mill", max_new_tokens=5))""",
    "tokenmill.train.TrainConfig": """
        from tokenmill.train import TrainConfig

        print(TrainConfig(dataset_dir="data/corpus").learning_rate)""",
}


def public_names() -> dict[str, object]:
    """Every public name with its value, in the order of the examples; errors come last."""
    names = {}
    for home in MODULES:
        module = importlib.import_module(home)
        for name in getattr(module, "__all__", None) or vars(module):
            value = getattr(module, name)
            # What a package gathers is public; of a plain module, only what it defines itself.
            ours = getattr(value, "__module__", "").startswith(
                "tokenmill" if hasattr(module, "__path__") else home
            )
            if callable(value) and ours and not name.startswith("_"):
                names[f"{home}.{name}"] = value
    order = {name: place for place, name in enumerate(EXAMPLES)}
    return dict(sorted(names.items(), key=lambda item: (order.get(item[0], 1000), item[0])))


def is_error(value: object) -> bool:
    """Whether it is an exception: these share one table and one example."""
    return isinstance(value, type) and issubclass(value, BaseException)


def make_page() -> str:
    """The whole page."""
    names = public_names()
    parts, home = [HEAD], ""
    for name, value in names.items():
        if is_error(value) and name not in EXAMPLES:
            continue
        if (now := name.rpartition(".")[0]) != home:
            home = now
            parts.append(f"## `{home}`\n")
        parts.append(describe(name, value))
        if name == "tokenmill.TokenmillError":
            parts.append(error_table(names))
    return "\n".join(parts)


def describe(name: str, value: object) -> str:
    """One name: heading, signature, first paragraph, methods, example."""
    shown = name if is_error(value) else f"{name}{signature(value)}"
    lines = [f"### `{name}`\n", "```", shown, "```\n", paragraph(value) + "\n"]
    if isinstance(value, type) and not is_error(value):
        lines += [*members(value), ""]
    return "\n".join([*lines, "```python", inspect.cleandoc(EXAMPLES[name]), "```\n"])


def members(kind: type) -> list[str]:
    """The public methods and properties that are ours, one line each."""
    lines = []
    for name, member in inspect.getmembers(kind):
        home = getattr(member, "fget", None) or member
        text = paragraph(member)
        if name.startswith("_") or not getattr(home, "__module__", "").startswith("tokenmill"):
            continue
        if not isinstance(member, type) and text:
            shown = name if isinstance(member, property) else f"{name}{names_only(member)}"
            lines.append(f"- `.{shown}`: {text}")
    return lines


def names_only(function: object) -> str:
    """The arguments of a method by name."""
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return "(" + ", ".join(p.name for p in found if p.name not in ("self", "cls")) + ")"


def signature(value: object) -> str:
    """With types and defaults; one argument on each line if it is long."""
    found = inspect.signature(value)  # type: ignore[arg-type]
    text = plain(str(found))
    if len(text) < 70:
        return text
    lines, keyword_only = [], False
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            lines.append("    *,")
        lines.append(f"    {plain(str(parameter))},")
    returns = plain(str(found)).rpartition(")")[2]
    return "(\n" + "\n".join(lines) + f"\n){returns}"


def plain(text: str) -> str:
    """Types in short form: without the modules they come from."""
    text = re.sub(
        r"\b(?:tokenmill|collections\.abc|typing|torch|numpy|pathlib)\.(?:\w+\.)*", "", text
    )
    text = re.sub(r"= ([A-Z]\w+)\([^()]*\)", r"= \1()", text)  # a default that has all defaults
    return re.sub(r"'(\w+)'", lambda m: f'"{m[1]}"', text)


def paragraph(value: object) -> str:
    """The first paragraph of the docstring, on one line."""
    text = inspect.getdoc(value) or ""
    return " ".join(text.partition("\n\n")[0].split())


def error_table(names: dict[str, object]) -> str:
    """All errors, with their exit codes."""
    lines = ["| error | exit code | when |", "|---|---|---|"]
    for name, value in names.items():
        if is_error(value):
            lines.append(f"| `{name}` | {value.exit_code} | {paragraph(value)} |")  # type: ignore[attr-defined]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
    sys.stderr.write(f"Wrote {PAGE}\n")
