"""The guides in site/pages and the other documents: what they name exists, and what they show is right."""

import re
from pathlib import Path

import click
import pytest

from harness.records.verdict import Verdict
from scripts.bot.intake.slash import Verb, read_command
from scripts.cli import COMMANDS, cli
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.moderation import Moderation
from scripts.pages.parts.code import anchor
from scripts.pages.parts.site import GUIDES as PAGES
from scripts.setup.repository_settings import settings_for

ROOT = Path(__file__).parent.parent
GUIDES = sorted((ROOT / "site" / "pages").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", ROOT / "AGENTS.md", ROOT / ".github" / "runner" / "README.md", *GUIDES]
MOST_WORDS = 1500
"""The most words on a page."""


def guide(name: str) -> str:
    """The text of a guide, all its pages."""
    (pages,) = (pages for pages in PAGES if pages[0] == name)
    return "\n".join((ROOT / "site" / "pages" / f"{page}.md").read_text() for page in pages)


ORGANISERS = guide("organisers")
PARTICIPANTS = guide("participants")


def test_no_page_of_a_guide_is_long():
    words = {page: len((ROOT / "site" / "pages" / f"{page}.md").read_text().split()) for one in PAGES for page in one}
    assert max(words.values()) <= MOST_WORDS, words


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(document):
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if target.startswith("https://"):
            continue
        name, _, heading = target.partition("#")
        file = document.parent / name if name else document
        assert file.is_file(), target
        headings = [anchor(line.lstrip("# ")) for line in file.read_text().splitlines() if line.startswith("##")]
        assert not heading or heading in headings, target


def test_the_readme_starts_with_two_commands_and_a_small_picture_per_theme():
    readme = (ROOT / "README.md").read_text()
    assert re.findall(r"^\$ (make [a-z-]+)", readme, re.MULTILINE)[:2] == ["make demo", "make test"]
    pictures = [ROOT / path for path in re.findall(r'(?:src|srcset)="([^"]+)"', readme)]
    assert [path.stem for path in pictures] == ["board-dark", "board-light"]
    assert all(path.stat().st_size < 150_000 for path in pictures)
    assert re.search(r'<img alt="[^"]{40,}"', readme)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_links_only_to_guides_and_https_pages(guide):
    links = re.findall(r"\]\(([^)\s]+)\)", guide.read_text())
    assert [link for link in links if not re.fullmatch(r"https://\S+|([a-z-]+\.md)?(#[\w-]+)?", link)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_shown_in_a_document_exists(document):
    context = click.Context(cli)
    code = re.findall(r"```\w*\n(.*?)```|`([^`\n]+)`", document.read_text(), re.DOTALL)
    for words in re.findall(r"\bpullrank ([a-z-]+)(?: ([a-z-]+))?", "\n".join(map("".join, code))):
        assert words[0] in COMMANDS, words
        command = cli.get_command(context, words[0])
        if isinstance(command, click.Group) and words[1]:
            assert words[1] in command.commands, words


def test_the_guides_explain_every_verdict():
    for name in ("judging", "participants"):
        rows = [re.split(r"\s*\|\s*", line.strip(" |")) for line in guide(name).splitlines() if line.startswith("| ")]
        meanings = {row[0]: row[-1] for row in rows if len(row) == 3}
        assert all(meanings[verdict] for verdict in Verdict), name


def test_the_organisers_guide_explains_every_setting_of_setup():
    table = ORGANISERS.partition("## What setup sets")[2].partition("\n## ")[0]
    settings = settings_for(lambda: LedgerBranch("https://github.com/acme/kernels.git"), is_public=True)
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) - 1 == len(settings) - 1  # the head, and the default branch, which setup does not change


def test_the_example_fact_in_the_guide_is_valid_for_the_ledger():
    example = re.search(r"```json\n(.*?)```", ORGANISERS, re.DOTALL)
    assert example
    assert f"`{Moderation.model_validate_json(example[1]).place}`" in ORGANISERS


def test_the_webhook_line_in_the_guide_matches_the_workflow():
    first, second = re.findall(r"^ +(DISCORD_WEBHOOK\w*: .+)$", ORGANISERS, re.MULTILINE)
    publish = (ROOT / ".github/workflows/publish.yml").read_text().rstrip()
    assert publish.endswith(first) and second == first.replace("DISCORD_WEBHOOK", "DISCORD_WEBHOOK_GEMM")


def test_the_guides_troubleshooting_tables_quote_real_messages():
    folders = ("scripts", "harness", ".github/runner")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".sh")]
    printed = "\n".join(path.read_text() for path in sources)
    pages = [ROOT / "site" / "pages" / name for name in ("organisers-discord.md", "runner-hosts-upkeep.md")]
    tables = [page.read_text().rpartition("\n\n|")[2] for page in pages]
    messages = [found for table in tables for found in re.findall(r"^\| [^|`]*`([^`]+)`", table, re.MULTILINE)]
    assert len(messages) > 9
    # Texts of GitHub and ssh; a list in an f-string; a message of the gate.
    foreign = dict.fromkeys(("Resource not accessible", "Host key verification failed", "Permission denied"), "")
    others = foreign | {"lacks torch": "lacks {", "gate: ...": "gate: %s"}
    assert [message for message in messages if others.get(message, message) not in printed] == []


def test_the_participants_guide_lists_every_verdict_and_command():
    assert re.findall(r"^\| ([A-Z]{2,3}) \|", PARTICIPANTS, re.MULTILINE) == [verdict.value for verdict in Verdict]
    shown = {read_command(line).verb for line in re.findall(r"^\| `(/[a-z]+)` \|", PARTICIPANTS, re.MULTILINE)}
    assert shown == set(Verb) - {Verb.CHECK, Verb.CI}
    for line in re.findall(r"^/[a-z].*$", PARTICIPANTS, re.MULTILINE):
        assert read_command(line)


def test_the_kernels_of_the_page_for_newcomers_are_the_template_and_an_accepted_example():
    page = (ROOT / "site" / "pages" / "participants-first.md").read_text()
    task = ROOT / "tasks" / "vectoradd"
    slow, fast = (body(code) for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    assert slow == body((task / "template.py").read_text())
    assert fast == body((task / "examples" / "accepted" / "in_place.py").read_text())


def body(source):
    """The lines of custom_kernel after its first."""
    return source.partition("def custom_kernel(")[2].splitlines()[1:]
