"""What a run leaves in its folder.

checkpoint.py  one folder a step, complete or not there
metrics.py     the numbers of every step: metrics.jsonl, TensorBoard, W&B
curve.py       loss.svg, drawn from them
train_progress.py  the line that a run prints
"""
