"""The reaction to every event: first the rules as tables, then whole events against a GitHub on loopback."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.records.counters import LaunchFilter
from harness.records.errors import PullRankError
from harness.records.fields import Mode
from harness.records.verdict import Verdict
from harness.task.task import Baseline, Language, load_task
from scripts.bot.admission.admission import Competition, PullContents
from scripts.bot.admission.copies import Original
from scripts.bot.admission.path_rule import (
    Contribution,
    Misplaced,
    RemovedSubmission,
    SubmissionPath,
    TaskChange,
    classify,
)
from scripts.bot.comment.markers import MARKER, Tone
from scripts.bot.context import BotContext
from scripts.bot.intake.decision import Decision, EventFacts
from scripts.bot.intake.events import CommentEvent, Nothing, PullAction, PullEvent, read_event
from scripts.bot.intake.intake import decide, run
from scripts.bot.intake.slash import SlashError, read_command
from scripts.competition.settings import Ban, Gpu, Quotas, Settings
from scripts.github.fork import Fork
from scripts.github.gh import GitHub
from scripts.github.pulls import Account, BlobInfo, ChangedFile, Comment, GitHubError, Permission, PullRequest, Reaction
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.moderation import Action, KnownAccount, Moderated, Moderation
from scripts.ledger.origin import Origin
from scripts.ledger.request import Ending, EndState, Request, make_id
from tests.competition import COPIED, OWN
from tests.github_server import GitHubServer, World

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HEAD, OLD = "a" * 40, "b" * 40
ALICE = Account(id=7, login="alice")
BOB = Account(id=8, login="bob")
PATH = "submissions/vectoradd/alice/submission.py"
SOURCE = b"def custom_kernel(data):\n    return data\n"
TASK = replace(load_task(Path("tasks/vectoradd")), gpus=("CPU", "H100"), deadline=NOW + timedelta(days=1))
WIDE = replace(TASK, gpus=("CPU", "T4", "L4", "H100"))
SETTINGS = Settings(
    gpus={name: Gpu(runs_on=name) for name in ("CPU", "H100", "A100")}, limits=Quotas(), bans=(Ban(user_id=66, reason="Attacked the judge."),)
)  # fmt: skip
COMPETITION = Competition(
    settings=SETTINGS,
    accounts=(KnownAccount(user_id=7, login="alice", first_seen=NOW),),
    task_names=("matmul", "vectoradd"),
)


def pull(**changes: Any) -> PullRequest:
    fields: dict[str, Any] = {
        "number": 12, "author": ALICE, "head_sha": HEAD, "base_ref": "main",
        "is_draft": False, "is_open": True, "merged": False, "updated_at": NOW,
        "head_at": NOW,
    }  # fmt: skip
    return PullRequest(**(fields | changes))


def changed(*paths: str, status: str = "added", previous: str | None = None) -> tuple[ChangedFile, ...]:
    return tuple(ChangedFile(path=path, status=status, previous_path=previous) for path in paths)


def contents(source: bytes = SOURCE, **changes: Any) -> PullContents:
    blob = BlobInfo(sha="c" * 40, mode="100644", size=len(source))
    fields: dict[str, Any] = {"files": changed(PATH), "blob": blob, "source": source, "task": TASK}
    return PullContents(**(fields | changes))


def facts(**changes: Any) -> EventFacts:
    fields = {"now": NOW, "pull": pull(), "contents": contents(), "competition": COMPETITION}
    return EventFacts(**(fields | changes))


def happened(action: PullAction = PullAction.OPENED, to: PullRequest | None = None) -> PullEvent:
    return PullEvent(action=action, pull=to or pull(), default_branch="main")


def said(body: str, by: Account = ALICE, comment_id: int = 501) -> CommentEvent:
    comment = Comment(id=comment_id, author=by, body=body, created_at=NOW, updated_at=NOW)
    try:
        command = read_command(body)
    except SlashError as error:
        return CommentEvent(number=12, comment=comment, command=error, default_branch="main")
    assert command
    return CommentEvent(number=12, comment=comment, command=command, default_branch="main")


def asked(gpu: str = "CPU", mode: Mode = Mode.RANKED, state: EndState | None = None, **changes: Any) -> RequestStatus:
    """A request in the ledger: open, or ended in this state."""
    fields: dict[str, Any] = {
        "user_id": 7, "login": "alice", "pull_request": 12, "head_sha": HEAD, "blob_sha": "c" * 40, "task": "vectoradd",
        "gpu": gpu, "mode": mode, "asked_at": NOW - timedelta(minutes=5), "asked_by": 7, "reason": "opened",
    }  # fmt: skip
    attempt = changes.pop("attempt", 1)
    note = changes.pop("note", "/cancel" if state is EndState.CANCELLED else "")
    fields |= changes
    fields["id"] = make_id(fields["pull_request"], fields["head_sha"], gpu, mode, attempt)
    request = Request(**fields)
    verdict = Verdict.ACCEPTED if state is EndState.JUDGED else None
    ending = Ending(request=request.id, state=state, verdict=verdict, at=NOW, note=note) if state else None
    return RequestStatus(request=request, ending=ending)


def boards(decision: Decision) -> list[str]:
    return [f"{request.gpu} {request.mode} {request.attempt}" for request in decision.requests]


def ends(decision: Decision) -> list[str]:
    return [f"{request.gpu} {request.mode} {ending.state}" for request, ending in decision.endings]


def refusal(decision: Decision) -> str:
    """The message of a refusal, wherever the decision puts it."""
    assert not decision.requests and not decision.checks_tasks
    if decision.notice:
        assert decision.notice.tone is Tone.REFUSED and not decision.answer
        return decision.notice.text
    assert decision.answer and decision.reaction is Reaction.CONFUSED
    return decision.answer


# Paths.


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (changed(PATH), SubmissionPath),
        (changed(PATH, status="modified"), SubmissionPath),
        (changed(PATH.replace(".py", ".cu")), SubmissionPath),
        (changed(PATH, status="removed"), RemovedSubmission),
        (changed(PATH.replace("submission.py", "notes.md"), status="removed"), Misplaced),
        (changed("tasks/gemm/task.yml", "tasks/gemm/reference.py"), TaskChange),
        (changed("tasks/gemm/examples/accepted/submission.py"), TaskChange),
        (changed("tasks/gemm/task.yml", "README.md"), TaskChange),
        (changed("README.md"), Contribution),
        (changed("submissions/README.md", "scripts/cli.py"), Contribution),
        (changed("tasks/README.md"), Contribution),
        (changed("tests/data/submission.py"), Contribution),
        ((), Contribution),
        (changed("submissions/vectoradd/bob/submission.py"), Misplaced),
        (changed("tasks/gemm/task.yml", PATH), Misplaced),
        (changed("elsewhere.py", status="renamed", previous=PATH), Misplaced),
        (changed("submissions/../tasks/x/alice/submission.py"), Misplaced),
        (changed(f"{PATH}/x"), Misplaced),
    ],
)
def test_the_changed_paths_determine_the_kind_of_pull_request(files: tuple[ChangedFile, ...], kind: type) -> None:
    assert isinstance(classify(files, "alice"), kind)


def test_a_task_change_names_its_tasks() -> None:
    files = (*changed("tasks/b/x", "README.md"), *changed("tasks/c/y", status="renamed", previous="tasks/a/y"))
    assert classify(files, "alice") == TaskChange(tasks=("a", "b", "c"))


# Refusals.  Each row: a name, the difference from a valid entry, words that the author must read.

REFUSALS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("wrong folder", {"files": changed("submissions/alice/vectoradd/submission.py")},
     ("your login is `alice`", "Put the file under `submissions/alice/alice/`")),
    ("no folder", {"files": changed("submissions/vectoradd.py")},
     ("`submissions/vectoradd.py` is not the place", "`submissions/<task>/alice/submission.py`")),
    ("folder too deep", {"files": changed("submissions/vectoradd/alice/v2/submission.py")},
     ("Put it at `submissions/vectoradd/alice/submission.py`",)),
    ("wrong name", {"files": changed("submissions/vectoradd/alice/fast.py")},
     ("named `fast.py`", "Rename it to `submissions/vectoradd/alice/submission.py`")),
    ("a name that would be collected", {"files": changed("submissions/vectoradd/alice/conftest.py")},
     ("must be named `submission.py`",)),
    ("login is not the folder", {"files": changed("submissions/gemm/bob/fast.py")},
     ("You changed `submissions/gemm/bob/fast.py`, but your login is `alice`.",
      "Put the file under `submissions/gemm/alice/`.")),
    ("case of the login", {"files": changed("submissions/vectoradd/Alice/submission.py")}, ("upper and lower case",)),
    ("two files", {"files": changed(PATH, "submissions/matmul/alice/submission.py")},
     ("changes 2 files", "another pull request")),
    ("many files", {"files": changed(*(f"submissions/t{n}/alice/submission.py" for n in range(9)))}, ("and 4 more",)),
    ("submissions and anything else", {"files": changed(PATH, "README.md", ".github/workflows/evil.yml")},
     ("Besides your submission, this changes `README.md` and `.github/workflows/evil.yml`", "exactly one file")),
    ("file outside", {"files": changed("submission.py")},
     ("`submission.py` is not the place for a submission", "submissions/<task>/alice/submission.py")),
    ("folder misspelled", {"files": changed("Submissions/vectoradd/alice/submission.py")},
     ("Put it at `submissions/vectoradd/alice/submission.py`",)),
    ("another's file removed", {"files": changed("submissions/vectoradd/bob/submission.py", status="removed")},
     ("which is not your submission", "Close")),
    ("more than the submission removed", {"files": changed(PATH, "README.md", status="removed")},
     ("Besides your submission, this changes `README.md`",)),
    ("moved from another's folder",
     {"files": changed(PATH, status="renamed", previous="submissions/vectoradd/bob/submission.py")},
     ("This moves `submissions/vectoradd/bob/submission.py`",)),
    ("hostile path", {"files": changed("submissions/`@everyone`\n# hi/<img src=x>/a.py")}, ("is not the place",)),
    ("unknown task", {"files": changed("submissions/vectorad/alice/submission.py"), "task": None},
     ("There is no task `vectorad`; did you mean `vectoradd`?", "`matmul`, `vectoradd`")),
    ("language of another task", {"files": changed(PATH.replace(".py", ".cu"))},
     ("takes no cu file", "`submissions/vectoradd/alice/submission.py`")),
    ("symbolic link", {"blob": BlobInfo(sha="c" * 40, mode="120000", size=9)}, ("a symbolic link", "plain file")),
    ("executable", {"blob": BlobInfo(sha="c" * 40, mode="100755", size=9)}, ("git update-index --chmod=-x",)),
    ("another mode", {"blob": BlobInfo(sha="c" * 40, mode="100664", size=9)}, ("of mode `100664`",)),
    ("submodule", {"blob": None}, ("is not a file", "a submodule")),
    ("too large", {"blob": BlobInfo(sha="c" * 40, mode="100644", size=400_000)},
     ("is larger than 256 KiB",)),
    ("no custom_kernel", {"source": b"def custom_kernal(data):\n    return data\n"},
     ("does not define custom_kernel(data); rename custom_kernal",)),
    ("syntax error", {"source": b"def custom_kernel(data:\n"}, ("submission.py:1: SyntaxError", "was never closed (Python 3.")),
    ("empty", {"source": b"\n"}, ("is empty",)),
    ("binary", {"source": b"\0\1"}, ("binary",)),
    ("not UTF-8", {"source": b"# \xe9\n" + SOURCE}, ("not UTF-8",)),
    ("text that turns around", {"source": b"# \xe2\x80\xae\n" + SOURCE}, ("Line 1", "U+202E")),
    ("text without width", {"source": SOURCE + b"x = '\xe2\x80\x8b'\n"}, ("Line 3", "U+200B")),
    ("a name without width", {"source": "def custom_kernel(data, \u3164={}):\n    return data\n".encode()},
     ("Line 1", "U+3164")),
    ("directive of another task", {"source": b"#!POPCORN leaderboard matmul\n" + SOURCE},
     ("`leaderboard matmul`", "write `#!POPCORN leaderboard vectoradd`")),
    ("unknown directive", {"source": b"#!POPCORN leaderbord vectoradd\n" + SOURCE}, ("did you mean 'leaderboard'",)),
    ("unknown GPU", {"source": b"#!POPCORN gpus H10\n" + SOURCE}, ("There is no machine here for `H10`; did you mean `H100`?",)),
    ("GPU without a board", {"source": b"#!POPCORN gpus A100\n" + SOURCE},
     ("`vectoradd` has no board for `A100`", "`CPU`, `H100`")),
    ("task without a machine", {"task": replace(TASK, gpus=("B300",))}, ("No machine here judges `vectoradd` yet",)),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_a_faulty_pull_request_is_refused_with_a_reason(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    known = facts(contents=contents(**changes))
    for event in (happened(), said("/test"), said("/rank", by=BOB)):
        told = refusal(decide(event, replace(known, permission=Permission.WRITE)))
        assert [word for word in words if word not in told] == []
        assert not re.search(r"^#|@everyone(?!`)|<img(?![^`]*`)", told, re.MULTILINE)


def test_a_valid_pull_request_is_not_refused() -> None:
    decision = decide(happened(), facts())
    assert boards(decision) == ["CPU ranked 1", "H100 ranked 1"] and not decision.notice and decision.is_settled
    request = decision.requests[0]
    assert (request.user_id, request.login, request.head_sha, request.blob_sha) == (7, "alice", HEAD, "c" * 40)
    assert (request.task, request.asked_at, request.asked_by, request.reason) == ("vectoradd", NOW, 7, "opened")


@pytest.mark.parametrize(("size", "is_judged"), [(256 * 1024, True), (256 * 1024 + 1, False)])
def test_a_file_may_be_as_large_as_the_settings_say(size: int, is_judged: bool) -> None:
    blob = BlobInfo(sha="c" * 40, mode="100644", size=size)
    assert bool(boards(decide(happened(), facts(contents=contents(blob=blob))))) is is_judged


def test_another_authors_merged_file_is_refused_with_renamed_variables_too() -> None:
    merged = (Original(login="bob", name="submission.py", source=OWN),)
    told = refusal(decide(happened(), facts(contents=contents(COPIED, merged=merged))))
    assert "the merged submission of `bob` for `vectoradd`" in told and "ask a maintainer" in told
    assert boards(decide(happened(), facts(contents=contents(COPIED, merged=merged, given=(OWN,)))))
    assert boards(decide(happened(), facts(contents=contents(OWN + b"x = 1\n", merged=merged))))


def origin(by: Account = ALICE, minutes: int = 0, number: int = 12) -> Origin:
    """An account's first offer of the file, this long before now."""
    return Origin(
        fingerprint="f" * 64, task="vectoradd", user_id=by.id, login=by.login, pull_request=number, head_sha=HEAD,
        at=NOW - timedelta(minutes=minutes),
    )  # fmt: skip


