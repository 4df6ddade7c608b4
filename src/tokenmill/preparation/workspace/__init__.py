"""The folder of a preparation, and where its result goes.

work_folder.py      `.preparation/`: its files, tasks and their receipts
receipt_log.py      which tasks are done: a log of each process, read by all
under_way.py        how far the units of the running stage are, to be shown
target.py           a new folder, a dataset that is added to, or one that is replaced
trained_folder.py   the folder of a trained tokenizer
folder_contents.py  what is in the output folder already
recorded_sources.py  the inputs of a dataset, one by one or by folder
old_dataset.py      the dataset that is added to, on the disk or in a bucket
remote_target.py    the same for a dataset in a bucket
claim.py            who writes to a prefix of a bucket
upload_shards.py    shards go to a bucket as they are finished
"""
