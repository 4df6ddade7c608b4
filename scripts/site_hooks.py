"""What the site takes from the running code: the help of a command, and complete signatures.

zensical.toml names both; `make site` puts this folder on the path.
"""

import html
import importlib
import inspect
from typing import Any

import griffe
from click.testing import CliRunner

from tokenmill.cli import tokenmill


def help_of(source: str, *_: Any, **__: Any) -> str:
    """Return what the command that a fence `help` names prints for `--help`, as HTML."""
    _, *words = source.split()
    printed = CliRunner().invoke(tokenmill, [*words, "--help"], catch_exceptions=False)
    if printed.exit_code != 0:
        raise ValueError(f"`{source} --help` ended with {printed.exit_code}: {printed.output}")
    return f'<pre class="help"><code>{html.escape(printed.output.strip())}</code></pre>'


class CompleteSignatures(griffe.Extension):
    """Show the keywords that a decorator adds where the source says only `**settings`."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Take the parameters of the function as it runs."""
        if not any("takes_keywords_of" in str(each.value) for each in func.decorators):
            return
        if func.module.name == "local_data_module":  # imports Lightning: longer than all else
            return
        value: Any = importlib.import_module(func.module.path)
        for name in func.path.removeprefix(f"{func.module.path}.").split("."):
            value = getattr(value, name)
        known = {each.name: each for each in func.parameters}
        running = inspect.signature(value).parameters.values()
        func.parameters = griffe.Parameters(*(known.get(p.name) or shown(p) for p in running))


def shown(parameter: inspect.Parameter) -> griffe.Parameter:
    """Return a parameter that only the running code knows."""
    return griffe.Parameter(
        parameter.name,
        annotation=inspect.formatannotation(parameter.annotation),
        kind=griffe.ParameterKind.keyword_only,
        default=repr(parameter.default),
    )