def copied(*origins: Origin, merged: tuple[Original, ...] = (), **more: Any) -> Decision:
    """The decision on alice's offer, now, of a file that these accounts have offered before."""
    return decide(happened(), facts(contents=contents(OWN, origin=origin(), origins=origins, merged=merged), **more))


def test_a_files_second_author_is_refused_and_sees_the_earlier_submission() -> None:
    decision = copied(origin(BOB, minutes=30, number=11))
    assert "this is the file that `bob` submitted for `vectoradd` in #11 at 2026-11-21 11:30 UTC" in refusal(decision)
    assert not decision.origin


def test_the_first_author_of_a_file_is_judged_though_another_was_merged() -> None:
    theirs, mine = origin(BOB, minutes=30, number=11), origin(minutes=40)
    merged = (Original(login="Bob", name="submission.py", source=OWN),)
    assert boards(copied(theirs, mine)) and boards(copied(theirs, mine, merged=merged))
    assert "merged submission" in refusal(copied(mine, merged=merged)), (
        "bob's submission is older than the ledger's records of origins"
    )


def test_two_submissions_of_a_file_in_the_same_second_are_not_copies() -> None:
    assert boards(copied(origin(BOB)))


def test_a_banned_accounts_file_blocks_no_other_author() -> None:
    ban = Ban(user_id=BOB.id, reason="Copies drafts.")
    competition = replace(COMPETITION, settings=SETTINGS.model_copy(update={"bans": (ban,)}))
    merged = (Original(login="bob", name="submission.py", source=OWN),)
    assert boards(copied(origin(BOB, minutes=30), merged=merged, competition=competition))


