"""Object storage: files at `s3://bucket/key`, read by range and written whole.

  address.py         what an address looks like
  object_client.py   one client a process; retries, timeouts, and errors that name bucket and key
  objects.py         stat, list, read a range, upload and check, put only if absent
  object_file.py     an object as a file that can be read and searched through

Credentials and endpoint are those of the AWS command (environment, ~/.aws); no message ever
shows them. `s3fs` (extra `tokenmill[s3]`) is imported when the first object is touched.
"""

from tokenmill.storage.address import check_address, is_remote, join

__all__ = ["check_address", "is_remote", "join"]
