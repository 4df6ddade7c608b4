"""The report of a check: the name of the trap, its place, the evidence, and the fix."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Trap:
    """One trap that was found."""

    name: str
    where: str
    """A file, or a split."""
    evidence: str
    fix: str
    is_fault: bool = True
    """False for a note: worth knowing, but perhaps not wrong."""

    def __str__(self) -> str:
        kind = "FAULT" if self.is_fault else "note "
        return f"{kind}  {self.name}  {self.where}\n       {self.evidence}\n       fix: {self.fix}"


@dataclass
class Examination:
    """The traps in a dataset, and the size of the sample."""

    findings: list[Trap] = field(default_factory=list)
    tokens_looked_at: int = 0
    tokens: int = 0
    assumed: dict[str, str] = field(default_factory=dict)
    """Facts that no file states, guessed from the data: {"dtype": "uint16"}."""

    @property
    def has_faults(self) -> bool:
        return any(trap.is_fault for trap in self.findings)