def test_an_admitted_file_belongs_to_its_author_even_over_the_quota() -> None:
    other = (asked(pull_request=13, state=EndState.JUDGED),)
    decision = copied(competition=limited(ranked_per_day=1), history=other)
    assert not decision.requests and decision.origin == origin()
    assert {request.fingerprint for request in copied().requests} == {"f" * 64} and copied().origin == origin()


@pytest.mark.parametrize(
    "competition",
    [
        replace(
            COMPETITION, settings=SETTINGS.model_copy(update={"bans": (Ban(login="ALICE", reason="Spam, `again`."),)})
        ),
        replace(
            COMPETITION,
            moderated=Moderated.after(
                [Moderation(id="1", action=Action.BAN, user_id=7, reason="Spam, `again`.", by=1, at=NOW)]
            ),
        ),
    ],
    ids=["in the settings", "in the ledger"],
)
def test_a_banned_account_is_refused_with_the_reason(competition: Competition) -> None:
    for event in (happened(), said("/rank")):
        assert "Spam, `again`." in refusal(decide(event, facts(competition=competition)))


# Owners of folders.


def test_a_newcomer_is_registered_and_a_known_author_is_not_again() -> None:
    carol = Account(id=9, login="carol")
    files = changed("submissions/vectoradd/carol/submission.py")
    decision = decide(happened(), facts(pull=pull(author=carol), contents=contents(files=files)))
    assert decision.account == KnownAccount(user_id=9, login="carol", first_seen=NOW)
    assert decide(happened(), facts()).account is None


def test_a_renamed_account_keeps_its_first_folder() -> None:
    renamed = pull(author=Account(id=7, login="alicia"))
    told = refusal(
        decide(happened(), facts(pull=renamed, contents=contents(files=changed(PATH.replace("alice", "alicia")))))
    )
    assert "Put the file under `submissions/vectoradd/alice/`" in told
    assert "You first took part as `alice`" in told
    kept = decide(happened(), facts(pull=renamed))
    assert [request.login for request in kept.requests] == ["alice", "alice"] and not kept.account


def test_a_taken_over_login_gives_no_right_to_the_folder() -> None:
    taken = pull(author=Account(id=99, login="Alice"))
    told = refusal(decide(happened(), facts(pull=taken)))
    assert "`alice` belongs to another account" in told and "Rename your account" in told


# Events and modes.


@pytest.mark.parametrize(
    ("action", "is_draft", "history", "expected", "ended"),
    [
        (PullAction.OPENED, True, (), ["CPU benchmark 1", "H100 benchmark 1"], []),
        (PullAction.OPENED, False, (), ["CPU ranked 1", "H100 ranked 1"], []),
        # The same event twice, and a lost one that arrives late.
        (PullAction.OPENED, False, (asked(), asked("H100")), [], []),
        (PullAction.PUSHED, False, (asked(),), ["H100 ranked 1"], []),
        (PullAction.PUSHED, False, (asked(state=EndState.JUDGED), asked("H100", state=EndState.FAILED)), [], []),
        # A push supersedes; a push back to the old file requests it again if it was not judged.
        (PullAction.PUSHED, False, (asked(head_sha=OLD),), ["CPU ranked 1", "H100 ranked 1"], ["CPU ranked superseded"]),
        (PullAction.PUSHED, False, (asked(state=EndState.SUPERSEDED), asked("H100")), ["CPU ranked 2"], []),
        # A request cancelled by hand stays cancelled until somebody changes the state by hand; others are made again.
        (PullAction.PUSHED, False, (asked(state=EndState.CANCELLED, note="the pull request was closed"), asked("H100")),
         ["CPU ranked 2"], []),
        (PullAction.PUSHED, False, (asked(state=EndState.CANCELLED), asked("H100")), [], []),
        (PullAction.REOPENED, False, (asked(state=EndState.CANCELLED), asked("H100")), ["CPU ranked 2"], []),
        # Draft to ready.
        (PullAction.READIED, False, (asked(mode=Mode.BENCHMARK),), ["CPU ranked 1", "H100 ranked 1"],
         ["CPU benchmark superseded"]),
        (PullAction.READIED, False, (asked(mode=Mode.BENCHMARK, state=EndState.JUDGED),),
         ["CPU ranked 1", "H100 ranked 1"], []),
        (PullAction.DRAFTED, True, (asked(), asked("H100", Mode.BENCHMARK)), [], ["CPU ranked cancelled"]),
        (PullAction.CLOSED, False, (asked(), asked("H100", state=EndState.JUDGED)), [], ["CPU ranked cancelled"]),
        # Other pull requests are ignored.
        (PullAction.CLOSED, False, (asked(pull_request=13),), [], []),
    ],
)  # fmt: skip
def test_each_event_starts_and_ends_the_right_requests(
    action: PullAction, is_draft: bool, history: tuple[RequestStatus, ...], expected: list[str], ended: list[str]
) -> None:
    known = facts(pull=pull(is_draft=is_draft), history=history)
    decision = decide(happened(action), known)
    assert (boards(decision), ends(decision)) == (expected, ended)
    assert all(request.id == ending.request for request, ending in decision.endings)


