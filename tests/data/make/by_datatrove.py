"""Two .ds files with index and metadata by datatrove's TokenizedFile, and one of 4-byte tokens."""

import importlib.metadata

from datatrove.pipeline.tokens.tokenizer import TokenizedFile

from documents import documents, fresh

folder = fresh("datatrove")
for number, part in enumerate([documents()[:9], documents()[9:]]):
    file = TokenizedFile(
        str(folder),
        f"{number:03d}_corpus.ds",
        tokenizer_name_or_path="gpt2",
        save_final_metadata=True,
        token_size=2,
    )
    for document in part:
        file.write(document, None)
    file.close()

folder = fresh("datatrove_uint32")
file = TokenizedFile(str(folder), "corpus.ds", save_final_metadata=True, token_size=4)
for document in documents():
    file.write(document, None)
file.close()
print("datatrove", importlib.metadata.version("datatrove"))
