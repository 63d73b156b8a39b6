"""Comments: which are commands, which are conversation, and what the others are told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judgement import Mode
from scripts.slash import MAX_GPUS, Command, SlashError, Verb, read_command


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
        ("/test\nhere is what I typed before:\n```\n/rank\n```", "/test"),
        ("/test\n> /rank", "/test"),
        ("/test\n/tmp/out.log is empty", "/test"),
        ("/test\n/rank H100", "/test"),
    ],
)
def test_a_command_stands_on_the_first_line(body: str, command: str) -> None:
    assert str(read_command(body)) == command


@pytest.mark.parametrize(
    "body",
    [
        "", "\n", "Nice!", "please /rank this", "> /rank", "    /rank", "/", "//rank", "/rank/", "/tmp/x is full", "/lgtm",
        "/r", "/close", "/assign @alice", "/ rank", "/rаnk", "```\n/rank\n```", "look:\n~~~\n/rank\n~~~", "a\n /rank",
    ],
)  # fmt: skip
def test_everything_else_is_conversation(body: str) -> None:
    assert read_command(body) is None


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("It is ready.\n/rank", "first line of a comment. Write `/rank` in a new one"),
        ("Hi\n\n```\n/test\n```\n/rank gpu=H100", "Write `/rank gpu=H100` in a new one"),
        ("/test\n/rank", "One command a comment. Write `/test` and `/rank`"),
        ("/rnak", "did you mean `/rank`?"),
        ("/benchmrak gpu=H100", "did you mean `/benchmark`?"),
        ("/rank H100", "`H100` says nothing to `/rank`. To narrow it to one board write `/rank gpu=H100`"),
        ("/rank --gpu=H100", "write `/rank gpu=H100`"),
        ("/rank gpu=", "`gpu=` says nothing"),
        ("/rank please!", "`please!` says nothing"),
        ("/rank gpu=H100,A100", "`/rank gpu=NAME` one of them"),
        ("/rank gpu=../../etc", "says nothing"),
        ("/rank @everyone", "`@everyone` says nothing"),
        ("/rank ${{secrets.X}}`whoami`", "says nothing"),
        ("/rank " + " ".join(f"gpu=G{n}" for n in range(MAX_GPUS + 1)), "at most 16"),
    ],
)
def test_what_was_meant_as_a_command_is_told_how_to_write_it(body: str, words: str) -> None:
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


@given(st.text(alphabet=st.sampled_from("/rank tes gpu=H100\n\r\t`~>@.x"), max_size=80))
def test_no_comment_breaks_it_and_what_is_read_can_be_written(body: str) -> None:
    try:
        command = read_command(body)
    except SlashError:
        return
    assert command is None or read_command(str(command)) == command