@pytest.mark.parametrize(
    ("history", "ended"),
    [((asked(), asked("H100", state=EndState.JUDGED)), []), ((asked(head_sha=OLD),), ["CPU ranked superseded"])],
)
def test_a_merged_pull_request_is_still_judged_on_its_other_boards(
    history: tuple[RequestStatus, ...], ended: list[str]
) -> None:
    merged = pull(is_open=False, merged=True)
    decision = decide(happened(PullAction.CLOSED, merged), facts(pull=merged, history=history))
    assert (boards(decision), ends(decision)) == ([], ended)


def test_a_refused_push_still_supersedes_the_earlier_request() -> None:
    decision = decide(happened(PullAction.PUSHED), facts(contents=contents(b"x = 1"), history=(asked(head_sha=OLD),)))
    assert ends(decision) == ["CPU ranked superseded"] and "custom_kernel" in refusal(decision)


def test_a_baseline_may_name_gpus_that_this_competition_lacks() -> None:
    source = b"#!PULLRANK gpus L4 H100 B200\n" + SOURCE
    baseline = Baseline(name="torch.add", path=Path("add.py"), digest=hashlib.sha256(source).hexdigest())
    task = replace(WIDE, baselines=(baseline,))
    assert boards(decide(happened(), facts(contents=contents(source, task=task)))) == ["H100 ranked 1"]
    assert "no machine here for `L4`" in refusal(decide(happened(), facts(contents=contents(source, task=WIDE))))


def test_a_compiled_task_takes_a_python_file_only_if_it_is_a_baseline() -> None:
    baseline = Baseline(name="torch.add", path=Path("add.py"), digest=hashlib.sha256(SOURCE).hexdigest())
    task = replace(TASK, lang=Language.CU, baselines=(baseline,))
    assert boards(decide(happened(), facts(contents=contents(task=task)))) == ["CPU ranked 1", "H100 ranked 1"]
    wanted = PATH.replace(".py", ".cu")
    assert f"takes no py file. Write `{wanted}`" in refusal(
        decide(happened(), facts(contents=contents(SOURCE + b"\n", task=task)))
    )


def test_a_directive_in_the_file_narrows_the_boards() -> None:
    assert boards(decide(happened(), facts(contents=contents(b"#!PULLRANK gpus H100\n" + SOURCE)))) == ["H100 ranked 1"]


def test_only_boards_with_a_machine_are_requested() -> None:
    wide = contents(task=WIDE)
    assert boards(decide(happened(), facts(contents=wide))) == ["CPU ranked 1", "H100 ranked 1"]
    named = contents(b"#!PULLRANK gpus CPU L4\n" + SOURCE, task=WIDE)
    assert "There is no machine here for `L4`" in refusal(decide(happened(), facts(contents=named)))
    nowhere = contents(task=replace(TASK, gpus=("T4", "L4")))
    assert "It can run on `T4`, `L4`: ask a maintainer to add such a machine." in refusal(
        decide(happened(), facts(contents=nowhere))
    )


def test_a_submission_after_the_deadline_is_tested_but_not_ranked() -> None:
    late = facts(now=NOW + timedelta(days=2))
    decision = decide(happened(PullAction.PUSHED), late)
    assert boards(decision) == ["CPU test 1", "H100 test 1"]
    assert decision.notice and decision.notice.tone is Tone.REMARK
    assert decision.notice.text == "`vectoradd` closed at 2026-11-22 12:00 UTC. This is tested but not ranked."
    assert "closed at 2026-11-22 12:00 UTC. `/test`" in refusal(decide(said("/rank"), late))
    assert boards(decide(said("/benchmark gpu=CPU"), late)) == ["CPU benchmark 1"]
    assert boards(decide(happened(), facts(now=late.now, pull=pull(is_draft=True)))) == [
        "CPU benchmark 1",
        "H100 benchmark 1",
    ]


@pytest.mark.parametrize("files", [changed("README.md"), changed("scripts/cli.py", ".github/workflows/x.yml"), ()])
def test_a_plain_contribution_is_ignored_and_its_commands_are_refused(files: tuple[ChangedFile, ...]) -> None:
    decision = decide(happened(), facts(contents=contents(files=files)))
    assert decision == Decision(why="changes no submission and no task", is_settled=True)
    assert "does not change a submission" in refusal(decide(said("/rank"), facts(contents=contents(files=files))))


# Quotas.


def limited(**limits: int) -> Competition:
    return replace(COMPETITION, settings=SETTINGS.model_copy(update={"limits": Quotas(**limits)}))


def test_the_refusal_for_a_used_up_quota_names_the_next_slot() -> None:
    used = tuple(asked(state=EndState.JUDGED, pull_request=n, asked_at=NOW - timedelta(hours=n)) for n in range(1, 4))
    known = facts(competition=limited(ranked_per_day=3), history=used)
    for event in (happened(), said("/rank")):
        told = refusal(decide(event, known))
        assert "3 of 3 ranked judgings in 24 hours" in told and "Try again at 2026-11-22 09:00 UTC" in told
    assert boards(decide(said("/rank gpu=CPU", by=BOB), replace(known, permission=Permission.ADMIN))) == [
        "CPU ranked 1"
    ]
    assert boards(decide(said("/benchmark"), known)) == ["CPU benchmark 1", "H100 benchmark 1"]


def test_a_submission_is_judged_on_as_many_boards_as_the_quota_allows() -> None:
    decision = decide(happened(), facts(competition=limited(pending=1)))
    assert boards(decision) == ["CPU ranked 1"]
    assert decision.notice and decision.notice.tone is Tone.REMARK
    assert decision.notice.text == (
        "Not judged on `H100`: the limit is 1 pending judgings. Comment `/rank gpu=H100` when there is room."
    )


def test_a_board_whose_minutes_are_used_up_is_left_out() -> None:
    budget = {"CPU": Gpu(runs_on="CPU", minutes_per_day=100), "H100": Gpu(runs_on="H100", minutes_per_day=10)}
    competition = replace(COMPETITION, settings=SETTINGS.model_copy(update={"gpus": budget}))
    used = asked("H100", state=EndState.JUDGED, pull_request=3, asked_at=NOW - timedelta(hours=4), user_id=8)
    spent = replace(
        used, ending=used.ending and used.ending.model_copy(update={"seconds": 590.0, "at": used.request.asked_at})
    )
    known = facts(competition=competition, on_limited_boards=(spent,))
    limit = "minutes of judging in 24 hours for all authors together"
    decision = decide(happened(), known)
    assert boards(decision) == ["CPU ranked 1"]
    assert decision.notice and decision.notice.left_out == ("H100",)
    assert decision.notice.text == (
        f"Not judged on `H100`: the limit of `H100` is 10 {limit}. Comment `/rank gpu=H100` at 2026-11-22 08:00 UTC or later."
    )
    told = refusal(decide(said("/rank gpu=H100"), known))
    assert told == f"`H100` has used 9.8 of 10 {limit}. Try again at 2026-11-22 08:00 UTC."
    assert boards(
        decide(said("/rank gpu=H100", by=BOB), replace(known, permission=Permission.ADMIN))
    )  # maintainers may
    superseded = asked("H100", head_sha=OLD)
    pushed = replace(known, on_limited_boards=(superseded,) * 10, history=(superseded,))
    assert boards(decide(happened(PullAction.PUSHED), pushed)) == ["CPU ranked 1", "H100 ranked 1"]
    full = replace(
        known,
        competition=replace(competition, settings=limited(pending=1).settings.model_copy(update={"gpus": budget})),
    )
    both = decide(happened(), replace(full, history=(asked(pull_request=3),)))
    assert not both.requests and both.notice and "`H100` has used" in both.notice.text and "pending" in both.notice.text


