"""Which window comes when: integers in, integers out, no files."""
