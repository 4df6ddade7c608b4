"""The stages of a preparation, a task at a time; the order is in prepare.py.

parts.py is what is between them: encoded documents on disk.
"""
