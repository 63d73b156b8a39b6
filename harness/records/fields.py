"""Building blocks of exchanged files: a strict base model, and field types with bounds."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
LOGIN = "[A-Za-z0-9_-]{1,39}"
"""A login on GitHub.  Old ones begin or end with hyphens, those of managed users have an underscore."""
Login = Annotated[str, StringConstraints(pattern=f"^{LOGIN}$")]
RecordName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
"""Name of a task or a GPU; safe as a folder name and as part of a URL."""
MAX_MESSAGE = 20_000
Text = Annotated[str, StringConstraints(max_length=MAX_MESSAGE)]
ShortLine = Annotated[str, StringConstraints(max_length=500)]
Microseconds = Annotated[float, Field(ge=1e-6, lt=1e12)]
"""Bounds far outside any real time, chosen so that no ratio of two times overflows."""
Spread = Annotated[float, Field(ge=0, lt=1e12)]
"""A standard deviation or a duration that may be 0, in microseconds."""
Moment = Annotated[AwareDatetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 1, 1, tzinfo=UTC))]
"""A time far enough from both ends of the calendar that changing the zone or adding days cannot overflow."""
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Param = bool | int | float | ShortLine | tuple[int, ...]
"""Value of an argument of `generate_input`."""


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def omitted(value: object) -> bool:
    """Whether a file leaves out a newer field with this value, so that older files keep their bytes."""
    return not value


class Mode(StrEnum):
    TEST = "test"
    BENCHMARK = "benchmark"
    RANKED = "ranked"
    PROFILE = "profile"


class CaseKind(StrEnum):
    BUILD = "build"
    TEST = "test"
    BENCHMARK = "benchmark"
    PROFILE = "profile"
