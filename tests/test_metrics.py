"""The numbers of a loader, as others read them."""

import builtins

import numpy as np
import pytest
from opentelemetry.metrics import _internal as internal
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

import tokenmill
from tokenmill.errors import MissingExtraError
from tokenmill.torch import TorchLoader


@pytest.fixture
def loader():
    data = tokenmill.from_array(np.arange(100_000, dtype=np.uint32))
    loader = tokenmill.BatchLoader(data, batch_size=4, block_size=32)
    for _ in range(50):
        next(loader)
    yield loader
    loader.close()


def test_stats_have_the_times_of_each_stage(loader):
    stats = loader.stats()

    assert list(stats["stages"]) == ["wait", "order", "read", "fetch", "copy"]
    assert 1 <= stats["stages"]["wait"]["count"] <= 50  # steps that took long enough to count
    assert 0 < stats["stages"]["wait"]["seconds"] <= stats["seconds_waited"]
    assert stats["stages"]["fetch"]["count"] == stats["stages"]["copy"]["count"] == 0
    for name in ("order", "read"):
        times = stats["stages"][name]
        assert times["count"] > 0
        assert 0 < times["p50"] <= times["p95"] <= times["p99"] <= times["max"]
        assert times["max"] <= times["seconds"] <= 1.001 * times["count"] * times["max"]
    assert 0 <= stats["queue_depth"] <= 2


def test_they_count_on_after_a_resume(loader):
    before = loader.stats()["stages"]["order"]["count"]
    loader.load_state_dict(loader.state_dict())
    next(loader)

    assert loader.stats()["stages"]["order"]["count"] > before


def test_copies_to_a_device_are_a_stage():
    data = tokenmill.from_array(np.arange(10_000, dtype=np.uint32))
    loader = TorchLoader(data, batch_size=4, block_size=32, device="meta")
    for _ in range(3):
        next(loader)
    loader.close()

    assert loader.stats()["stages"]["copy"]["count"] == 3


def test_prometheus_reads_the_text(loader):
    text = tokenmill.metrics.prometheus(loader, rank=0, run='a "run"\nof\\mine')
    families = {family.name: family for family in text_string_to_metric_families(text)}
    stats = loader.stats()

    types = {name: family.type for name, family in families.items()}
    assert types == {
        "tokenmill_steps": "counter",
        "tokenmill_tokens": "counter",
        "tokenmill_queue_depth": "gauge",
        "tokenmill_stage_runs": "counter",
        "tokenmill_stage_seconds": "counter",
        **{f"tokenmill_stage_{name}_seconds": "gauge" for name in ("p50", "p95", "p99", "max")},
    }
    (steps,) = families["tokenmill_steps"].samples
    assert steps.labels == {"rank": "0", "run": 'a "run"\nof\\mine'}
    assert steps.value == 50
    longest = families["tokenmill_stage_max_seconds"].samples
    found = {sample.labels["stage"]: sample.value for sample in longest}
    assert found == {stage: times["max"] for stage, times in stats["stages"].items()}


def test_opentelemetry_reads_them_until_the_loader_is_gone(monkeypatch):
    reader = InMemoryMetricReader()
    monkeypatch.setattr(internal, "_METER_PROVIDER", MeterProvider([reader]))
    data = tokenmill.from_array(np.arange(10_000, dtype=np.uint32))
    loader = tokenmill.BatchLoader(data, batch_size=4, block_size=32)
    next(loader)
    tokenmill.metrics.opentelemetry(loader, rank=3)

    def points():
        found = reader.get_metrics_data()
        scopes = [s for r in found.resource_metrics for s in r.scope_metrics] if found else []
        metrics = [metric for scope in scopes for metric in scope.metrics]
        return {metric.name: list(metric.data.data_points) for metric in metrics}

    seen = points()
    loader.close()
    steps = seen["tokenmill_steps_total"][0]
    del loader

    assert (steps.value, dict(steps.attributes)) == (1, {"rank": 3})
    assert {p.attributes["stage"] for p in seen["tokenmill_stage_p99_seconds"]} == {
        *("wait", "order", "read", "fetch", "copy")
    }
    assert not any(points().values())


def test_without_opentelemetry_the_error_says_how_to_install_it(loader, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)

    with pytest.raises(MissingExtraError, match="opentelemetry-api"):
        tokenmill.metrics.opentelemetry(loader)