def test_a_limit_of_one_board_leaves_the_other_tasks_of_its_gpu_alone() -> None:
    gpus = {"CPU": Gpu(runs_on="CPU"), "H100": Gpu(runs_on="H100", minutes_per_day=100, board_minutes_per_day=10)}
    competition = replace(COMPETITION, settings=SETTINGS.model_copy(update={"gpus": gpus}))
    used = asked("H100", state=EndState.JUDGED, pull_request=3, asked_at=NOW - timedelta(hours=4), user_id=8)
    assert used.ending
    spent = replace(used, ending=used.ending.model_copy(update={"seconds": 600.0, "at": used.request.asked_at}))
    elsewhere = replace(spent, request=used.request.model_copy(update={"task": "another"}))
    known = facts(competition=competition, on_limited_boards=(spent,))
    told = refusal(decide(said("/rank gpu=H100"), known))
    assert told.startswith(f"`{used.request.task}` on `H100` has used 10 of 10 minutes"), told
    assert boards(decide(said("/rank gpu=H100"), replace(known, on_limited_boards=(elsewhere,)))) == ["H100 ranked 1"]
    pushed = decide(happened(), known).notice
    assert pushed and f"the limit of `{used.request.task}` on `H100` is 10 minutes" in pushed.text
    later = replace(spent, ending=spent.ending and spent.ending.model_copy(update={"at": NOW - timedelta(hours=1)}))
    both = {"H100": Gpu(runs_on="H100", minutes_per_day=20, board_minutes_per_day=10)}
    competition = replace(COMPETITION, settings=SETTINGS.model_copy(update={"gpus": gpus | both}))
    theirs = replace(spent, request=elsewhere.request)
    known = replace(known, competition=competition, on_limited_boards=(theirs, later))
    assert "on `H100` has used 10 of 10" in refusal(decide(said("/rank gpu=H100"), known)), "it lasts longer"


def test_a_board_without_newcomers_needs_a_merged_submission() -> None:
    gpus = {"CPU": Gpu(runs_on="CPU"), "H100": Gpu(runs_on="H100", newcomers=False)}
    known = facts(competition=replace(COMPETITION, settings=SETTINGS.model_copy(update={"gpus": gpus})))
    decision = decide(happened(), known)
    assert boards(decision) == ["CPU ranked 1"] and decision.notice
    then = "comment `/rank gpu=H100` once you have one."
    assert decision.notice.text == f"Not judged on `H100`, which is only for authors with a merged submission: {then}"
    assert not decision.notice.left_out  # so that `submit` does not call it a failure
    tested = asked(mode=Mode.TEST, state=EndState.JUDGED)
    again = replace(known, history=(asked("H100", state=EndState.JUDGED), tested))
    assert boards(decide(said("/rerun gpu=H100 gpu=CPU"), again)) == ["CPU test 2"]
    assert "only for authors with a merged submission" in refusal(decide(said("/rank gpu=H100"), known))
    assert boards(decide(happened(), replace(known, has_merged=True))) == ["CPU ranked 1", "H100 ranked 1"]


def test_a_new_author_must_have_an_account_of_the_required_age() -> None:
    joined_at, ours = NOW - timedelta(days=29), contents(origin=origin())
    known = facts(contents=ours, competition=limited(account_days=30), author_joined_at=joined_at)
    assert decide(happened(), known).origin == origin()  # so that nobody else can claim the file meanwhile
    for event in (happened(), said("/benchmark")):
        told = refusal(decide(event, known))
        assert "must be at least 30 days old" in told and "` at 2026-11-22 12:00 UTC or later" in told
    assert boards(decide(said("/rank gpu=CPU", by=BOB), replace(known, permission=Permission.ADMIN)))
    assert decide(happened(), replace(known, author_joined_at=NOW - timedelta(days=30))).requests
    assert decide(happened(), replace(known, author_joined_at=None)).requests


def test_superseded_requests_free_their_places_in_the_quota() -> None:
    history = (asked(head_sha=OLD), asked("H100", head_sha=OLD))
    assert (
        len(decide(happened(PullAction.PUSHED), facts(competition=limited(pending=2), history=history)).requests) == 2
    )


def test_a_ranking_refused_by_the_quota_does_not_end_the_benchmark() -> None:
    history = (asked(mode=Mode.BENCHMARK), asked(pull_request=3, state=EndState.JUDGED))
    decision = decide(happened(PullAction.READIED), facts(competition=limited(ranked_per_day=1), history=history))
    assert "1 of 1 ranked" in refusal(decision) and not ends(decision)


# Comments.


@pytest.mark.parametrize(
    ("body", "history", "expected"),
    [
        ("/test", (), ["CPU test 1", "H100 test 1"]),
        ("/benchmark gpu=H100", (), ["H100 benchmark 1"]),
        ("/profile gpu=CPU", (), ["CPU profile 1"]),
        ("/rank", (asked(),), ["H100 ranked 1"]),
        ("/rank", (asked(state=EndState.JUDGED), asked("H100", state=EndState.CANCELLED)), ["CPU ranked 2", "H100 ranked 2"]),
        ("/rerun", (), ["CPU ranked 1", "H100 ranked 1"]),
        ("/rerun gpu=CPU", (asked(state=EndState.JUDGED),), ["CPU ranked 2"]),
        ("/rerun", (asked(state=EndState.JUDGED), asked("H100", Mode.TEST, EndState.JUDGED)), ["CPU ranked 2", "H100 test 2"]),
        ("/rerun gpu=CPU", (asked(state=EndState.JUDGED, attempt=3),), ["CPU ranked 4"]),
    ],
)  # fmt: skip
def test_each_command_requests_the_right_judgings(
    body: str, history: tuple[RequestStatus, ...], expected: list[str]
) -> None:
    decision = decide(said(body), facts(history=history))
    assert boards(decision) == expected
    assert decision.reaction is Reaction.ROCKET and decision.is_settled


def test_a_profile_of_one_benchmark_is_requested_and_repeated() -> None:
    decision = decide(said("/profile 2 gpu=CPU"), facts())
    assert [request.case for request in decision.requests] == [2]
    judged = asked(mode=Mode.PROFILE, state=EndState.JUDGED, case=2)
    again = decide(said("/rerun gpu=CPU"), facts(history=(judged,)))
    assert [(request.mode, request.case, request.attempt) for request in again.requests] == [(Mode.PROFILE, 2, 2)]
    whole = decide(said("/profile gpu=CPU"), facts(history=(judged,)))
    assert [request.case for request in whole.requests] == [None]


