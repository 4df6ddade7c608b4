"""`tokenmill sample`: generate text with a trained model."""

from typing import Any

import click

from tokenmill.cli.flags import value
from tokenmill.cli.outcome import Outcome, OutcomeCommand
from tokenmill.cli.train import needs_torch


@click.command(cls=OutcomeCommand)
@click.argument("run")
@value("--prompt", "TEXT", "Text to continue  [default: a new document]")
@value("--max_new_tokens", "N", "At most so many", default=200)
@value("--temperature", "X", "0 takes the likeliest token", default=0.8)
@value("--top_k", "K", "Draw from the likeliest K; 0 from all", default=200)
@value("--seed", "N", "Equal seeds give equal text", default=0)
@value("--num_samples", "N", "With seeds SEED, SEED+1, ...", default=1)
@value("--device", "NAME", "`cpu`, `cuda`, `cuda:1` or `mps`", default="auto")
def command(
    run: str, prompt: str | None, top_k: int, seed: int, num_samples: int, **how: Any
) -> Outcome:
    """Generate text with the model of RUN, the folder that `tokenmill train` made.

    \b
    Examples:
        tokenmill sample runs/gpt --prompt "def main("
        tokenmill sample runs/gpt --temperature 0 --max_new_tokens 50
    """
    needs_torch("tokenmill sample")
    from tokenmill.train.start import sample

    samples = [
        {"seed": s, "text": sample(run, prompt or "", top_k=top_k or None, seed=s, **how)}
        for s in range(seed, seed + num_samples)
    ]
    return Outcome(samples, results=[str(each["text"]) for each in samples])
