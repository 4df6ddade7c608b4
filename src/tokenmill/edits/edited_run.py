"""A run and its edits. The order that they make is a function of both; more edits make another run.

Edits are part of the state, not of the settings: a loader that loads a state has the edits of that
state and no others.
"""

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill.batches.run import Run
from tokenmill.edits.apply_edits import apply_edits
from tokenmill.edits.edit_record import (
    RecordedEdit,
    edits_to_json,
    merge_edits,
    refuse_past,
)
from tokenmill.edits.named_files import with_files

log = logging.getLogger("tokenmill")


@dataclass(frozen=True)
class EditedRun:
    """The run as it began, and its edits in the order of their samples."""

    base: Run
    edits: tuple[RecordedEdit, ...] = ()

    @functools.cached_property
    def now(self) -> Run:
        """The data and the order with all edits."""
        return apply_edits(self.base, self.edits)

    @property
    def fingerprint(self) -> str:
        """A hash of the order and its edits."""
        if not self.edits:
            return self.base.order_fingerprint
        return str(self._edits_json[-1]["fingerprint"])

    def edits_to_json(self) -> list[dict[str, Any]]:
        """The list for a state, which is asked for at every step: made once."""
        return [dict(edit) for edit in self._edits_json]

    @functools.cached_property
    def _edits_json(self) -> list[dict[str, Any]]:
        return edits_to_json(self.base.order_fingerprint, self.edits)

    def with_edits(self, records: Sequence[RecordedEdit], after: int) -> "EditedRun":
        """This run with more edits, none of them before a sample."""
        refuse_past(records, after)
        opened = [with_files(record, {}) for record in records]
        return EditedRun(self.base, merge_edits(self.edits, opened))

    def warn_of_dropped(self, other: "EditedRun") -> None:
        """Log the edits of this run that another one, which is used instead, does not have."""
        kept = {record.identity for record in other.edits}
        for record in self.edits:
            if record.identity not in kept:
                log.warning(
                    "the state that is loaded does not have the %s at sample %d: it is dropped",
                    *(record.edit.kind, record.at),
                )