def test_a_profile_of_some_launches_is_requested_for_gpus_and_repeated() -> None:
    chosen = LaunchFilter(kernel="gemm", skip=3)
    decision = decide(said("/profile kernel=gemm skip=3"), facts())
    assert {request.gpu: request.launches for request in decision.requests} == {"CPU": None, "H100": chosen}
    judged = asked("H100", Mode.PROFILE, EndState.JUDGED, launches=chosen)
    (again,) = decide(said("/rerun gpu=H100"), facts(history=(judged,))).requests
    assert (again.mode, again.launches, again.attempt) == (Mode.PROFILE, chosen, 2)
    assert Request.from_json(again.to_json()) == again


def test_a_comment_delivered_twice_requests_once() -> None:
    first = decide(said("/rerun"), facts())
    history = tuple(RequestStatus(request=request) for request in first.requests)
    ended = tuple(
        replace(status, ending=Ending(request=status.request.id, state=EndState.CANCELLED, at=NOW))
        for status in history
    )
    assert not decide(said("/rerun"), facts(history=ended)).requests
    assert boards(decide(said("/rerun", comment_id=502), facts(history=ended))) == ["CPU ranked 2", "H100 ranked 2"]


@pytest.mark.parametrize(
    ("body", "changes", "words"),
    [
        ("/rank", {"pull": pull(is_draft=True)}, "Mark the pull request as ready for review"),
        ("/rank", {"pull": pull(is_open=False)}, "Reopen it"),
        ("/rank", {"pull": pull(base_ref="release")}, "does not target `main`"),
        ("/rank", {"history": (asked(), asked("H100"))}, "is already queued"),
        ("/rank gpu=h100", {}, "There is no machine here for `h100`; did you mean `H100`?"),
        (
            "/test gpu=A100",
            {},
            "no board for `A100`; did you mean `H100`? The boards of `vectoradd` here: `CPU`, `H100`.",
        ),
        (
            "/test gpu=L4",
            {"contents": contents(task=WIDE)},
            "There is no machine here for `L4`. The boards of `vectoradd` here: `CPU`, `H100`.",
        ),
        ("/profile 3 gpu=CPU", {}, "`vectoradd` has no benchmark 3 on `CPU`: name 1 to 2."),
        ("/profile count=1 gpu=CPU", {}, "choose launches on a GPU, and this would be profiled on `CPU`"),
        ("/profile 1 gpu=CPU", {"history": (asked(mode=Mode.PROFILE, case=2),)}, "A profile is already queued"),
        ("/cancel", {}, "nothing to cancel"),
        ("/cancel gpu=H100", {"history": (asked(),)}, "nothing to cancel here on `H100`."),
        ("/cancel gpu=cpu", {"history": (asked(),)}, "nothing to cancel here on `cpu`; did you mean 'CPU'?"),
        ("/withdraw gpu=cpu", {"history": (asked(),)}, "no results to withdraw on `cpu`; did you mean 'CPU'?"),
        ("/check", {}, "needs write access"),
        ("/check", {"permission": Permission.WRITE}, "this pull request changes none"),
        ("/ci", {}, "needs write access"),
        ("/ci", {"permission": Permission.WRITE}, "a fork's code never gets a token"),
        ("/rank\n/test", {}, "Only one command per comment"),
        ("/rnak", {}, "did you mean `/rank`?"),
    ],
)
def test_an_impossible_command_is_refused_with_the_reason(body: str, changes: dict[str, Any], words: str) -> None:
    assert words in refusal(decide(said(body), facts(**changes)))


def test_cancel_works_after_the_pull_request_got_another_target() -> None:
    elsewhere = pull(base_ref="release")
    assert ends(decide(said("/cancel"), facts(pull=elsewhere, history=(asked(),)))) == ["CPU ranked cancelled"]


def test_cancel_spares_requests_made_after_the_comment() -> None:
    soon = timedelta(seconds=40)
    newer = asked(head_sha=OLD, asked_at=NOW + soon)
    words = "are newer than your comment"
    assert words in refusal(decide(said("/cancel"), facts(history=(newer,))))
    assert ends(decide(said("/cancel"), facts(history=(asked(), newer)))) == ["CPU ranked cancelled"]
    # A request made after the comment, for an event before it.
    slow = asked(asked_at=NOW + soon, first_asked_at=NOW - soon)
    assert ends(decide(said("/cancel"), facts(now=NOW + 2 * soon, history=(slow,)))) == ["CPU ranked cancelled"]


def test_cancel_is_obeyed_once() -> None:
    first = decide(said("/cancel"), facts(history=(asked(),)))
    done = [RequestStatus(request=request, ending=ending) for request, ending in first.endings]
    again = decide(said("/cancel"), facts(history=(*done, asked("H100"))))
    assert not again.endings and not again.answer and not again.reaction
    assert ends(decide(said("/cancel", comment_id=502), facts(history=(*done, asked("H100"))))) == [
        "H100 ranked cancelled"
    ]


def test_cancel_ends_the_open_requests_of_this_pull_request() -> None:
    history = (asked(), asked("H100"), asked("CPU", pull_request=13), asked("CPU", Mode.TEST, EndState.JUDGED))
    decision = decide(said("/cancel"), facts(history=history))
    assert ends(decision) == ["CPU ranked cancelled", "H100 ranked cancelled"]
    assert ends(decide(said("/cancel gpu=H100"), facts(history=history))) == ["H100 ranked cancelled"]


@pytest.mark.parametrize("body", ["/rank", "/cancel", "/withdraw", "/help", "/check", "/rank\n/test"])
def test_a_strangers_command_does_nothing_and_gets_no_answer(body: str) -> None:
    for permission in (Permission.NONE, Permission.READ):
        decision = decide(said(body, by=BOB), facts(permission=permission, history=(asked(),)))
        assert decision == Decision(why="a stranger's command")


def test_the_author_is_identified_by_user_id_not_login() -> None:
    impostor = Account(id=8, login="alice")
    assert decide(said("/rank", by=impostor), facts()) == Decision(why="a stranger's command")
    assert decide(said("/rank", by=Account(id=7, login="renamed")), facts()).requests


def test_help_lists_every_command_and_show_lists_requests_and_quotas() -> None:
    answer = decide(said("/help"), facts()).answer
    assert answer and all(f"`/{verb}`" in answer for verb in ("rank", "test", "rerun", "cancel", "show", "check"))
    shown = decide(said("/show"), facts(history=(asked(), asked("H100", state=EndState.JUDGED)))).answer
    assert shown and "`CPU`, ranked, commit `aaaaaaa`: for 5 minutes" in shown
    assert "1 of 4 pending judgings" in shown and "2 of 20 ranked judgings" in shown


# Tasks.

TASK_FILES = changed("tasks/gemm/task.yml", status="modified")


def test_a_changed_task_is_read_and_waits_for_a_maintainer() -> None:
    decision = decide(happened(), facts(contents=contents(files=TASK_FILES)))
    assert not decision.requests and not decision.checks_tasks
    assert decision.notice and decision.notice.tone is Tone.REMARK and "`/check`" in decision.notice.text


def test_the_faults_of_a_changed_task_are_shown_as_text() -> None:
    faults = "tasks/gemm/task.yml:3: ```@everyone``` unknown key"
    told = refusal(decide(happened(), facts(contents=contents(files=TASK_FILES), task_faults=faults)))
    assert f"````text\n{faults}\n````" in told


