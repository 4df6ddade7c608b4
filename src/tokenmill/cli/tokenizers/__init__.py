"""Commands about tokenizers.

tokenizer.py        the command `tokenizer`, which has the others
tokenizer_train.py  `tokenizer train`: merges from text files
"""
