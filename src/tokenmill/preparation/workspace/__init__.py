"""The folder a preparation works in, and the place its result goes to.

work_folder.py       `.preparation/`: its files, tasks and their receipts
receipt_log.py       finished tasks: each process writes a log, everyone reads all
target.py            a new folder, a dataset that is added to, or one that is replaced
existing_dataset.py  what is in the output already: whole, the same, and what may be added
remote_target.py     a target in a bucket: one writer per prefix, and what it uploads
"""
