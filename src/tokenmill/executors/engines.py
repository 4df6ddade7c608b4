"""Executors by name."""

from tokenmill.executors.local import LocalExecutor
from tokenmill.executors.ray import RayExecutor

ENGINES = ("local", "ray")


def check_engine(engine: str, ray_address: str | None) -> None:
    """Refuse what cannot be meant, before any file is touched."""
    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; known are: {', '.join(ENGINES)}")
    if ray_address is not None and engine != "ray":
        raise ValueError(f'ray_address is {ray_address!r}, but engine is {engine!r}, not "ray"')


def open_engine(
    engine: str, *, processes: int, at_once: int | None, ray_address: str | None, shared: str
) -> LocalExecutor | RayExecutor:
    """The executor; the caller closes it.

    `processes` run on this machine; or, on Ray, up to `at_once` tasks on machines that all see the
    path `shared`.
    """
    if engine == "ray":
        return RayExecutor(ray_address, at_once=at_once, shared=shared)
    return LocalExecutor(processes)
