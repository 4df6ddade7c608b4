"""Executors run tasks; these modules know only tasks, never text or tokens.

executor.py         the interface of an executor; `Engine` opens one by its name
local.py            processes of this machine
worker_process.py   one of those processes, seen from its parent
worker.py           the program that such a process runs
ray.py              a Ray cluster
numbered.py         part K of N, for numbered jobs that never talk to each other
"""
