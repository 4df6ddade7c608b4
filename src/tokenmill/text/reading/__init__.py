"""One unit of one source becomes chunks of documents, in bounded memory.

read.py            `read_unit`: the reader for a kind of source, and the law that all obey
chunks.py          the rules of reading, and a chunk of documents
bad_input.py       reasons, places and errors; what is not UTF-8
document_rules.py  where documents begin and end in a text: file, line, paragraph, separator
cut_pieces.py      where a unit of text really begins; it becomes pieces of documents
read_text.py       text files
read_jsonl.py      JSON lines
read_csv.py        CSV files
read_parquet.py    parquet files
"""
