"""Objects at s3://, gs://, az:// and (read only) https:// addresses; imported for an address only.

  store_settings.py    endpoint and credentials, from each cloud's usual variables
  store_requests.py    the requests that are sent, by the library obstore
  request_threads.py   the threads that wait for them
  forked_requests.py   requests from a forked process, through a helper
  store_client.py      start an operation, read again what is wrong, say what failed
  objects.py           stat, list, read a range, upload and check, write under a condition
  globs.py             which objects match a glob, by the rules for files
  object_file.py       an object as a file that can be read and searched through
  stored_blocks.py     the content of an object in checked blocks of 1 MiB, or whole
  pieces_in_memory.py  blocks and rows that were used last, and those that are needed next
  store_reader.py      the tokens of many objects, from blocks or through the cache
  store_spans.py       spans of such files: fetched ahead, then mapped or read

No message ever shows credentials. `obstore` (extra `tokenmill[stores]`) is imported when the first
object is touched.
"""
