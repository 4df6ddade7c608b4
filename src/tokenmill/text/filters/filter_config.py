"""Which filters are asked for, and all their thresholds: what the manifest states."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson

from tokenmill.base.suggest import one_of
from tokenmill.text.filters.rule import load_filter


def checked_filters(
    names: str | None, config: str | Mapping[str, Any] | None
) -> dict[str, dict[str, Any]] | None:
    """Return the thresholds of every filter, also those that are as usual; None without filters."""
    if names is None:
        raise ValueError("filter_config is given without filter; name the filters: filter='length'")
    wanted = names.split(",")
    given = _read(config)
    for name in given:
        one_of("filter_config", name, wanted)
    if len(set(wanted)) < len(wanted):
        raise ValueError(f"filter is {names!r}: a filter is named twice")
    rules = {name: load_filter(name, given.get(name, {})) for name in wanted}
    # As JSON has them, so that they are equal to those that a plan was written with.
    found: dict[str, dict[str, Any]] = orjson.loads(
        orjson.dumps({name: asdict(rule) for name, rule in rules.items()})  # type: ignore[call-overload]
    )
    return found


def _read(config: str | Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return what a file of JSON says, or JSON itself."""
    if config is None:
        return {}
    if isinstance(config, str):
        text = config
        if not config.lstrip().startswith("{"):
            try:
                with open(config, encoding="utf-8") as file:
                    text = file.read()
            except OSError as error:
                raise ValueError(
                    f"cannot read filter_config {config!r}: {os.strerror(error.errno or 0)}"
                ) from error
        try:
            config = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"filter_config {config!r} is not JSON: {error}") from None
    if not isinstance(config, Mapping) or not all(isinstance(v, Mapping) for v in config.values()):
        raise ValueError(
            f"filter_config is {config!r}; expected are thresholds by filter, such as "
            '{"length": {"min_characters": 100}}'
        )
    return config
