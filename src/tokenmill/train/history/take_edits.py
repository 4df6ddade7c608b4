"""Edits reach a run that lives: rank 0 reads what is asked for, all ranks take the same edits.

Every rank makes an edit by itself, and all compare the fingerprint of the order that results before
any batch is served. If one of them refuses the edit, or has another order then, none keeps it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenmill.errors import MismatchError, TokenmillError
from tokenmill.torch.torch_loader import TorchLoader
from tokenmill.train.collectives import texts_of_ranks
from tokenmill.train.history import edit_requests
from tokenmill.train.history.edits_file import (
    Entry,
    entries_of,
    read_entries,
    refused,
    write_entries,
)


class RunEdits:
    """The edits of a run, on one rank."""

    def __init__(
        self, run_dir: Path, loader: TorchLoader, *, is_main: bool, say: Callable[[str], object]
    ) -> None:
        self.run_dir, self.loader, self.is_main, self.say = run_dir, loader, is_main, say
        self.taken = 0
        """Lines of the file of requests that were taken or refused so far."""
        self.entries: list[Entry] = []

    def start(self) -> None:
        """Begin with what is asked for before the first batch; a wrong request is an error."""
        if (why := self._different_order()) is not None:
            raise MismatchError(
                f"the ranks would not train on the same data: {why}",
                hint="give every rank the same data and the same edits",
            )
        self._record(self._of_main(lambda: read_entries(self.run_dir)))
        for line in self._new_lines():
            where = f"{self.run_dir / edit_requests.FILE_NAME}, line {self.taken}"
            if (wrong := self._take(line, where)) is not None:
                raise TokenmillError(
                    f"{where} is refused: {wrong}", hint="correct this line, or remove it"
                )

    def take(self) -> None:
        """Make the edits that were asked for meanwhile; one that is wrong is set aside."""
        try:
            for line in self._new_lines():
                where = f"{edit_requests.FILE_NAME}, line {self.taken}"
                if (wrong := self._take(line, where)) is not None:
                    self.say(f"warning: {where} is refused: {wrong}")
                    self._record([*self.entries, refused(line, wrong, self.loader.loader.step)])
        except TokenmillError as error:
            self.say(f"warning: no edits are taken: {error}")

    def _new_lines(self) -> Iterator[str]:
        """The lines that rank 0 finds, one after the other; the same on all ranks."""
        for line in self._of_main(lambda: edit_requests.new_lines(self.run_dir, self.taken)):
            self.taken += 1
            if line.strip():
                yield line

    def _of_main(self, read: Callable[[], list[Any]]) -> list[Any]:
        """What rank 0 reads, on all ranks; if it cannot be read, that is an error on all."""
        found: dict[str, Any] = {}
        if self.is_main:
            try:
                found = {"read": read()}
            except (OSError, TokenmillError) as error:
                found = {"wrong": str(error)}
        found = json.loads(texts_of_ranks(json.dumps(found))[0])
        if "wrong" in found:
            raise TokenmillError(found["wrong"])
        return list(found["read"])

    def _take(self, line: str, where: str) -> str | None:
        """Make the edit of a line on all ranks, or on none; then say why."""
        before, wrong, asked = self.loader.state_dict(), "", None
        try:
            request = edit_requests.parse_request(line, where)
            self.loader.edit(request.edit, at=request.step, note=request.note)
            asked = request.asked
        except (ValueError, TypeError, OSError, TokenmillError) as error:
            wrong = str(error)
        refusals = [f"rank {rank}: {why}" for rank, why in enumerate(texts_of_ranks(wrong)) if why]
        why = refusals[0].removeprefix("rank 0: ") if refusals else self._different_order()
        if why is None:
            self._record(self.entries, asked=asked)
        elif not wrong:
            self.loader.load_state_dict(before)
        return why

    def _different_order(self) -> str | None:
        """Which rank has another order than rank 0, and what the two have."""
        loader = self.loader.loader
        mine = f"order {loader.order_fingerprint}, data {loader.data.fingerprint}"
        first, *others = texts_of_ranks(mine)
        for rank, other in enumerate(others, 1):
            if other != first:
                return f"rank 0 has {first}; rank {rank} has {other}"
        return None

    def _record(self, known: Sequence[Entry], *, asked: str | None = None) -> None:
        """Write down the edits of the loader, in addition to what is known, and say new ones."""
        loader = self.loader.loader
        self.entries = entries_of(
            loader.edits,
            known,
            step=loader.step,
            batch_size=loader.batch_size * loader.world_size,
            asked=asked,
        )
        if not self.is_main or not self.entries:
            return
        write_entries(self.run_dir, self.entries)
        said = {entry.get("changed") for entry in known}
        for entry in self.entries:
            if entry.get("changed") not in said:
                self.say(f"Edit: {entry['changed']}")
