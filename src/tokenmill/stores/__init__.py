"""Objects at s3://, gs://, az:// and (read only) https:// addresses; imported for an address only.

  store_settings.py   endpoint and credentials, from each cloud's usual variables
  store_requests.py   the eight requests that are sent, by the library obstore
  forked_requests.py  the same from a forked process, through a helper
  request_threads.py  how many requests are under way at once, the most urgent first
  store_client.py     what is repeated, and what errors say
  objects.py          stat, list, read a range, upload and check, write under a condition
  globs.py            which objects match a glob, by the rules for files
  object_file.py      an object as a file that can be read and searched through
  stored_blocks.py    its content in blocks of 1 MiB, unpacked where it is compressed
  pieces_ahead.py     blocks and rows that are needed soon, many at once
  file_choice.py      which files are worth fetching whole
  store_reader.py     the tokens of many such files

No message ever shows credentials. `obstore` (extra `tokenmill[stores]`) is imported when the first
object is touched.
"""
