"""Commands about tokenizers.

tokenizer.py          the command `tokenizer`, which has the others
tokenizer_train.py    `tokenizer train`: merges from text files
tokenizer_show.py     `tokenizer show`: what is in one
tokenizer_compare.py  `tokenizer compare`: two on the same text
"""
