"""What users call: `train` starts or resumes a run, `sample` gives text from its model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tokenmill.base.human import human_count
from tokenmill.base.progress import open_progress
from tokenmill.base.signals import listen_for_stop
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.errors import LockedError, NotADatasetError
from tokenmill.tokens import load_tokenizer
from tokenmill.torch.world import find_ranks
from tokenmill.train import checkpoint
from tokenmill.train.checkpoint import existing_latest, latest, read_state
from tokenmill.train.choose_model import MODEL, choose_model, choose_tokenizer
from tokenmill.train.collectives import barrier, local_device, process_group
from tokenmill.train.config import TrainConfig, check_same_run, load_config
from tokenmill.train.loop import Trainer, TrainResult
from tokenmill.train.model import GPT, generate
from tokenmill.train.run_data import describe_run, open_data
from tokenmill.train.run_record import check_loggers


@takes_keywords_of(TrainConfig)
def train(
    settings: Mapping[str, Any] | None = None,
    *,
    config_file: str | None = None,
    resume: bool = False,
    quiet: bool = False,
    **keywords: Any,
) -> TrainResult:
    """Train a GPT; the keywords are the settings of `TrainConfig`, which also says what each means.

    They win over the config file, and may be given as a mapping, `settings`, as well. Without a
    config file a model is chosen that fits the data and the device. With `resume`
    a run continues from its last checkpoint, or starts when it has none: the same command can be
    given again and again.
    """
    merged = {**(settings or {}), **keywords}
    given = {name: value for name, value in merged.items() if value is not None}
    world_size = find_ranks().world_size
    config = load_config(config_file, given)
    saved = latest(config.run_dir) if resume else None
    if saved is not None:
        old = read_state(saved)["config"]
        config = load_config(config_file, given, saved=old)
        check_same_run(load_config(None, old), config.resolved(world_size))
    is_free = saved is None and config_file is None and not given.keys() & set(MODEL)
    asked = choose_tokenizer(config) if is_free else config
    config = asked.resolved(world_size)
    _ = config.source  # exactly one, before anything is touched
    check_loggers(config)
    device = local_device(config.device)
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    with (
        listen_for_stop() as stop,
        process_group(device) as ranks,
        open_progress(quiet=quiet or ranks.rank > 0) as progress,
    ):
        old_run = not resume and (config.run_dir / "metrics.jsonl").exists()
        if saved is None and (old_run or latest(config.run_dir) is not None):
            raise LockedError(
                f"{config.run_dir} holds a run already",
                hint="resume=True continues it; another model_name= starts a new one",
            )
        barrier()  # every rank has looked before one writes
        data = open_data(config, progress.say)
        if is_free:
            asked, words = choose_model(asked, data, device, given)
            config = asked.resolved(world_size)
            progress.say(words)
        trainer = Trainer(config, data, device=device, ranks=ranks, progress=progress)
        if saved is not None:
            trainer.restore(checkpoint.load(saved, device=device))
        if ranks.rank == 0:
            checkpoint.remove_leftovers(config.run_dir, keep=config.keep_checkpoints)
            describe_run(config, data)
        progress.say(
            f"{config.model_name}: {human_count(trainer.model.num_parameters)} parameters "
            f"on {device}; {ranks}{trainer.words_of_step()}"
            + (f"; resumed at step {trainer.step:,}" if trainer.step else "")
        )
        return trainer.run(stop)


def sample(
    run_dir: str | Path,
    prompt: str = "",
    *,
    max_new_tokens: int = 200,
    temperature: float = 0.8,
    top_k: int | None = 200,
    seed: int = 0,
    device: str = "auto",
) -> str:
    """Continue `prompt`; without one, start a new document. Equal arguments give equal text."""
    folder = existing_latest(Path(run_dir))
    if temperature < 0:
        raise ValueError(f"temperature is {temperature}; expected 0 (likeliest token) or more")
    place = local_device(device)
    saved = checkpoint.load(folder, device=place, optimizer=False)
    model = GPT(load_config(None, saved.state["config"]), saved.state["vocab_size"]).to(place)
    model.load_state_dict(saved.model)
    state_file = Path(run_dir) / "tokenizer_state.json"
    if not state_file.exists():
        raise NotADatasetError(
            f"{run_dir} has no tokenizer_state.json: the model was trained on ids alone",
            hint="train with tokenizer= to get text",
        )
    tokenizer = load_tokenizer.from_bytes(state_file.read_bytes(), str(state_file))
    ids = tokenizer.encode_batch([prompt.encode()])[0].astype(np.int64)
    start = ids if len(ids) else np.array([tokenizer.end_of_text_id])
    out = generate(
        model,
        torch.from_numpy(start).to(place),
        max_new_tokens,
        temperature=temperature,
        top_k=top_k,
        seed=seed,
        stop_id=tokenizer.end_of_text_id,
        num_ids=tokenizer.vocab_size,
    )
    new = out[len(start) :].cpu().numpy()
    return prompt + tokenizer.decode(new[new != tokenizer.end_of_text_id]).decode(errors="replace")
