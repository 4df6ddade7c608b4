"""The history of a run: its edits, and what it was trained on when. Without torch, but for one.

run_folder.py     the checkpoints of a run, and what each says about itself
run_loader.py     the loader of a run, as it was at its last checkpoint
edit_requests.py  edits that are asked for while a run lives: edit_requests.jsonl
edit_words.py     what an edit changes, in words; edits as they are written in flags
ask_edits.py      asking for one, checked; what was asked for and what became of it
edits_file.py     the edits that were taken, and refused: edits.jsonl
take_edits.py     rank 0 reads what is asked for, all ranks take the same edits; needs torch
sources_plot.py   which sources were trained on, step by step, as a picture
trained_part.py   the part of run.html on what was trained on, and when
"""
