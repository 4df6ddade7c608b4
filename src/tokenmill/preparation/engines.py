"""Who runs the tasks of a preparation."""

from tokenmill.executors.local import LocalExecutor
from tokenmill.executors.ray import RayExecutor
from tokenmill.preparation.memory import Memory
from tokenmill.preparation.settings import one_of
from tokenmill.preparation.workspace import Workspace

ENGINES = ("local", "ray")


def check_engine(engine: str, ray_address: str | None) -> None:
    """Refuse what cannot be meant, before any file is touched."""
    one_of("engine", engine, ENGINES)
    if ray_address is not None and engine != "ray":
        raise ValueError(f'ray_address is {ray_address!r}, but engine is {engine!r}, not "ray"')


def open_engine(
    engine: str, memory: Memory, workers: int | None, ray_address: str | None, place: Workspace
) -> LocalExecutor | RayExecutor:
    """The executor by name; the caller closes it."""
    if engine == "ray":
        place.share()
        return RayExecutor(ray_address, at_once=workers, shared=str(place.plan_file.absolute()))
    return LocalExecutor(memory.workers)
