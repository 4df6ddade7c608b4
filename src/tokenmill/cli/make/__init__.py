"""Commands that make a dataset.

prepare.py        text files into shards; `prepare plan` writes only the plan
prepare_jobs.py   `prepare work`, `status`, `finish` and `slurm`: the plan as numbered jobs
pretokenize.py    one text file into one .npy beside it
retokenize.py     the documents of a dataset with another tokenizer
download.py       token shards from the Hugging Face hub
upload.py         a dataset to the hub
convert.py        any format into another
"""
