"""datatrove: JSON lines through its own pipeline, one task a worker."""

import sys
from pathlib import Path

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer

tokenizer, folder, out, workers = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])

if __name__ == "__main__":
    LocalPipelineExecutor(
        pipeline=[
            JsonlReader(folder, glob_pattern="*.jsonl"),
            DocumentTokenizer(
                str(out / "tokens"),
                tokenizer_name_or_path=tokenizer,
                eos_token="<|endoftext|>",
                shuffle_documents=False,
            ),
        ],
        tasks=workers,
        workers=workers,
        logging_dir=str(out / "logs"),
    ).run()
