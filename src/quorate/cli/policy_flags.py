"""The flags that name a policy, one model for every command that takes one.

This file knows the policies' names and nothing of votes.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from quorate.squad import Agreement, Cascade, Confidence, Policy, Rule, Soft, Static
from quorate.store import read_policy

__all__ = ["SQUAD", "PolicyFlags"]


class PolicyFlags(BaseModel):
    """Who decides.

    A field that the named policy does not have is refused, so that no flag is given in vain.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str = Field(
        default="squad", description="squad, static, confidence, cascade, soft, agreement, or a policy file."
    )
    threshold: float | None = Field(default=None, description="Stop above it; 0.9 unless given.")
    criterion: Literal["t-test", "mean"] | None = Field(
        default=None, description="squad: the exit test; t-test unless given."
    )
    significance: float | None = Field(default=None, description="squad: alpha of the t-test; 0.05 unless given.")
    panel: Literal["pivot", "all"] | None = Field(
        default=None,
        description="squad: whose confidences count: those up to the pivot (unless given), or all who agree.",
    )
    learner: int | None = Field(default=None, description="confidence: which one; 0 unless given.")
    walk: Literal["depth", "breadth", "arrival"] | None = Field(
        default=None, description="soft: the path; depth unless given."
    )
    share: float | None = Field(default=None, description="agreement: of the learners, in (0, 1]; 1 unless given.")

    def build(self) -> Policy:
        """The policy, or one line about what does not fit."""
        given = {name for name, value in self.model_dump(exclude={"policy"}).items() if value is not None}
        fields = {
            "squad": {"threshold", "criterion", "significance", "panel"},
            "static": set[str](),
            "confidence": {"threshold", "learner"},
            "cascade": {"threshold"},
            "soft": {"threshold", "walk"},
            "agreement": {"share"},
        }
        if self.policy not in fields:
            return self._from_file(given)
        if unfit := sorted(given - fields[self.policy]):
            takes = ", ".join(f"--{name}" for name in sorted(fields[self.policy])) or "nothing"
            raise ValueError(f"the policy {self.policy} takes {takes}, not --{' --'.join(unfit)}")
        values = {name: getattr(self, name) for name in given}
        kinds = {"squad": Rule, "static": Static, "confidence": Confidence, "cascade": Cascade, "soft": Soft,
                 "agreement": Agreement}  # fmt: skip
        policy: Policy = kinds[self.policy](**values)
        return policy

    def _from_file(self, given: set[str]) -> Policy:
        path = Path(self.policy)
        if not path.exists() and path.suffix != ".json":
            raise ValueError(
                f"policy must be squad, static, confidence, cascade, soft, agreement or a policy file, "
                f"got {self.policy!r}; a pool is fitted: `quorate tune VOTES --out policy.json`"
            )
        if given:
            raise ValueError(f"a policy file says all itself: leave out --{' --'.join(sorted(given))}")
        return read_policy(path)[0]


SQUAD = PolicyFlags()
"""The flags nobody gave."""
