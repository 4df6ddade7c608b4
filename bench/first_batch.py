"""Time and memory from nothing to the first shuffled batch, and to the one of the last step."""

import json
import sys
import time

began = time.perf_counter()
import tokenmill  # noqa: E402

folder, batch_size, block_size, where = sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4]

opened = time.perf_counter()
data = tokenmill.open(folder, split="all", dtype="uint16")
loader = tokenmill.BatchLoader(data, batch_size=batch_size, block_size=block_size, epochs=1)
if where == "last":
    state = loader.state_dict()
    state["samples"] = (len(loader) - 1) * batch_size
    loader.load_state_dict(state)
batch = next(iter(loader))
done = time.perf_counter()
with open("/proc/self/status") as status:
    own = next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
print(
    json.dumps(
        {
            "tokens": data.num_tokens,
            "shards": len(data.shards),
            "step": batch.step,
            "seconds": done - opened,
            "seconds_with_import": done - began,
            "own_memory_mb": own / 1e3,
        }
    )
)
