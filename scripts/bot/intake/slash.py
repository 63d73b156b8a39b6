"""Commands in comments: `/rank gpu=H100`.  Pure; the body is hostile text.

    /test  /benchmark  /profile  /rank      judge the pull request's file, once, in that mode
    /rerun                                  judge it again, as its state demands
    /cancel                                 cancel open requests
    /withdraw                               take the author's rows off the boards
    /show  /help                            show standings; list the commands
    /check                                  a maintainer runs the changed tasks
    /ci                                     a maintainer runs the repository's own tests on its branch

A comment holds one command, at the beginning of a line of its own, with any text on other lines.  `gpu=` limits it to a
board and can be repeated.  `/profile 2 kernel=gemm skip=3 count=1` profiles only the second benchmark, and on an
NVIDIA GPU one launch of the kernels whose name matches, after the first three.  Quotes, code and indented lines are
ignored.  A comment without a command is conversation; a misspelled command gets an answer.

intake.yml passes on every comment with a line that begins with a slash: exactly those that may hold a command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from pydantic import ValidationError

from harness.records.counters import MAX_LAUNCHES, MAX_SKIP, LaunchFilter, find_regex_fault
from harness.records.errors import PullRankError
from harness.records.fields import Mode
from scripts.common.text import inline

MAX_GPUS = 16

_FIRST_WORD = re.compile(r"/([A-Za-z]{1,20})(?=\s|$)")
_NUMBER = re.compile(r"[1-9][0-9]{0,4}")
_IN_REGEX = "_:<>.,*+?|^$()[]{}\\-"
"""None of these ends inline code or names an account in Markdown."""
_LAUNCHES = re.compile(
    rf"kernel=(?P<regex>[A-Za-z0-9{re.escape(_IN_REGEX)}]{{1,100}})|(?P<name>skip|count)=(?P<number>0|[1-9][0-9]{{0,6}})"
)
_GPU = re.compile(r"gpu=([A-Za-z0-9][A-Za-z0-9_.-]{0,63})")
_LINE_END = re.compile(r"\r?\n")
_CODE_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}(?=[^`]*$)|~{3,})(?P<rest>.*)")


class SlashError(PullRankError):
    """A malformed command; the message is Markdown and says how to write it."""


class Verb(StrEnum):
    TEST = "test"
    BENCHMARK = "benchmark"
    PROFILE = "profile"
    RANK = "rank"
    RERUN = "rerun"
    CANCEL = "cancel"
    WITHDRAW = "withdraw"
    SHOW = "show"
    HELP = "help"
    CHECK = "check"
    CI = "ci"

    @property
    def mode(self) -> Mode | None:
        """The mode that a verb names; None for other verbs."""
        return _MODES.get(self)


_MODES = {Verb.TEST: Mode.TEST, Verb.BENCHMARK: Mode.BENCHMARK, Verb.PROFILE: Mode.PROFILE, Verb.RANK: Mode.RANKED}


@dataclass(frozen=True, kw_only=True)
class Command:
    """`gpus` as written, without duplicates; empty means all boards.

    `case` is the only benchmark to profile, from 1; `launches` are those of a call to profile.
    """

    verb: Verb
    gpus: tuple[str, ...] = ()
    case: int | None = None
    launches: LaunchFilter | None = None

    def __str__(self) -> str:
        case = [] if self.case is None else [str(self.case)]
        launches = [str(self.launches)] if self.launches else []
        return " ".join([f"/{self.verb}", *case, *filter(None, launches), *(f"gpu={gpu}" for gpu in self.gpus)])


def read_command(body: str) -> Command | None:
    """The command in a comment; None if it is conversation.

    Raises:
        SlashError: there are several, or it is malformed.
    """
    commands = [command for line in _outside_code(_LINE_END.split(body)) if (command := _read_line(line))]
    if len(commands) > 1:
        one, other = commands[:2]
        raise SlashError(f"Only one command per comment. Write `{one}` and `{other}` in separate comments.")
    return commands[0] if commands else None


def _read_line(line: str) -> Command | None:
    if not (word := _FIRST_WORD.match(line)):
        return None
    verb = word[1].lower()
    if verb not in set(Verb):
        _require_conversation(verb)
        return None
    return _read_arguments(Verb(verb), line[word.end() :].split())


def _outside_code(lines: list[str]) -> list[str]:
    """The lines outside of fenced code, as CommonMark defines it; lines inside become empty.

    A fence ends at one of the same character, at least as long, with nothing behind it.
    """
    outside, opened = [], ""
    for line in lines:
        fence = _CODE_FENCE.match(line)
        outside.append("" if opened or fence else line)
        if fence and not opened:
            opened = fence["fence"]
        elif fence and fence["fence"].startswith(opened) and not fence["rest"].strip():
            opened = ""
    return outside


def _read_arguments(verb: Verb, arguments: list[str]) -> Command:
    gpus: dict[str, None] = {}
    cases: set[int] = set()
    launches: dict[str, str | int] = {}
    for argument in arguments:
        if gpu := _GPU.fullmatch(argument):
            gpus[gpu[1]] = None
        elif verb is Verb.PROFILE and _NUMBER.fullmatch(argument):
            cases.add(int(argument))
        elif verb is Verb.PROFILE and (launch := _LAUNCHES.fullmatch(argument)):
            name, regex, number = launch["name"] or "kernel", launch["regex"], launch["number"]
            if name in launches:
                raise SlashError(f"`/profile` takes `{name}=` once.")
            launches[name] = _require_regex(regex) if regex else int(number)
        else:
            raise SlashError(f"{inline(argument, 60)} is not an argument of `/{verb}`. {_hint(verb, argument)}")
    if len(gpus) > MAX_GPUS:
        raise SlashError(f"That names {len(gpus)} GPUs; the limit is {MAX_GPUS}. `/{verb}` alone means every board.")
    if len(cases) > 1:
        raise SlashError("`/profile` takes one benchmark, as in `/profile 2`. `/profile` alone means all of them.")
    chosen = _filter_of(launches) if launches else None
    return Command(verb=verb, gpus=tuple(gpus), case=next(iter(cases), None), launches=chosen)


def _require_regex(text: str) -> str:
    if fault := find_regex_fault(text):
        raise SlashError(f"`kernel={text}` is not a regular expression: {inline(fault)}.")
    return text


def _filter_of(launches: Mapping[str, str | int]) -> LaunchFilter:
    try:
        return LaunchFilter.model_validate(launches)
    except ValidationError:
        limits = f"`skip=` takes 0 to {MAX_SKIP}, and `count=` 1 to {MAX_LAUNCHES}"
        raise SlashError(f"{limits}, as in `/profile kernel=gemm skip=3 count=1`.") from None


def _hint(verb: Verb, argument: str) -> str:
    if argument.startswith(("kernel=", "skip=", "count=")):
        if verb is not Verb.PROFILE:
            return "`/profile kernel=gemm skip=3 count=1` chooses launches of a call; no other command does."
        return (
            f"`kernel=` takes 1 to 100 of ``{_IN_REGEX}``, letters and digits; `skip=` and `count=` take whole numbers."
        )
    if argument.isdecimal():
        return "`/profile 2` profiles the second benchmark; no other command takes a number."
    name = argument.removeprefix("gpu=").removeprefix("--gpu=")
    if _GPU.fullmatch(f"gpu={name}"):
        return f"For one board, write `/{verb} gpu={name}`."
    return f"`/{verb}` alone means every board, `/{verb} gpu=NAME` one of them."


def _require_conversation(word: str) -> None:
    """Raise SlashError if a word is close to a command.  Others may be paths or meant for another bot."""
    if near := get_close_matches(word, list(Verb), n=1, cutoff=0.75):
        raise SlashError(f"`/{word}` is not a command; did you mean `/{near[0]}`? `/help` lists them all.")
