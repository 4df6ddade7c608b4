"""The settings of a training run: one frozen dataclass, read from JSON and flags, checked once.

Flags win over the config file, the config file over the defaults. A run that is resumed starts
from its own saved settings; those that shape its course may then not change (`SHAPES_THE_RUN`).
"""

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, get_args

from tokenmill.errors import SettingsMismatchError

# Changing one of these makes another run; all others may change between stop and resume.
SHAPES_THE_RUN = (
    "n_layer", "n_head", "n_embd", "block_size", "dropout", "vocab_size", "tokenizer", "documents",
    "order", "batch_size", "learning_rate", "min_learning_rate", "warmup_iters", "decay_iters",
    "weight_decay", "beta1", "beta2", "grad_clip", "seed",
)  # fmt: skip
AT_LEAST_ONE = (
    "max_iters", "batch_size", "block_size", "n_layer", "n_head", "n_embd", "eval_batches",
    "eval_batch_size", "keep_checkpoints", "log_interval",
)  # fmt: skip
SOURCES = ("input_file", "dataset_dir", "train_data_path")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything a run is told. Paths are as given; see `docs/training.md` for each."""

    model_name: str = "gpt"
    """The run's folder is out_dir/model_name."""
    out_dir: str = "runs"

    input_file: str | None = None
    dataset_dir: str | None = None
    train_data_path: str | None = None
    val_data_path: str | None = None
    dtype: str | None = None
    """Token type of raw .bin files, which do not say it themselves."""
    tokenizer: str | None = None
    """For data that does not name its own; gpt2 when neither does."""
    documents: str = "auto"
    """`on`: attention and positions stay within documents; `auto`: when the data knows them."""
    order: str = "shuffle"

    skip_steps: str | None = None
    """Steps of the data to leave out, such as "120,400-410": batches that spoiled a run."""

    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    block_size: int = 1024
    dropout: float = 0.0
    vocab_size: int | None = None
    """Ids the model knows; that of the tokenizer when not given."""

    max_iters: int = 10_000
    batch_size: int = 32
    """Windows per optimizer step over all ranks together."""
    micro_batch_size: int | None = None
    """Windows per forward pass on one rank; fewer saves memory. All of them when not given."""
    learning_rate: float = 6e-4
    min_learning_rate: float | None = None
    """A tenth of the peak when not given."""
    warmup_iters: int = 100
    decay_iters: int | None = None
    """Where the cosine ends; max_iters when not given."""
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    grad_clip: float = 1.0
    seed: int = 1337

    device: str = "auto"
    precision: str = "auto"
    """`bf16` or `fp32`; `auto` is bf16 on a GPU that has it."""
    compile: str = "auto"
    """`on` or `off`; `auto` is on for CUDA."""
    eval_interval: int = 250
    """Steps between validations; 0 for none."""
    eval_batches: int = 20
    eval_batch_size: int = 8
    checkpoint_interval: int | None = None
    """Steps between checkpoints; eval_interval (or 1000) when not given. One is kept at the end."""
    keep_checkpoints: int = 2
    log_interval: int = 10
    sample_tokens: int = 64
    """Length of the text drawn at each validation; 0 for none."""
    tensorboard: bool = False
    wandb: bool = False

    def __post_init__(self) -> None:
        for name in AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        for name, allowed in (
            ("documents", ("auto", "on", "off")),
            ("precision", ("auto", "bf16", "fp32")),
            ("compile", ("auto", "on", "off")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; known are: {', '.join(allowed)}"
                )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; expected 0 <= dropout < 1")
        _ = self.skipped
        if Path(self.model_name).name != self.model_name or self.model_name in ("", ".", ".."):
            raise ValueError(f"model_name {self.model_name!r} is not the name of a folder")

    def resolved(self) -> Self:
        """The same with every derived default filled in, so that a resumed run keeps them."""
        return replace(
            self,
            min_learning_rate=_or(self.min_learning_rate, self.learning_rate / 10),
            decay_iters=_or(self.decay_iters, self.max_iters),
            checkpoint_interval=_or(self.checkpoint_interval, self.eval_interval or 1000),
        )

    @property
    def run_dir(self) -> Path:
        """Where this run keeps what it makes."""
        return Path(self.out_dir) / self.model_name

    @property
    def skipped(self) -> frozenset[int]:
        """The steps of the data that are left out."""
        steps: set[int] = set()
        for part in filter(None, (self.skip_steps or "").replace(" ", "").split(",")):
            first, _, last = part.partition("-")
            if not first.isdecimal() or not (last or first).isdecimal():
                raise ValueError(f"skip_steps has {part!r}; expected numbers: 120,400-410")
            steps.update(range(int(first), int(last or first) + 1))
        return frozenset(steps)

    @property
    def source(self) -> str:
        """The name of the one setting that says where the data is."""
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"{len(given)} are given: {', '.join(given)}" if given else "none is given"
            raise ValueError(
                "training reads from exactly one of --input_file, --dataset_dir and "
                f"--train_data_path; {found}\n\n"
                "hint: --input_file text.txt, or --dataset_dir data/corpus, or "
                "--train_data_path train.npy --val_data_path val.npy"
            )
        if self.val_data_path is not None and given[0] != "train_data_path":
            raise ValueError(f"--val_data_path goes with --train_data_path, not with --{given[0]}")
        return given[0]

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def load_config(
    config_file: str | None, flags: Mapping[str, Any], *, saved: Mapping[str, Any] | None = None
) -> TrainConfig:
    """Merge saved settings, a config file and flags (None: not given), the later winning."""
    merged = dict(saved or {})
    if config_file is not None:
        merged.update(_read_json(Path(config_file)))
    given = {name: value for name, value in flags.items() if value is not None}
    if any(name in given for name in SOURCES):  # another source replaces the saved one whole
        merged.update(dict.fromkeys([*SOURCES, "val_data_path"]))
    merged.update(given)
    return from_dict(merged, where=config_file or "the settings")


def from_dict(values: Mapping[str, Any], *, where: str) -> TrainConfig:
    """Build a config; an unknown name or a value of another type is an error."""
    known = {field.name: field for field in fields(TrainConfig)}
    for name, value in values.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"\n\nhint: did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"unknown setting {name!r} in {where}{hint}")
        _check_type(name, value, known[name].type, where)
    return TrainConfig(**values)


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
            hint=f"leave them out to go on with those in {saved.run_dir}/config.json, "
            "or start a new run with another --model_name",
        )


def _check_type(name: str, value: Any, wanted: Any, where: str) -> None:
    kinds = get_args(wanted) or (wanted,)
    fits = isinstance(value, wanted) or (float in kinds and isinstance(value, int))
    if not fits or (isinstance(value, bool) and bool not in kinds):
        expected = " or ".join(kind.__name__.removesuffix("Type") for kind in kinds)
        raise ValueError(f"{name} is {value!r} in {where}; expected {expected}")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"no config file {path} (looked in {Path.cwd()})") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds a {type(values).__name__}; expected an object of settings")
    return values


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
