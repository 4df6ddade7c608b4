"""Virtual environments of the peers: each project in one of its own, made when first needed."""

import subprocess
import sys
from pathlib import Path

CACHE = Path.home() / ".cache" / "tokenmill-bench"
CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"

# What each peer needs beyond its own name, and why.
PACKAGES = {
    "datatrove": ["datatrove[io,processing]", "tokenizers", "orjson", "spacy", "nltk", "regex"],
    "dolma": [
        "dolma",
        "fasttext-wheel",
        "setuptools<81",
    ],  # it imports both without asking for them
    "nanogpt": ["tiktoken", "numpy", "tqdm"],
    "megatron": ["torch", "megatron-core", "numpy", "six", "regex", "pybind11"],
    "mosaic": ["torch", "mosaicml-streaming"],  # imports torchvision: see rivals/
    "litdata": ["torch", "litdata"],
    "grain": ["grain", "numpy"],
    "trl": ["trl", "datasets", "torch"],
}


def python_of(name: str, venvs: Path | None = None) -> Path | None:
    """The interpreter of a peer's environment; None, with a message, when it cannot be made."""
    folder = (venvs or CACHE) / name
    python = folder / "bin" / "python"
    if python.exists():
        return python
    print(f"making an environment for {name} in {folder}", file=sys.stderr)
    install = ["-m", "pip", "install", "--quiet", "-c", str(CONSTRAINTS), *PACKAGES[name]]
    for command in ([sys.executable, "-m", "venv", str(folder)], [str(python), *install]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"skipping {name}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
            return None
    return python
