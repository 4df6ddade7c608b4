"""What a check reports: the name of the trap, where it is, the evidence, and the fix."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Trap:
    """One trap that was found."""

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
    findings: list[Trap] = field(default_factory=list)
    tokens_looked_at: int = 0
    tokens: int = 0
    assumed: dict[str, str] = field(default_factory=dict)
    """What no file says and was guessed from the data: {"dtype": "uint16"}."""

    @property
    def has_faults(self) -> bool:
        return any(trap.is_fault for trap in self.findings)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
