"""The settings of a training run: one frozen dataclass, read from JSON and flags, checked once.

Flags win over the config file, the config file over the defaults. A run that is resumed starts
from its own saved settings; those that shape its course may then not change (`SHAPES_THE_RUN`).
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from tokenmill.base.signatures import check_fields
from tokenmill.base.suggest import AS_HINT, check_at_least_one, did_you_mean
from tokenmill.errors import SettingsMismatchError

# Changing one of these makes another run; all others may change between stop and resume.
SHAPES_THE_RUN = (
    "n_layer", "n_head", "n_embd", "block_size", "dropout", "vocab_size", "tokenizer",
    "documents", "where", "weights", "order", "rows", "begin_token", "long", "fim_rate",
    "fim_spm_rate", "fim_ids", "drop_rate", "replace_rate", "global_batch_size", "learning_rate",
    "min_learning_rate", "warmup_iters", "decay_iters", "weight_decay", "beta1", "beta2",
    "grad_clip", "seed",
)  # fmt: skip
AT_LEAST_ONE = (
    "max_iters", "batch_size", "global_batch_size", "micro_batch_size", "block_size", "n_layer",
    "n_head", "n_embd", "eval_batches", "eval_batch_size", "keep_checkpoints", "log_interval",
)  # fmt: skip
RATES = ("learning_rate", "min_learning_rate", "weight_decay", "beta1", "beta2", "grad_clip")
EXAMPLE = "web=data/web,code=data/code"  # of a mixture
WEIGHTS = "web=0.7,code=0.3"
BUNDLED = Path(__file__).with_name("configs")
SOURCES = ("input_file", "dataset_dir", "train_data_path", "mixture")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The settings of a run. The text under a field is also the help of its flag."""

    # What to train on
    input_file: str | None = None
    """A text file; the .npy beside it, with its tokenizer, is used when there is one."""
    dataset_dir: str | None = None
    """A dataset: shards in any format that `tokenmill.open` reads."""
    train_data_path: str | None = None
    """Token files to train on: .npy, .bin, a folder or a glob."""
    mixture: str | None = None
    """Several datasets with a name each, such as web=data/web,code=data/code; needs weights."""
    weights: str | None = None
    """Shares of the datasets of a mixture, such as web=0.7,code=0.3."""
    val_data_path: str | None = None
    """Token files to validate on; the last tenth of the training data when not given."""
    where: str | None = None
    """Train and validate on these documents alone, by their facts: "lang = 'en'"."""
    tokenizer: Any = None
    """Tokenizer of data that does not name its own; gpt2 when neither does."""
    dtype: Literal["uint16", "uint32", "int32", "uint8", "int64"] | None = None
    """Token type of raw .bin files, which do not say it themselves."""
    documents: bool | None = None
    """Keep attention and positions within documents; when the data knows their ends if not
    given."""
    order: Literal["shuffle", "sequential", "random", "blocks"] = "shuffle"
    """Order of the windows; docs/reference/order.md describes each."""
    rows: Literal["windows", "packed", "documents"] = "windows"
    """Contents of a row: a window, whole documents packed, or one document; see rows.md."""
    begin_token: int | None = None
    """Id to put before every document, with rows made of documents."""
    long: Literal["split", "cut", "drop"] = "split"
    """Documents that are longer than a row of documents: split into rows, cut, or dropped."""
    skip_steps: str | None = None
    """Steps of the data to leave out, such as 120,400-410: batches that spoiled a run."""

    # Augmentation of the training data
    fim_rate: float = 0.0
    """Share of the documents that become prefix, suffix and middle; docs/guides/augmentation.md."""
    fim_spm_rate: float = 0.5
    """Share of these that have the suffix first."""
    fim_ids: str | None = None
    """Ids of the prefix, middle and suffix sentinels, such as 50257,50258,50259; those of the
    tokenizer when not given."""
    drop_rate: float = 0.0
    """Share of the tokens that are left out."""
    replace_rate: float = 0.0
    """Share of the inputs that become random ids; targets stay."""

    # The run
    model_name: str = "gpt"
    """Name of the run; its folder is OUT_DIR/MODEL_NAME."""
    out_dir: str = "runs"
    """Folder that holds the folders of all runs."""
    max_iters: int = 10_000
    """Optimizer steps in all."""
    seed: int = 1337
    """Seed of the weights, the order of the data and dropout."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1` or `mps`; `auto` takes the best one there is."""

    # The model
    n_layer: int = 12
    """Transformer blocks."""
    n_head: int = 12
    """Attention heads per block."""
    n_embd: int = 768
    """Width of the model; a multiple of n_head."""
    block_size: int = 1024
    """Length of a window, in tokens: the context of the model."""
    dropout: float = 0.0
    """Share of activations set to zero in training, 0 <= dropout < 1."""
    vocab_size: int | None = None
    """Number of ids the model knows, such as 50304; that of the tokenizer when not given."""

    # Optimization
    batch_size: int | None = None
    """Rows per optimizer step on one rank; 32 if neither this nor global_batch_size is given."""
    global_batch_size: int | None = None
    """Rows per optimizer step over all ranks together, instead of batch_size."""
    micro_batch_size: int | None = None
    """Rows per forward pass on one rank; fewer save memory. When not given all of its share, on a
    CPU as many as take seconds."""
    learning_rate: float = 6e-4
    """Peak learning rate, reached after the warmup."""
    min_learning_rate: float | None = None
    """Learning rate at the end of the cosine; a tenth of the peak when not given."""
    warmup_iters: int = 100
    """Steps in which the learning rate rises from 0 to its peak."""
    decay_iters: int | None = None
    """Step at which the cosine ends; max_iters when not given."""
    weight_decay: float = 0.1
    """AdamW's weight decay of matrices; vectors have none."""
    beta1: float = 0.9
    """AdamW's decay of the mean of gradients."""
    beta2: float = 0.95
    """AdamW's decay of the mean of squared gradients."""
    grad_clip: float = 1.0
    """Largest norm of the gradients; 0 for no limit."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Type of the arithmetic; `auto`: bf16 on a GPU that has it."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Use torch.compile; `auto`: on a CUDA device."""

    # Watching it
    eval_interval: int = 250
    """Steps between validations; 0 for none."""
    eval_batches: int = 20
    """Batches of each validation, always the same ones."""
    eval_batch_size: int = 8
    """Rows of each batch of a validation."""
    checkpoint_interval: int | None = None
    """Steps between checkpoints; eval_interval (or 1000) when not given. One is kept at the end."""
    keep_checkpoints: int = 2
    """Number of checkpoints to keep, the newest ones."""
    log_interval: int = 10
    """Steps between lines of metrics.jsonl."""
    sample_tokens: int = 64
    """Length of the text generated at each validation, in tokens; 0 for none."""
    tensorboard: bool = False
    """Also log to TensorBoard."""
    wandb: bool = False
    """Also log to Weights & Biases."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.tokenizer, str | None):
            from tokenmill.tokens.given_tokenizer import name_of

            object.__setattr__(self, "tokenizer", name_of(self.tokenizer))
        counts = {name: getattr(self, name) for name in AT_LEAST_ONE}
        check_at_least_one(**{name: n for name, n in counts.items() if n is not None})
        for name in RATES:
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}; expected a number of at least 0")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; expected 0 <= dropout < 1")
        if self.n_embd % (2 * self.n_head):
            raise ValueError(
                f"n_embd {self.n_embd} over n_head {self.n_head} is not an even head size"
            )
        if self.batch_size is not None and self.global_batch_size is not None:
            raise ValueError(
                f"batch_size is {self.batch_size} (rows of one rank) and global_batch_size "
                f"{self.global_batch_size} (rows of all ranks): give one of them"
            )
        _ = self.skipped, self.paths_of_mixture, self.shares_of_mixture
        _ = self.augment  # which checks its settings
        if Path(self.model_name).name != self.model_name or self.model_name in ("", ".", ".."):
            raise ValueError(f"model_name {self.model_name!r} is not the name of a folder")

    def resolved(self, world_size: int) -> Self:
        """Return these settings with derived defaults filled in, so that a resumed run keeps them.

        Rows are then counted over all ranks: the run may resume on another number of them.
        """
        rows = self.global_batch_size or (self.batch_size or 32) * world_size
        return replace(
            self,
            batch_size=None,
            global_batch_size=rows,
            min_learning_rate=_or(self.min_learning_rate, self.learning_rate / 10),
            decay_iters=_or(self.decay_iters, self.max_iters),
            checkpoint_interval=_or(self.checkpoint_interval, self.eval_interval or 1000),
        )

    @property
    def rows_per_step(self) -> int:
        """Rows of a step over all ranks, of settings that are resolved."""
        assert self.global_batch_size is not None
        return self.global_batch_size

    @property
    def order_options(self) -> dict[str, Any]:
        """The keywords of a loader that decide which rows it serves."""
        names = ("block_size", "seed", "order", "rows", "begin_token", "long", "augment")
        return {name: getattr(self, name) for name in names}

    @property
    def run_dir(self) -> Path:
        """The folder of this run."""
        return Path(self.out_dir) / self.model_name

    @property
    def skipped(self) -> frozenset[int]:
        """The steps of the data that are left out."""
        ranges = number_ranges(self.skip_steps, "skip_steps") if self.skip_steps else []
        return frozenset(step for steps in ranges for step in steps)

    @property
    def augment(self) -> list[Any]:
        """Augmentations of the training rows; those of validation are never changed."""
        from tokenmill.augment import DropTokens, FillInTheMiddle, ReplaceTokens

        augmentations: list[Any] = []
        if self.fim_rate:
            ids = number_ranges(self.fim_ids, "fim_ids") if self.fim_ids is not None else []
            if len(ids) not in (0, 3):
                raise ValueError(f"fim_ids is {self.fim_ids!r}; expected three ids: 1,2,3")
            sentinels = [each.start for each in ids]
            augmentations.append(FillInTheMiddle(self.fim_rate, self.fim_spm_rate, *sentinels))
        if self.drop_rate:
            augmentations.append(DropTokens(self.drop_rate))
        if self.replace_rate:
            augmentations.append(ReplaceTokens(self.replace_rate))
        return augmentations

    @property
    def paths_of_mixture(self) -> dict[str, str]:
        """The datasets of a mixture by name; none if it is not one."""
        return {} if self.mixture is None else named_values(self.mixture, "mixture", EXAMPLE)

    @property
    def shares_of_mixture(self) -> dict[str, Any]:
        """The weights of its datasets by name."""
        return (
            {} if self.weights is None else named_values(self.weights, "weights", WEIGHTS, number)
        )

    @property
    def source(self) -> str:
        """The name of the one setting that says where the data is."""
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"{len(given)} are given: {', '.join(given)}" if given else "none is given"
            raise ValueError(
                f"training reads from exactly one of {', '.join(SOURCES)}; {found}\n\n"
                'hint: input_file="text.txt", or dataset_dir="data/corpus", or '
                'train_data_path="train.npy" and val_data_path="val.npy"'
            )
        if self.where is not None and self.input_file is not None:
            raise ValueError(
                f"where={self.where!r} chooses documents of a dataset, and input_file is a text"
            )
        if (self.mixture is None) != (self.weights is None):
            missing = "weights" if self.weights is None else "mixture"
            raise ValueError(
                f"mixture and weights go together, and {missing} is not given\n\n"
                f'hint: mixture="{EXAMPLE}" and weights="{WEIGHTS}"'
            )
        if self.val_data_path is not None and given[0] != "train_data_path":
            raise ValueError(f"val_data_path goes with train_data_path, not with {given[0]}")
        return given[0]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def load_config(
    config_file: str | None, flags: Mapping[str, Any], *, saved: Mapping[str, Any] | None = None
) -> TrainConfig:
    """Merge saved settings, a config file and flags (None: not given), the later winning."""
    from tokenmill.base.strict_json import parse_object  # not for the help of the command

    merged = dict(saved or {})
    if config_file is not None:
        path = find_config(config_file)
        _update(merged, parse_object(path.read_bytes(), str(path)))
    _update(merged, {name: value for name, value in flags.items() if value is not None})
    known = [field.name for field in fields(TrainConfig)]
    for name in merged:
        if name not in known:
            raise ValueError(f"unknown setting {name!r}{did_you_mean(name, known, AS_HINT)}")
    return TrainConfig(**merged)


def find_config(name: str) -> Path:
    """Return the path of a config file; those that come with tokenmill also have a name."""
    path = Path(name)
    if path.is_file():
        return path
    bundled = {each.stem: each for each in sorted(BUNDLED.glob("*.json"))}
    short = path.name.removesuffix(".json")
    if short in bundled and path.parent in (Path(), Path("configs")):
        return bundled[short]
    raise FileNotFoundError(
        f"no config file {path} (looked in {Path.cwd()}); with tokenmill come {', '.join(bundled)}"
        f"{did_you_mean(short, list(bundled))}"
    )


def _update(merged: dict[str, Any], later: Mapping[str, Any]) -> None:
    """Let later settings win; another source of data, or number of rows, replaces the former."""
    if any(name in later for name in SOURCES):
        merged.update(dict.fromkeys([*SOURCES, "val_data_path"]))
        if "mixture" not in later:
            merged["weights"] = None
    if "batch_size" in later or "global_batch_size" in later:
        merged.update(batch_size=None, global_batch_size=None)
    merged.update(later)


def check_same_run(saved: TrainConfig, now: TrainConfig) -> None:
    """Refuse to resume a run under settings that would make it another one."""
    differ = [
        f"       {name:18} {getattr(saved, name)} -> {getattr(now, name)}"
        for name in SHAPES_THE_RUN
        if getattr(saved, name) != getattr(now, name)
    ]
    if differ:
        raise SettingsMismatchError(
            "cannot resume: these settings are not those of the saved run\n" + "\n".join(differ),
            hint=f"leave them out to resume with those in {saved.run_dir}/config.json, "
            "or start a new run with another model_name=",
        )


def named_values(
    text: str, name: str, example: str, kind: Callable[[str], Any] = str
) -> dict[str, Any]:
    """Return web=0.7,code=0.3 as a dict; `name` is the setting or flag that has this text."""
    values: dict[str, Any] = {}
    for part in text.split(","):
        key, _, value = (word.strip() for word in part.partition("="))
        if not (key and value):
            raise ValueError(f"{name} is {text!r}; expected a name and a value: {example}")
        if key in values:
            raise ValueError(f"{name} has {key!r} twice")
        try:
            values[key] = kind(value)
        except ValueError:
            raise ValueError(f"{name} has '{key}={value}'; {value!r} is not a number") from None
    return values


def number(text: str) -> int | float:
    """Return the number in a text; a whole one stays whole."""
    return int(text) if text.isdecimal() else float(text)


def number_ranges(text: str, name: str) -> list[range]:
    """Return 120,400-410 as ranges: a number, or two with both included."""
    ranges = []
    for part in text.replace(" ", "").split(","):
        match = re.fullmatch(r"(\d{1,20})(?:-(\d{1,20}))?", part)
        numbers = [int(edge) for edge in match.groups() if edge] if match else []
        if not numbers or numbers[0] > numbers[-1]:
            raise ValueError(f"{name} is {text[:60]!r}; expected numbers such as 120,400-410")
        ranges.append(range(numbers[0], numbers[-1] + 1))
    return ranges


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
