"""The numbers of a loader for other programs: as text for Prometheus, to OpenTelemetry's API."""

import weakref
from typing import Any

from tokenmill.batches.loader import BatchLoader
from tokenmill.errors import MissingExtraError

_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_COUNTERS = {"count": "stage_runs_total", "seconds": "stage_seconds_total"}


def prometheus(loader: BatchLoader, **labels: object) -> str:
    """Return all numbers in Prometheus' text format, with labels such as `rank=0`."""
    lines = []
    for name, values in _metrics(loader).items():
        lines.append(f"# TYPE tokenmill_{name} {_kind(name)}")
        for value, own in values:
            pairs = {**labels, **own}.items()
            shown = ",".join(f'{key}="{str(label).translate(_ESCAPED)}"' for key, label in pairs)
            lines.append(f"tokenmill_{name}{{{shown}}} {value}")
    return "\n".join(lines) + "\n"


def opentelemetry(loader: BatchLoader, **attributes: Any) -> None:
    """Register an instrument for each number, once; they end with the loader."""
    try:
        from opentelemetry.metrics import Observation, get_meter
    except ImportError:
        what = "tokenmill.metrics.opentelemetry"
        raise MissingExtraError(what, package="opentelemetry-api", extra="metrics") from None
    known = weakref.ref(loader)
    for name in _metrics(loader):

        def observe(_: object, name: str = name) -> list[Any]:
            values = [] if (alive := known()) is None else _metrics(alive)[name]
            return [Observation(value, {**attributes, **own}) for value, own in values]

        create = getattr(get_meter("tokenmill"), f"create_observable_{_kind(name)}")
        create(f"tokenmill_{name}", callbacks=[observe])


def _kind(name: str) -> str:
    return "counter" if name.endswith("_total") else "gauge"


def _metrics(loader: BatchLoader) -> dict[str, list[tuple[float, dict[str, str]]]]:
    """Return the values of each metric, each with its labels."""
    stats = loader.stats()
    named = {"steps_total": "steps_here", "tokens_total": "tokens", "queue_depth": "queue_depth"}
    metrics: dict[str, Any] = {name: [(stats[key], {})] for name, key in named.items()}
    for stage, times in stats["stages"].items():
        for key, value in times.items():
            name = _COUNTERS.get(key, f"stage_{key}_seconds")
            metrics.setdefault(name, []).append((value, {"stage": stage}))
    return metrics
