"""Objects at s3://, gs://, az:// and (read only) https:// addresses; imported for an address only.

  store_settings.py    endpoint and credentials, from each cloud's usual variables
  store_requests.py    the requests that are sent, by the library obstore
  forked_requests.py   requests from a forked process, through a helper
  store_client.py      start an operation, read again what is wrong, say what failed
  objects.py           stat, list, read a range, upload and check, write under a condition
  object_file.py       an object as a file that can be read and searched through
  fetch_ahead.py       what an order needs next, fetched by threads before it is asked for
  store_reader.py      the tokens of many objects: in checked blocks, whole, or row by row

No message ever shows credentials. `obstore` (extra `tokenmill[stores]`) is imported when the first
object is touched.
"""
