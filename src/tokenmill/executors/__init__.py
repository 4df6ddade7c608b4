"""Executors run tasks; these modules know only tasks, never text or tokens.

executor.py   what an executor is, and which there are
local.py      processes of this machine
worker.py     the other end of local.py
ray.py        a Ray cluster
numbered.py   part K of N, for numbered jobs that never talk to each other
"""