def test_only_a_maintainer_can_start_the_check_of_a_task() -> None:
    known = facts(contents=contents(files=TASK_FILES))
    assert decide(said("/check", by=BOB), replace(known, permission=Permission.WRITE)).checks_tasks
    assert decide(said("/check"), replace(known, permission=Permission.ADMIN)).checks_tasks
    assert "needs write access" in refusal(decide(said("/check"), known))
    ill = replace(known, permission=Permission.WRITE, task_faults="ill")
    assert "does not load" in refusal(decide(said("/check"), ill))


def test_ci_runs_only_for_maintainers_and_on_the_repositorys_own_branches() -> None:
    ours = {"head_ref": "dependabot/pip/packages", "head_repository": 5, "base_repository": 5}
    known = facts(pull=pull(**ours))
    may = replace(known, permission=Permission.WRITE)
    assert decide(said("/ci", by=BOB), may).tested_branch == decide(said("/ci"), may).tested_branch == ours["head_ref"]
    assert "needs write access" in refusal(decide(said("/ci"), known))
    for change, words in (
        ({"head_repository": 6}, "a fork's code"),
        ({"head_repository": None}, "a fork's code"),
        ({"head_repository": None, "base_repository": None}, "a fork's code"),
        ({"is_open": False}, "is closed"),
    ):
        changed_one = replace(may, pull=pull(**(ours | change)))
        assert words in refusal(decide(said("/ci", by=BOB), changed_one))


def test_a_commit_pushed_after_the_maintainers_check_command_does_not_run() -> None:
    later = NOW + timedelta(seconds=2)

    def check(**changes: Any) -> Decision:
        known = facts(permission=Permission.WRITE, contents=contents(files=TASK_FILES), pull=pull(**changes))
        heard_late = replace(known, now=NOW + timedelta(minutes=5))
        return decide(said("/check", by=BOB), heard_late)

    assert "`bbbbbbb`" in refusal(check(head_sha=OLD, head_at=later, updated_at=later))
    assert check(updated_at=later).checks_tasks  # By the comment's own time.
    # A push may be recorded seconds late.
    assert "`bbbbbbb`" in refusal(check(head_sha=OLD, updated_at=later + timedelta(seconds=8)))


# Payloads.


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("push", {}),
        ("workflow_run", {"action": "completed"}),
        ("pull_request_target", {"action": "labeled"}),
        ("pull_request_target", {"action": "edited"}),
        ("issue_comment", {"action": "edited"}),
        ("issue_comment", {"action": "deleted"}),
        ("issue_comment", {"action": "created", "issue": {"number": 3}}),
    ],
)
def test_other_events_are_ignored(name: str, payload: dict[str, Any]) -> None:
    assert isinstance(read_event(name, payload), Nothing)


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("pull_request_target", []),
        ("pull_request_target", {"action": "opened"}),
        ("pull_request_target", {"action": "opened", "pull_request": {"number": "12"}}),
        ("issue_comment", {"action": "created", "issue": {"number": True, "pull_request": {}}}),
        ("issue_comment", {"action": 1}),
    ],
)
def test_a_payload_that_github_never_sends_is_an_error(name: str, payload: object) -> None:
    with pytest.raises(GitHubError):
        read_event(name, payload)


# Whole events.


class Stage:
    """A repository on a GitHub on loopback, and intake for its events."""

    def __init__(self, server: GitHubServer, tmp_path: Path) -> None:
        self.server, self.world, self.tmp_path = server, server.world, tmp_path
        scopes = {
            "actions": "write",
            "checks": "write",
            "contents": "write",
            "issues": "write",
            "pull-requests": "write",
        }
        self.token = self.world.workflow_token(scopes).value
        self.root = Path.cwd()
        self.settings = Settings(gpus={"CPU": Gpu(runs_on="ubuntu-24.04")})
        self.events: list[tuple[str, Any]] = []
        self.world.listeners.append(lambda event: self.events.append((event.name, event.payload)))

    def context(self, github: GitHub) -> BotContext:
        url = self.server.git_url
        return BotContext(
            github=github,
            open_ledger=lambda wanted: LedgerBranch(url, token=self.token, wanted=wanted),
            open_fork=lambda: Fork(url, self.token),
            settings=self.settings,
            root=self.root,
        )

    def intake(self, index: int = -1) -> str:
        """Run intake for one of the events so far."""
        name, payload = self.events[index]
        name = "pull_request_target" if name == "pull_request" else name
        path = self.tmp_path / "event.json"
        path.write_text(json.dumps(payload))
        with GitHub(self.world.repository, self.token, self.server.api_url) as github:
            return run(name, path, self.context(github))

    def bodies(self, number: int) -> list[str]:
        return [comment.body for comment in self.world.comments_on(number)]

    def requests(self) -> list[RequestStatus]:
        with LedgerBranch(self.server.git_url, token=self.token) as branch:
            return list(branch.ledger.requests())


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    world = World(tmp_path / "github")
    files = [*Path("tasks/vectoradd").glob("*.*"), Path(".github/workflows/evaluate.yml")]
    world.commit({str(file): file.read_bytes() for file in files})
    with GitHubServer(world) as server:
        yield Stage(server, tmp_path)


def test_a_ready_pull_request_gets_a_request_a_comment_and_a_run(stage: Stage) -> None:
    alice = stage.world.add_user("alice")
    pull = stage.world.open_pull(alice, {PATH: SOURCE})
    stage.server.log.clear()
    assert stage.intake() == f"#{pull.number}: requests 1 of 1 boards, ranked."
    [status] = stage.requests()
    assert (status.request.login, status.request.user_id, status.request.head_sha) == ("alice", alice.id, pull.head_sha)
    [body] = stage.bodies(pull.number)
    assert MARKER in body and "`CPU` | ranked | queued since" in body
    assert [str(entry).split("/", 4)[-1] for entry in stage.server.rest_requests()] == [
        f"issues/{pull.number}/comments",
        "actions/workflows/evaluate.yml/dispatches",
    ]


@pytest.mark.parametrize(
    ("key", "boards"), [("minutes_per_day", "`CPU`"), ("board_minutes_per_day", "`vectoradd` on `CPU`")]
)
def test_intake_counts_what_other_authors_have_used_of_a_boards_minutes(stage: Stage, key: str, boards: str) -> None:
    stage.settings = Settings(gpus={"CPU": Gpu(runs_on="ubuntu-24.04", **{key: 1})})
    first = stage.world.open_pull(stage.world.add_user("alice"), {PATH: SOURCE})
    assert stage.intake() == f"#{first.number}: requests 1 of 1 boards, ranked."
    other = stage.world.open_pull(stage.world.add_user("bob"), {PATH.replace("alice", "bob"): OWN})
    assert stage.intake() == f"#{other.number}: refused by a limit."
    assert f"{boards} has used 1 of 1 minutes" in stage.bodies(other.number)[0] and len(stage.requests()) == 1


