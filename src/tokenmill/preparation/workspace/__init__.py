"""The folder of a preparation, and where its result goes.

work_folder.py      `.preparation/`: its files, tasks and their receipts
target.py           a new folder, a dataset that is added to, or one that is replaced
folder_contents.py  what is in the output folder already
upload_shards.py    the same for a dataset in a bucket
"""
