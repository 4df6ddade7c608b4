"""One door to stores: objects at s3://, gs://, az:// and (only read) https:// addresses.

  address.py          what an address looks like
  store_settings.py   endpoint and credentials, from each cloud's usual variables
  store_requests.py   the eight requests that are sent, by the library obstore
  forked_requests.py  the same from a forked process, through a helper
  request_threads.py  how many requests are under way at once, the most urgent first
  store_client.py     what is repeated, and what errors say
  objects.py          stat, list, read a range, upload and check, write under a condition
  globs.py            which objects match a glob, by the rules for files
  object_file.py      an object as a file that can be read and searched through
  remote_file.py      one object of a dataset, and how its bytes are known to be the right ones
  stored_blocks.py    its content in blocks of 1 MiB, unpacked where it is compressed
  pieces_ahead.py     blocks and rows that are needed soon, many at once
  file_choice.py      which files are worth fetching whole
  store_reader.py     the tokens of many such files

No message ever shows credentials. `obstore` (extra `tokenmill[stores]`) is imported when the first
object is touched.
"""

from tokenmill.stores.address import check_address, is_remote, join

__all__ = ["check_address", "is_remote", "join"]
