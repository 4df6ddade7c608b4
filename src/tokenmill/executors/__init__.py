"""Executors run tasks; these modules know only tasks, never text or tokens."""
