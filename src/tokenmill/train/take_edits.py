"""Edits reach a run that lives: rank 0 reads what is asked for, all ranks make the same edits.

Every rank makes an edit by itself, and all compare the fingerprint of the order that results before
any batch is served. If one of them refuses the edit, or has another order then, none keeps it.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from tokenmill.errors import MismatchError, TokenmillError
from tokenmill.torch.torch_loader import TorchLoader
from tokenmill.train.collectives import texts_of_ranks
from tokenmill.train.edit_words import words_of
from tokenmill.train.edits_file import FILE_NAME, Outcome, now, parse_request, read_lines


class RunEdits:
    """The edits of a run, on one rank."""

    def __init__(
        self, run_dir: Path, loader: TorchLoader, *, is_main: bool, say: Callable[[str], object]
    ) -> None:
        self.run_dir = run_dir
        self.loader = loader
        self.is_main = is_main
        self.say = say
        self.outcomes: list[Outcome] = []
        """What became of each line of edits.jsonl that was read so far."""

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
        for where, line in self._new_lines():
            if (why := self._make(line, where)) is not None:
                raise TokenmillError(
                    f"{self.run_dir}/{where} is refused: {why}",
                    hint="correct this line, or remove it",
                )

    def take(self) -> None:
        """Make the edits that were asked for meanwhile; one that is wrong is set aside."""
        try:
            for where, line in self._new_lines():
                if (why := self._make(line, where)) is not None:
                    self.say(f"warning: {where} is refused: {why}")
        except TokenmillError as error:
            self.say(f"warning: no edits are taken: {error}")

    def _new_lines(self) -> Iterator[tuple[str, str]]:
        """Yield where each new line is, and the line; rank 0 reads them, all ranks see the same."""
        num_read = len(self.outcomes)
        read: dict[str, list[str]] = {}
        if self.is_main:
            try:
                read = {"lines": read_lines(self.run_dir, num_read)}
            except (OSError, TokenmillError) as error:
                read = {"errors": [str(error)]}
        read = json.loads(texts_of_ranks(json.dumps(read))[0])
        if "errors" in read:
            raise TokenmillError(read["errors"][0])
        for number, line in enumerate(read["lines"][num_read:], num_read + 1):
            yield f"{FILE_NAME}, edit {number}", line

    def _make(self, line: str, where: str) -> str | None:
        """Make the edit of a line on all ranks, or on none; return why it was refused."""
        loader = self.loader.loader
        before = self.loader.state_dict()
        wrong = ""
        try:
            request = parse_request(line, where)
            self.loader.edit(request.edit, at=request.step, note=request.note)
        except (ValueError, TypeError, OSError, TokenmillError) as error:
            wrong = str(error)
        refusals = [f"rank {rank}: {why}" for rank, why in enumerate(texts_of_ranks(wrong)) if why]
        why = refusals[0].removeprefix("rank 0: ") if refusals else self._different_order()
        if why is not None and not wrong:
            self.loader.load_state_dict(before)
        self.outcomes.append(Outcome(loader.step, now(), refused=why))
        if why is None:
            first = loader.step if request.step is None else request.step
            self.say(f"Edit: {words_of(request.to_json(), first)}")
        return why

    def _different_order(self) -> str | None:
        """Say which rank has another order than rank 0, and what the two have."""
        loader = self.loader.loader
        mine = f"order {loader.order_fingerprint}, data {loader.data.fingerprint}"
        first, *others = texts_of_ranks(mine)
        for rank, other in enumerate(others, 1):
            if other != first:
                return f"rank 0 has {first}; rank {rank} has {other}"
        return None
