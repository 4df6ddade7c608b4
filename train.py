"""Train a GPT: `python train.py ...` is `tokenmill train ...`, and what torchrun starts.

python train.py --model_name my_model --input_file input.txt
python train.py --model_name my_model --dataset_dir data/my_dataset
torchrun --nproc_per_node=8 train.py --dataset_dir data/my_dataset --resume
"""

import sys

from tokenmill.cli import main

if __name__ == "__main__":
    main(["train", *sys.argv[1:]])
