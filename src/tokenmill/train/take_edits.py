"""Edits reach a run that lives: rank 0 reads what is asked for, all ranks make the same edits.

Every rank makes an edit by itself, and all compare the fingerprint of the order that results before
any batch is served. If one of them refuses the edit, or has another order then, none keeps it.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tokenmill.errors import MismatchError, TokenmillError
from tokenmill.torch.torch_loader import TorchLoader
from tokenmill.train.collectives import texts_of_ranks
from tokenmill.train.edits_file import FILE_NAME, REFUSALS, apply_line, now, read_lines, words_of


class RunEdits:
    """The edits of a run, on one rank."""

    def __init__(
        self, run_dir: Path, loader: TorchLoader, *, is_main: bool, say: Callable[[str], object]
    ) -> None:
        self.run_dir = run_dir
        self.loader = loader
        self.is_main = is_main
        self.say = say
        self.entries: list[dict[str, Any]] = []
        """What became of each line of edits.jsonl that was read so far, for the checkpoint."""

    def start(self) -> None:
        """Make the edits that were asked for before the first batch; a wrong line is an error."""
        if (why := self._different_order()) is not None:
            raise MismatchError(
                f"the ranks would not train on the same data: {why}",
                hint="give every rank the same data and the same edits",
            )
        loader = self.loader.loader
        for edit in loader.edits:
            if edit["kind"] == "grow" and edit["at"] == loader.state_dict()["samples"]:
                self.say(f"Edit: {words_of(edit, loader.step)}")
        for refusal in self._make_new():
            raise TokenmillError(
                f"{self.run_dir}/{refusal}", hint="correct this line, or remove it"
            )

    def take(self) -> None:
        """Make the edits that were asked for meanwhile; one that is wrong is set aside."""
        try:
            for refusal in self._make_new():
                self.say(f"warning: {refusal}")
        except TokenmillError as error:
            self.say(f"warning: no edits are taken: {error}")

    def _make_new(self) -> Iterator[str]:
        """Make the edits of the new lines, the same on all ranks; yield each refusal in words."""
        num_read = len(self.entries)
        new: dict[str, Any] = {}
        if self.is_main:
            try:
                new = {"lines": read_lines(self.run_dir, num_read)[num_read:]}
            except (OSError, TokenmillError) as error:
                new = {"error": str(error)}
        new = json.loads(texts_of_ranks(json.dumps(new))[0])
        if "error" in new:
            raise TokenmillError(new["error"])
        for number, line in enumerate(new["lines"], num_read + 1):
            where = f"{FILE_NAME}, edit {number}"
            if (why := self._make(line, where)) is not None:
                yield f"{where} is refused: {why}"

    def _make(self, line: str, where: str) -> str | None:
        """Make the edit of a line on all ranks, or on none; return why it was refused."""
        before = self.loader.state_dict()
        wrong = ""
        try:
            request = apply_line(self.loader, line, where)
        except REFUSALS as error:
            wrong = str(error)
        refusals = [f"rank {rank}: {why}" for rank, why in enumerate(texts_of_ranks(wrong)) if why]
        why = refusals[0].removeprefix("rank 0: ") if refusals else self._different_order()
        step = self.loader.loader.step
        read = {"read": now(), "read_at_step": step}
        if why is None:
            self.entries.append({**request, **read})
            self.say(f"Edit: {words_of(request, request.get('step', step))}")
            return None
        if not wrong:
            self.loader.load_state_dict(before)
        self.entries.append({"line": line, "refused": why, **read})
        return why

    def _different_order(self) -> str | None:
        """Say which rank has another order than rank 0, and what the two have."""
        loader = self.loader.loader
        first, *others = texts_of_ranks(
            f"order {loader.order_fingerprint}, data {loader.data.fingerprint}"
        )
        for rank, other in enumerate(others, 1):
            if other != first:
                return f"rank 0 has {first}; rank {rank} has {other}"
        return None