def test_intake_asks_for_the_age_of_new_authors_only(stage: Stage) -> None:
    stage.settings = Settings(gpus={"CPU": Gpu(runs_on="ubuntu-24.04")}, limits=Quotas(account_days=3650))
    alice, bob = stage.world.add_user("alice"), stage.world.add_user("bob")
    with LedgerBranch(stage.server.git_url, token=stage.token) as branch:
        branch.ledger.append_account(KnownAccount(user_id=bob.id, login="bob", first_seen=NOW))
        branch.commit("bob")
    stage.world.open_pull(alice, {PATH: SOURCE})
    assert "refused" in stage.intake() and "must be at least 3650 days old" in stage.bodies(1)[0]
    stage.server.log.clear()
    stage.world.open_pull(bob, {PATH.replace("alice", "bob"): SOURCE})
    assert "requests 1 of 1 boards" in stage.intake() and not stage.server.requests("GET */users/*")


def test_intake_sees_which_authors_have_a_merged_submission(stage: Stage, tmp_path: Path) -> None:
    stage.settings = Settings(gpus={"CPU": Gpu(runs_on="ubuntu-24.04", newcomers=False)})
    alice = stage.world.add_user("alice")
    stage.world.open_pull(alice, {PATH: SOURCE})
    assert "refused" in stage.intake() and "merged submission" in stage.bodies(1)[0]
    stage.root = tmp_path / "checkout"
    (stage.root / "submissions/matmul/alice").mkdir(parents=True)
    (stage.root / "submissions/matmul/alice/submission.py").write_bytes(SOURCE)
    (stage.root / "tasks").symlink_to(Path("tasks").absolute())
    assert "requests 1 of 1 boards" in stage.intake()


def test_an_event_that_comes_twice_changes_nothing(stage: Stage) -> None:
    pull = stage.world.open_pull(stage.world.add_user("alice"), {PATH: SOURCE})
    stage.intake(0)
    before = stage.bodies(pull.number), len(stage.requests()), len(stage.world.runs)
    stage.intake(0)
    assert (stage.bodies(pull.number), len(stage.requests()), len(stage.world.runs)) == before


def test_a_refusal_comment_is_replaced_after_a_corrected_push(stage: Stage) -> None:
    alice = stage.world.add_user("alice")
    pull = stage.world.open_pull(alice, {PATH: b"x = 1\n"})
    stage.intake()
    [body] = stage.bodies(pull.number)
    assert "> [!WARNING]\n> **Not judged.**" in body and "custom_kernel" in body and not stage.requests()
    stage.world.push(pull, {PATH: SOURCE})
    stage.intake()
    [body] = stage.bodies(pull.number)
    assert "WARNING" not in body and "queued since" in body and len(stage.requests()) == 1


def test_a_cancelled_request_is_ended_and_reported_and_its_run_stopped(stage: Stage) -> None:
    alice = stage.world.add_user("alice")
    pull = stage.world.open_pull(alice, {PATH: SOURCE})
    stage.intake()
    comment = stage.world.add_comment(pull.number, alice, "/cancel")
    stage.intake()
    [status] = stage.requests()
    assert status.ending and status.ending.state is EndState.CANCELLED
    assert "cancelled" in stage.bodies(pull.number)[0]
    assert [content for _, _, content in comment.reactions] == ["+1"]
    assert stage.server.requests("POST */cancel")


def test_a_strangers_command_costs_two_api_calls_and_gets_no_answer(stage: Stage) -> None:
    pull = stage.world.open_pull(stage.world.add_user("alice"), {PATH: SOURCE})
    stage.intake()
    comment = stage.world.add_comment(pull.number, stage.world.add_user("mallory"), "/cancel")
    stage.server.log.clear()
    assert stage.intake() == f"#{pull.number}: a stranger's command."
    assert len(stage.server.rest_requests()) == len(stage.server.queries()) == 1
    assert len(stage.bodies(pull.number)) == 2 and not comment.reactions and stage.requests()[0].is_open


def test_a_task_in_a_fork_is_read_but_not_run(stage: Stage) -> None:
    trap = b"open('/tmp/pullrank-was-here', 'w')\nraise SystemExit\n"
    files = {"tasks/vectoradd/task.yml": b"titel: x\n", "tasks/vectoradd/reference.py": trap}
    pull = stage.world.open_pull(stage.world.add_user("carol"), files)
    stage.intake()
    [body] = stage.bodies(pull.number)
    assert "Loading failed" in body and "tasks/vectoradd/task.yml:1: titel: unknown key; did you mean 'title'?" in body
    assert not Path("/tmp/pullrank-was-here").exists()


def test_a_plain_contribution_gets_no_comment(stage: Stage) -> None:
    pull = stage.world.open_pull(stage.world.add_user("carol"), {"README.md": b"Better\n"})
    assert "changes no submission" in stage.intake()
    assert not stage.bodies(pull.number) and not stage.requests()


@contextmanager
def told(words: str) -> Iterator[None]:
    with pytest.raises(PullRankError) as error:
        yield
    assert words in str(error.value)


def test_an_unreadable_payload_is_reported_in_one_line(stage: Stage) -> None:
    path = stage.tmp_path / "event.json"
    with GitHub(stage.world.repository, stage.token, stage.server.api_url) as github:
        with told("cannot be read"):
            run("pull_request_target", path, stage.context(github))
        path.write_text("{")
        with told("is not JSON"):
            run("pull_request_target", path, stage.context(github))


# Late requests.

CLOSING = NOW + timedelta(hours=1)
LATER = NOW + timedelta(hours=30)


def closing(**changes: Any) -> EventFacts:
    """A time after a task's deadline."""
    return facts(now=LATER, contents=contents(task=replace(TASK, deadline=CLOSING)), **changes)


def first_asked(decision: Decision) -> list[datetime | None]:
    return [request.first_asked_at for request in decision.requests]


def test_an_event_before_the_deadline_is_ranked_even_if_delivered_late() -> None:
    decision = decide(happened(), closing(happened_at=NOW))
    assert boards(decision) == ["CPU ranked 1", "H100 ranked 1"] and first_asked(decision) == [NOW, NOW]
    assert [request.asked_at for request in decision.requests] == [LATER, LATER]
    assert boards(decide(happened(), closing(happened_at=LATER)))[0] == "CPU test 1"
    assert first_asked(decide(happened(), facts())) == [None, None]
    assert first_asked(decide(happened(), facts(happened_at=NOW - timedelta(minutes=1))))[0] == NOW - timedelta(
        minutes=1
    )


@pytest.mark.parametrize("command", ["/rerun gpu=CPU", "/rank gpu=CPU"])
def test_a_judging_that_we_failed_can_be_repeated_after_the_deadline(command: str) -> None:
    failed = asked(state=EndState.FAILED)
    decision = decide(said(command), closing(history=(failed,)))
    assert boards(decision) == ["CPU ranked 2"] and first_asked(decision) == [failed.request.asked_at]


@pytest.mark.parametrize("state", [None, EndState.JUDGED])
def test_a_late_event_does_not_replace_a_ranked_request_with_a_test(state: EndState | None) -> None:
    decision = decide(happened(PullAction.PUSHED), closing(history=(asked(state=state),), happened_at=LATER))
    assert boards(decision) == ["H100 test 1"] and not ends(decision)


def test_a_judged_submission_is_not_ranked_again_after_the_deadline() -> None:
    judged = asked(state=EndState.JUDGED)
    assert boards(decide(said("/rerun gpu=CPU"), closing(history=(judged,)))) == ["CPU test 1"]
    assert "closed at" in refusal(decide(said("/rank gpu=CPU"), closing(history=(judged,))))
