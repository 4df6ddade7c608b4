"""The history of a run, read from its folder without torch.

run_folder.py   the checkpoints of a run, and what each says about itself
run_loader.py   the loader of a run, as it was at its last checkpoint
"""
