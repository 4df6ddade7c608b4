"""The folder a preparation works in, and the place its result goes to.

A preparation works in `OUT/.preparation/`. Whatever is there can be thrown away and done again;
finished tasks are known by their receipts, and OUT is not a dataset until its manifest is written,
last.

work_folder.py      `.preparation/`: its files, tasks and their receipts
receipt_log.py      finished tasks: each process writes a log, everyone reads all
target.py           a new folder, a dataset that is added to, or one that is replaced
folder_contents.py  what is in the output folder already
recorded_sources.py  the inputs of a dataset, one by one or by folder
old_dataset.py      manifest and documents of the dataset that is added to
trained_folder.py   the folder of a trained tokenizer
remote_target.py    a target in a bucket
claim.py            one writer per prefix of a bucket
upload_shards.py    finished shards go to the bucket
"""
