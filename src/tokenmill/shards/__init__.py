"""Ids become files: layout, write, manifest, read, verify."""
