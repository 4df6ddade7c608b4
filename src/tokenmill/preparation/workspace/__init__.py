"""The folder of a preparation, and where its result goes.

work_folder.py      `.preparation/`: its files, tasks and their receipts
under_way.py        how far the units of the running stage are, to be shown
target.py           a new folder, a dataset that is added to, or one that is replaced
trained_folder.py   the folder of a trained tokenizer
folder_contents.py  what is in the output folder already
old_dataset.py      the dataset that is added to, on the disk or in a bucket
remote_target.py    the same for a dataset in a bucket
claim.py            who writes to a prefix of a bucket
upload_shards.py    shards go to a bucket as they are finished
"""
