"""Objects at s3://, gs://, az:// and (read only) https:// addresses; imported for an address only.

objects.py has the operations, store_reader.py reads tokens. No message ever shows credentials.
"""
