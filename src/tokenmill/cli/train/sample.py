"""`tokenmill sample`: generate text with a trained model."""

import click


@click.command(short_help="Generate text with a trained model")
@click.argument("run")
@click.option("--prompt", default="", help="Text to continue  [default: a new document]")
@click.option("--max-new-tokens", default=200, show_default=True, help="At most so many")
@click.option("--temperature", default=0.8, show_default=True, help="0 takes the likeliest token")
@click.option(
    "--top-k", default=200, show_default=True, help="Draw from the likeliest K; 0 from all"
)
@click.option("--seed", default=0, show_default=True, help="Equal seeds give equal text")
@click.option("--num-samples", default=1, show_default=True, help="With seeds SEED, SEED+1, ...")
@click.option("--device", default="auto", show_default=True)
def command(
    run: str,
    prompt: str,
    max_new_tokens: int,
    temperature: float,
    top_k: int,
    seed: int,
    num_samples: int,
    device: str,
) -> None:
    """Generate text with the model of RUN, the folder that `tokenmill train` made.

    \b
    Examples:
        tokenmill sample runs/gpt --prompt "def main("
        tokenmill sample runs/gpt --temperature 0 --max-new-tokens 50
    """
    from tokenmill.errors import MissingExtraError

    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("tokenmill sample", package="torch", extra="torch") from None
    from tokenmill.train.sample import sample

    for i in range(num_samples):
        text = sample(
            run,
            prompt,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k or None,
            seed=seed + i,
            device=device,
        )
        click.echo(_without_controls(text))


def _without_controls(text: str) -> str:
    """A model may draw escape sequences; a terminal must not obey them."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )
