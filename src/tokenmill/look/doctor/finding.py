"""What a check says: the name of the trap, where, how one can see it, and what to do."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One trap, found."""

    name: str
    where: str
    """A file, or a split."""
    evidence: str
    fix: str
    is_fault: bool = True
    """False for what is worth knowing but need not be wrong."""

    def __str__(self) -> str:
        kind = "FAULT" if self.is_fault else "note "
        return f"{kind}  {self.name}  {self.where}\n       {self.evidence}\n       fix: {self.fix}"


@dataclass
class Examination:
    """All that was found."""

    path: str
    findings: list[Finding] = field(default_factory=list)
    tokens_looked_at: int = 0
    tokens: int = 0
    assumed: dict[str, str] = field(default_factory=dict)
    """What no file says and was told by the look of the data: {"dtype": "uint16"}."""

    @property
    def has_faults(self) -> bool:
        """Whether something is wrong."""
        return any(finding.is_fault for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """The same in plain types."""
        return asdict(self)
