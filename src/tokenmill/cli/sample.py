"""`tokenmill sample`: generate text with a trained model."""

import click

from tokenmill.cli.outcome import Outcome, prints_outcome
from tokenmill.cli.train import needs_torch


@click.command(short_help="Generate text with a trained model")
@click.argument("run")
@click.option("--prompt", default="", help="Text to continue  [default: a new document]")
@click.option("--max_new_tokens", default=200, show_default=True, help="At most so many")
@click.option("--temperature", default=0.8, show_default=True, help="0 takes the likeliest token")
@click.option(
    "--top_k", default=200, show_default=True, help="Draw from the likeliest K; 0 from all"
)
@click.option("--seed", default=0, show_default=True, help="Equal seeds give equal text")
@click.option("--num_samples", default=1, show_default=True, help="With seeds SEED, SEED+1, ...")
@click.option("--device", default="auto", show_default=True)
@prints_outcome
def command(
    run: str,
    prompt: str,
    max_new_tokens: int,
    temperature: float,
    top_k: int,
    seed: int,
    num_samples: int,
    device: str,
    quiet: bool,
) -> Outcome:
    """Generate text with the model of RUN, the folder that `tokenmill train` made.

    \b
    Examples:
        tokenmill sample runs/gpt --prompt "def main("
        tokenmill sample runs/gpt --temperature 0 --max_new_tokens 50
    """
    needs_torch("tokenmill sample")
    from tokenmill.train.sample import sample

    samples = [
        {
            "seed": seed + i,
            "text": sample(
                run,
                prompt,
                max_new_tokens=max_new_tokens,
                temperature=temperature,
                top_k=top_k or None,
                seed=seed + i,
                device=device,
            ),
        }
        for i in range(num_samples)
    ]
    return Outcome(samples, results=[_without_controls(str(each["text"])) for each in samples])


def _without_controls(text: str) -> str:
    """A model may draw escape sequences; a terminal must not obey them."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
