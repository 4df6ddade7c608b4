"""Text from a trained model: the last checkpoint of a run and the tokenizer kept with it."""

from pathlib import Path

import numpy as np
import torch

from tokenmill.errors import NotADatasetError
from tokenmill.tokens import load_tokenizer
from tokenmill.train import checkpoint
from tokenmill.train.collectives import local_device
from tokenmill.train.config import load_config
from tokenmill.train.model import GPT, generate


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
    folder = checkpoint.existing_latest(Path(run_dir))
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
    )
    new = out[len(start) :].cpu().numpy()
    return prompt + tokenizer.decode(new[new != tokenizer.end_of_text_id]).decode(errors="replace")
