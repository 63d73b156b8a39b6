"""Comments: which ones are commands, which are conversation, and the replies to faulty commands."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from harness.records.fields import Mode
from scripts.bot.intake.slash import MAX_GPUS, Command, SlashError, Verb, read_command
from tests.actions.expressions import Expressions, Status
from tests.properties import HealthCheck, example, given, settings, st


@pytest.mark.parametrize("verb", list(Verb))
def test_every_verb_is_a_command_and_takes_boards(verb: Verb) -> None:
    assert read_command(f"/{verb}") == Command(verb=verb)
    assert read_command(f"/{verb} gpu=H100 gpu=RTX-4090") == Command(verb=verb, gpus=("H100", "RTX-4090"))


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/rank\r\n\r\nIt should be faster now.", "/rank"),
        ("\n\n/rank  \n", "/rank"),
        ("/RANK gpu=H100", "/rank gpu=H100"),
        ("/rank\tgpu=H100   gpu=H100", "/rank gpu=H100"),
        ("/profile gpu=H100 2", "/profile 2 gpu=H100"),
        ("/profile 2 2", "/profile 2"),
        (
            "/profile count=1 skip=3 2 kernel=gemm|^soft.* gpu=H100",
            "/profile 2 kernel=gemm|^soft.* skip=3 count=1 gpu=H100",
        ),
        ("/profile skip=0 count=50", "/profile"),
        ("/test\nhere is what I typed before:\n```\n/rank\n```", "/test"),
        ("/test\n> /rank", "/test"),
        ("/test\n/tmp/out.log is empty", "/test"),
        ("It is ready.\n/rank", "/rank"),
        ("It is ready.\r\n\r\n/rank gpu=H100\r\nThanks!", "/rank gpu=H100"),
        ("> Is it faster now?\n\n/benchmark", "/benchmark"),
        ("Hi\n\n```\n/test\n```\n/rank gpu=H100", "/rank gpu=H100"),
        ("```py``` is nice\n/rank", "/rank"),
        ("````md\n```\n/withdraw\n```\n/test\n`````  \n/rank", "/rank"),
    ],
)
def test_a_command_needs_a_line_of_its_own(body: str, command: str) -> None:
    assert str(read_command(body)) == command


@pytest.mark.parametrize(
    "body",
    [
        "", "\n", "Nice!", "please /rank this", "> /rank", "    /rank", "/", "//rank", "/rank/", "/tmp/x is full", "/lgtm",
        "/r", "/close", "/assign @alice", "/ rank", "/rаnk", "```\n/rank\n```", "look:\n~~~\n/rank\n~~~", "a\n /rank",
        " /rank", "a\r/rank", "````\n```\n/withdraw\n```\n````", "~~~\n```\n/rank\n```\n~~~",
        "```\n```python\n/rank\n```", "~~~ `a`\n/rank", "Say\n\n    /rank", "- /rank", "> a\n> /rank",
    ],
)  # fmt: skip
def test_a_comment_without_a_command_is_conversation(body: str) -> None:
    assert read_command(body) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("/test\n/rank", "Only one command per comment. Write `/test` and `/rank`"),
        ("/test\n/rank H100", "write `/rank gpu=H100`"),
        ("/rnak", "did you mean `/rank`?"),
        ("It is ready.\n/rnak", "did you mean `/rank`?"),
        ("/benchmrak gpu=H100", "did you mean `/benchmark`?"),
        ("/rank H100", "`H100` is not an argument of `/rank`. For one board, write `/rank gpu=H100`"),
        ("/rank --gpu=H100", "write `/rank gpu=H100`"),
        ("/rank gpu=", "`gpu=` is not an argument"),
        ("/profile 0", "`0` is not an argument of `/profile`. `/profile 2` profiles the second benchmark"),
        ("/profile -1", "`-1` is not an argument"),
        ("/profile 123456", "`123456` is not an argument"),
        ("/profile 2 3", "`/profile` takes one benchmark"),
        ("/profile kernel=(", "`kernel=(` is not a regular expression: `missing ), unterminated subpattern"),
        ("/profile kernel=`@all`", "is not an argument of `/profile`. `kernel=` takes 1 to 100 of ``_:<>"),
        ("/profile kernel=(?a)(?u)x", "`kernel=(?a)(?u)x` is not a regular expression"),
        ("/profile kernel=a kernel=b", "`/profile` takes `kernel=` once."),
        ("/profile kernel=" + "a" * 101, "is not an argument"),
        ("/profile count=51", "`skip=` takes 0 to 1000000, and `count=` 1 to 50"),
        ("/profile skip=1000001", "`skip=` takes 0 to 1000000"),
        ("/profile skip=-1", "is not an argument"),
        ("/rank kernel=gemm", "chooses launches of a call; no other command does"),
        ("/benchmark 2", "no other command takes a number"),
        ("/rank please!", "`please!` is not an argument"),
        ("/rank gpu=H100,A100", "`/rank gpu=NAME` one of them"),
        ("/rank gpu=../../etc", "is not an argument"),
        ("/rank @everyone", "`@everyone` is not an argument"),
        ("/rank ${{secrets.X}}`whoami`", "is not an argument"),
        ("/rank " + " ".join(f"gpu=G{n}" for n in range(MAX_GPUS + 1)), "the limit is 16"),
    ],
)
def test_a_malformed_command_gets_a_helpful_error(body: str, words: str) -> None:
    with pytest.raises(SlashError) as error:
        read_command(body)
    assert words in str(error.value)


def test_four_verbs_name_a_mode() -> None:
    assert {verb: verb.mode for verb in Verb if verb.mode} == {
        Verb.TEST: Mode.TEST,
        Verb.BENCHMARK: Mode.BENCHMARK,
        Verb.PROFILE: Mode.PROFILE,
        Verb.RANK: Mode.RANKED,
    }


FILTER = yaml.safe_load(Path(".github/workflows/intake.yml").read_text())["jobs"]["intake"]["if"]


@pytest.fixture(scope="module")
def expressions() -> Iterator[Expressions]:
    with Expressions() as started:
        yield started


def is_let_through(body: str | None, expressions: Expressions) -> bool:
    """Whether intake.yml starts for a comment."""
    event = {"issue": {"pull_request": {"url": "u"}}, "comment": {"body": body}}
    return expressions.holds(FILTER, {"github": {"event_name": "issue_comment", "event": event}, "vars": {}}, Status())


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example("/rank")
@example("Now.\r\n/rank\r\n")
@example("\n\n/rank")
@example("a\r/rank")
@given(
    st.lists(
        st.sampled_from(["/rank", "/tset", " /rank", "> /test", "```", "Now.", "a / b", "/", ""]), max_size=6
    ).flatmap(lambda lines: st.sampled_from(["\n", "\r\n", "\r"]).map(lambda end: end.join(lines)))
)
def test_intake_starts_for_every_comment_that_holds_a_command(expressions: Expressions, body: str) -> None:
    try:
        is_meant = read_command(body) is not None
    except SlashError:
        is_meant = True
    assert not is_meant or is_let_through(body, expressions)


@pytest.mark.parametrize(
    "body", [None, "", "Nice!", "please /rank", " /rank", "> /rank", "see https://a.b/c", "1/2\n3/4"]
)
def test_intake_does_not_start_for_conversation(expressions: Expressions, body: str | None) -> None:
    assert not is_let_through(body, expressions)


@given(
    st.text(alphabet=st.sampled_from("/rank tes gpu=H100\n\r\t`~>@.x"), max_size=80)
    | st.lists(st.sampled_from([*map("/{}".format, Verb), "gpu=H100", "gpu=", "2", "\n", "\r", "```", ">"])).map(
        " ".join
    )
)
def test_no_comment_crashes_the_parser(body: str) -> None:
    with contextlib.suppress(SlashError):
        command = read_command(body)
        assert command is None or read_command(str(command)) == command


@given(
    st.sampled_from(Verb),
    st.lists(st.sampled_from(["CPU", "H100", "RTX-4090", "MI300X"]), unique=True),
    st.none() | st.integers(1, 9),
)
def test_a_command_survives_a_round_trip(verb: Verb, gpus: list[str], case: int | None) -> None:
    command = Command(verb=verb, gpus=tuple(gpus), case=case if verb is Verb.PROFILE else None)
    assert read_command(f"Now.\n{command}\nThanks!") == command
