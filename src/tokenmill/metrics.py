"""The numbers of a loader for other programs: as text for Prometheus, to OpenTelemetry's API.

Path("loader.prom").write_text(prometheus(loader, rank=0))  # node_exporter reads such files
opentelemetry(loader, rank=0)  # once; the reader of your SDK then asks for them
"""

import weakref
from functools import partial
from typing import Any

from tokenmill.batches.loader import BatchLoader
from tokenmill.errors import MissingExtraError

_QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}
Value = tuple[str, dict[str, Any], float]
"""Name, which ends with `_total` if it is a counter; labels; value."""


def prometheus(loader: BatchLoader, **labels: object) -> str:
    """Return all numbers in the text format of Prometheus, each with these labels."""
    lines: dict[str, None] = {}  # the type of a metric is stated once, before its values
    for name, own, value in sorted(_values(loader), key=lambda value: value[0]):
        kind = "counter" if name.endswith("_total") else "gauge"
        pairs = ",".join(f'{key}="{_escaped(label)}"' for key, label in {**labels, **own}.items())
        lines[f"# TYPE tokenmill_{name} {kind}"] = None
        lines[f"tokenmill_{name}{{{pairs}}} {value}"] = None
    return "\n".join(lines) + "\n"


def opentelemetry(loader: BatchLoader, **attributes: Any) -> None:
    """Register an instrument for each number; they say nothing once the loader is gone."""
    try:
        from opentelemetry.metrics import Observation, get_meter
    except ImportError:
        what = "tokenmill.metrics.opentelemetry"
        raise MissingExtraError(what, package="opentelemetry-api", extra="metrics") from None
    meter = get_meter("tokenmill")
    known = weakref.ref(loader)

    def observe(wanted: str, _: object) -> list[Any]:
        values = [] if (alive := known()) is None else _values(alive)
        return [Observation(v, {**attributes, **own}) for name, own, v in values if name == wanted]

    for name in {name for name, _, _ in _values(loader)}:
        kind = "counter" if name.endswith("_total") else "gauge"
        create = getattr(meter, f"create_observable_{kind}")
        create(f"tokenmill_{name}", callbacks=[partial(observe, name)])


def _values(loader: BatchLoader) -> list[Value]:
    stats = loader.stats()
    values: list[Value] = [
        ("steps_total", {}, stats["steps_here"]),
        ("tokens_total", {}, stats["tokens"]),
        ("queue_depth", {}, stats["queue_depth"]),
    ]
    for stage, times in stats["stages"].items():
        named = {"stage": stage}
        values.append(("stage_seconds_total", named, times["seconds"]))
        values.append(("stage_runs_total", named, times["count"]))
        for key, quantile in _QUANTILES.items():
            values.append(("stage_quantile_seconds", {**named, "quantile": quantile}, times[key]))
    return values


def _escaped(label: object) -> str:
    return str(label).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
