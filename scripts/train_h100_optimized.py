"""`tokenmill train` with the settings for one H100, configs/h100.json.

    python scripts/train_h100_optimized.py
    python scripts/train_h100_optimized.py --train_data_path train.npy --val_data_path val.npy \
        --batch_size 64

Every flag of `tokenmill train` is a flag here, and wins over the file: bf16, torch.compile, 480
windows per step over all GPUs in pieces of 32. There are no workers to choose: one thread reads
ahead, and `data_wait` in metrics.jsonl is the share of time that the GPU waits for it.
"""

import sys
from pathlib import Path

from tokenmill.cli import main

CONFIG = Path(__file__).parents[1] / "configs" / "h100.json"
FILES = ["--train_data_path", "training_data/owt_train_tokens.npy"]
FILES += ["--val_data_path", "training_data/owt_valid_tokens.npy"]


def with_defaults(arguments: list[str]) -> list[str]:
    """The arguments, with the config and the files of the first example where none are given."""
    given = {word.partition("=")[0].lstrip("-").replace("-", "_") for word in arguments}
    config = [] if "config_file" in given else ["--config_file", str(CONFIG)]
    sources = {"input_file", "dataset_dir", "train_data_path", "help"}
    return [*config, *([] if given & sources else FILES), *arguments]


if __name__ == "__main__":
    main(["train", *with_defaults(sys.argv[1:])])
