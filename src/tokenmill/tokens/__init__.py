"""Documents become ids: the tokenizer protocol, loading one by name, encoding."""
