"""A run and its edits. The order that they make is a function of both; more edits make another run.

Edits are part of the state, not of the settings: a loader that loads a state has the edits of that
state and no others.
"""

import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill.batches.edits.apply_edits import apply_edits
from tokenmill.batches.edits.edit_record import (
    RecordedEdit,
    chain,
    edits_from_json,
    edits_to_json,
    merge_edits,
    refuse_past,
)
from tokenmill.batches.edits.named_files import with_files
from tokenmill.batches.run.ordered_data import OrderedData
from tokenmill.dataset import TokenDataset

log = logging.getLogger("tokenmill")


@dataclass(frozen=True)
class EditedRun:
    """The run as it began, and its edits in the order of their samples."""

    base: OrderedData
    edits: tuple[RecordedEdit, ...] = ()

    @functools.cached_property
    def now(self) -> OrderedData:
        """The data and the order with all edits."""
        return apply_edits(self.base, self.edits)

    @property
    def fingerprint(self) -> str:
        """A hash of the order and its edits."""
        before = self.base.order.fingerprint()
        return [before, *chain(before, self.edits)][-1]

    def edits_to_json(self) -> list[dict[str, Any]]:
        return edits_to_json(self.base.order.fingerprint(), self.edits)

    def with_edits(self, records: Sequence[RecordedEdit], after: int) -> "EditedRun":
        """This run with more edits, none of them before a sample."""
        refuse_past(records, after)
        opened = [with_files(record, {}) for record in records]
        return _checked(EditedRun(self.base, merge_edits(self.edits, opened)))

    def of_state(
        self, state: Mapping[str, Any], samples: int, sources: Mapping[str, TokenDataset]
    ) -> "EditedRun":
        """This run with the edits of a state that was saved at a sample, instead of its own."""
        saved = edits_from_json(state.get("edits", []), state["order_fingerprint"], samples)
        edits = tuple(with_files(record, sources) for record in saved)
        identities = {record.identity for record in edits}
        for record in self.edits:
            if record.identity not in identities:
                log.warning(
                    "the state has no %s at sample %d: this edit is dropped",
                    *(record.edit.kind, record.at),
                )
        return _checked(EditedRun(self.base, edits))


def _checked(run: EditedRun) -> EditedRun:
    """Refuse edits that cannot be applied now, and not when the order is first asked for."""
    assert run.now is not None
    return run
