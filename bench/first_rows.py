"""Time and memory from nothing to the first batch of packed rows, with the index there or not."""

import json
import sys
import time

began = time.perf_counter()
import tokenmill  # noqa: E402
from tokenmill.batches import BatchForm  # noqa: E402

path, batch_size, block_size = sys.argv[1], *map(int, sys.argv[2:4])

opened, used = time.perf_counter(), time.process_time()
data = tokenmill.open(path, split="all", dtype="uint16")
index = data.documents_by_length()
indexed, indexed_used = time.perf_counter(), time.process_time()
loader = tokenmill.BatchLoader(
    data, rows="packed", batch_size=batch_size, block_size=block_size, form=BatchForm(prefetch=0)
)
next(loader)
done, done_used = time.perf_counter(), time.process_time()
with open("/proc/self/status") as status:
    own = next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
print(
    json.dumps(
        {
            "documents": len(index.starts),
            "seconds_index": indexed - opened,
            "cpu_seconds_index": indexed_used - used,
            "seconds": done - opened,
            "cpu_seconds": done_used - used,
            "seconds_with_import": done - began,
            "own_mb": own / 1024,
        }
    )
)
