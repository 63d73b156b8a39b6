"""The words of messages to Discord: harmless, within the limits, and rendered as Discord does."""

import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.records.stats import Interval
from scripts.announce import limits
from scripts.announce.discord import DiscordChannel, WebhookError
from scripts.announce.embeds import EmbedContext, payload_of, withdrawal_of
from scripts.announce.limits import fit, size
from scripts.announce.news import FRESH, Final, NewsKind, NewsResult, PodiumPlace, Standing, TaskNews
from scripts.announce.picture import finder
from scripts.announce.words import clip, escape, first_words, length
from scripts.pages.publishing.serve import site_server, url_of
from scripts.standings.rows import DuelStatus
from tests.discord_page import markdown, page
from tests.discord_server import TOKEN, faults_of
from tests.properties import HealthCheck, given, settings, st
from tests.test_publish import START

HOSTILE = (
    "@everyone <@123> <#9> **bold** [free](https://evil.example) https://evil.example `x` ||s|| <script>alert(1)</script>"
    " ~~no~~ \u202egnp \x1b[31m <t:0:R> # Big\n> quote\n- item\n1. one"
)


def shown(text: str) -> str:
    return markdown(text, START)


# Harmless.


def test_hostile_text_is_shown_literally_and_stays_inert() -> None:
    html = shown(escape(HOSTILE, 1000))
    assert not re.search(r"<(a|b|s|i|mark|code|span|script)\b", html)
    assert "@everyone &lt;@123&gt; &lt;#9&gt; **bold** [free](https://evil.example)" in html
    assert "\\u202e" in html and "\\x1b" in html


@given(st.text(alphabet="@*_~|`<>#[]()\\:/.-+ a1\n", max_size=60))
def test_escaped_text_never_becomes_markup(text: str) -> None:
    words = " ".join(text.split())
    html = shown(escape(text))
    assert "<" not in html
    assert html.replace("&lt;", "<").replace("&gt;", ">") == words


@pytest.mark.parametrize("text", ["# Big", "> quote", "- item", "+ item", "* item", "-# small", "1. one", ">>> all"])
def test_escaped_text_never_starts_a_heading_quote_or_list(text: str) -> None:
    assert escape(text).startswith("\\") or re.match(r"\d\\\.", escape(text))


@given(st.text(max_size=90), st.integers(0, 60))
def test_clipped_text_keeps_the_limit_and_leaves_no_dangling_backslash(text: str, limit: int) -> None:
    cut = clip(text, limit)
    assert length(cut) <= limit
    if cut != text:
        assert cut.endswith("…") or not limit
        assert len(re.search(r"\\*$", cut[:-1])[0]) % 2 == 0  # type: ignore[index]


def test_text_is_clipped_between_words() -> None:
    assert clip("one two three four five", 15) == "one two three…"
    assert clip("🥇" * 10, 9) == "🥇🥇🥇🥇…"


def test_a_withdrawn_title_is_struck_through_however_long_it_is() -> None:
    context = EmbedContext(competition="Cup", site="https://kernels.github.io/cup/")
    title = withdrawal_of(r"\_" * 128, "sort", "H100", START, context)["embeds"][0]["title"]
    assert "<s>" in shown(title) and length(title) <= limits.TITLE


def test_the_first_words_are_the_first_paragraph_without_markup() -> None:
    text = "# Sort\n\n![x](y)\n\nSort **64-bit** keys,\n[in order](https://x.y).\n\n| a |\n|---|\n\nMore."
    assert first_words(text) == "Sort 64-bit keys, in order."
    assert first_words("") == "" and first_words("| a |\n|---|\n") == ""
    assert length(first_words("word " * 500)) <= 280


# The limits.

texts = st.text(alphabet="a \\*🥇\n", min_size=1, max_size=20)


@st.composite
def embeds(draw: st.DrawFn) -> dict[str, Any]:
    def long(most: int) -> str:
        return draw(texts) * draw(st.sampled_from([1, most // 10, most // 2]))

    fields = [{"name": long(300), "value": long(1200), "inline": True} for _ in range(draw(st.integers(0, 30)))]
    return {
        "title": long(300), "description": long(5000), "fields": fields, "color": 1,
        "footer": {"text": long(2100)}, "author": {"name": long(300)},
    }  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(embeds())
def test_an_oversized_embed_is_cut_until_discord_accepts_it(given_: dict[str, Any]) -> None:
    fitting = fit(given_)
    assert faults_of({"embeds": [fitting]}) == [] or not fitting["title"].strip()
    assert size(fitting) <= limits.TOTAL
    assert fitting["title"]


def test_an_embed_that_fits_is_left_unchanged() -> None:
    embed = {"title": "t", "description": "d", "fields": [{"name": "n", "value": "v", "inline": True}] * 25}
    assert fit(embed) == embed


def test_the_last_field_says_how_many_fields_are_left_out() -> None:
    fields = [{"name": f"GPU{n}", "value": "x", "inline": True} for n in range(40)]
    kept = fit({"title": "t", "fields": fields})["fields"]
    assert len(kept) == 25 and kept[-1]["name"] == "… and 16 more" and kept[23]["name"] == "GPU23"


# All news, in the worst case.

CONTEXT = EmbedContext(competition=HOSTILE, site="https://kernels.github.io/cup/")
HOME = "https://github.com/kernels/cup"
TIME = Interval(value=412.3, low=410.0, high=414.0)
NAME = "G" * 64


def place(rank: int) -> PodiumPlace:
    return PodiumPlace(
        rank=rank, login="m" * 39, score_us=TIME, gap=0.1 * (rank - 1), digest="a" * 64, note=HOSTILE * 3
    )


BASE: dict[str, Any] = {"key": "record/x/y/z", "task": NAME, "title": HOSTILE * 20, "at": START, "until": START + FRESH}
PODIUM = tuple(map(place, (1, 2, 3)))
RESULT: dict[str, Any] = {
    "gpu": NAME, "edition": "b" * 64, "podium": PODIUM, "former": ("m" * 39,) * 3, "over": "m" * 39, "gain": 0.03,
    "by_duel": "speedup 1.03×", "caveat": "Self-timed.",
}  # fmt: skip
NEWS = [
    *(NewsResult(kind=kind, who=place(2), **BASE, **RESULT) for kind in (NewsKind.FIRST_ENTRY, NewsKind.RECORD, NewsKind.TOP_THREE)),
    *(
        TaskNews(kind=kind, gpus=(NAME,) * 40, deadline=START, blurb=HOSTILE * 20, **BASE)
        for kind in (NewsKind.NEW_TASK, NewsKind.NEW_BOARD, NewsKind.DEADLINE, NewsKind.EDITION)
    ),
    Final(
        kind=NewsKind.CLOSED, boards=tuple(Standing(gpu=f"H{n}", podium=PODIUM, entries=3) for n in range(60)), **BASE
    ),
]  # fmt: skip


@pytest.mark.parametrize("news", NEWS, ids=lambda news: news.kind)
def test_discord_accepts_the_worst_news_and_pings_nobody(news: Any) -> None:
    payload = payload_of(news, CONTEXT)
    assert faults_of(payload) == []
    assert payload["allowed_mentions"] == {"parse": []}
    assert payload.keys() == {"embeds", "allowed_mentions"}
    html = page([payload])
    assert "<script" not in html and 'class="mention"' not in html and 'href="https://evil' not in html


def test_a_podium_says_why_a_faster_time_has_a_lower_place() -> None:
    ahead = replace(place(2), gap=-0.1, duel_status=DuelStatus.LOST)
    news = NewsResult(kind=NewsKind.TOP_THREE, who=ahead, **BASE, **(RESULT | {"podium": (place(1), ahead)}))
    assert payload_of(news, CONTEXT)["embeds"][0]["fields"][1]["value"] == "412.3 µs · duel lost"


# Addresses.


@pytest.mark.parametrize(
    "address",
    [
        "", "DISCORD", "https://discord.com/", f"http://discord.com/api/webhooks/1/{TOKEN}",
        f"https://discord.com.evil.example/api/webhooks/1/{TOKEN}", f"https://a:b@discord.com/api/webhooks/1/{TOKEN}",
        f"https://evil.example/api/webhooks/1/{TOKEN}", f"https://discord.com/api/webhooks/x/{TOKEN}",
        f"https://discord.com/api/webhooks/1/{TOKEN}/messages/1", f"https://discord.com:99999/api/webhooks/1/{TOKEN}",
        f"https://discord.com/api/webhooks/1/{TOKEN}?wait=true", f"https://[discord.com/api/webhooks/1/{TOKEN}",
        f"https://discord.com/api/webhooks/1/{TOKEN}?thread_id=../1", f"ftp://discord.com/api/webhooks/1/{TOKEN}",
    ],
)  # fmt: skip
def test_an_invalid_webhook_address_is_refused_without_revealing_its_token(address: str) -> None:
    with pytest.raises(WebhookError, match="CHANNEL is no webhook") as caught:
        DiscordChannel.at(address, "CHANNEL", HOME)
    assert TOKEN not in str(caught.value) and caught.value.is_final


@pytest.mark.parametrize("host", ["discord.com", "discordapp.com", "ptb.discord.com", "canary.discord.com"])
def test_a_discord_address_is_accepted_and_its_repr_hides_the_token(host: str) -> None:
    webhook = DiscordChannel.at(f" https://{host}/api/v10/webhooks/123/{TOKEN}?thread_id=77\n", "CHANNEL", HOME)
    assert webhook.address.thread == "77" and webhook.address.token == TOKEN
    assert TOKEN not in repr(webhook) and TOKEN not in str(webhook)


def test_a_picture_is_linked_only_where_the_site_has_one(tmp_path: Path) -> None:
    for name, content in (("sort/H100/og.png", b"\x89PNG"), ("sort/CPU/index.html", b"<p>")):
        (tmp_path / "cup" / name).parent.mkdir(parents=True)
        (tmp_path / "cup" / name).write_bytes(content)
    (tmp_path / "index.html").touch()
    with site_server(tmp_path) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        site = f"{url_of(server)}cup/"
        find = finder(site)
        assert find("sort", "H100") == f"{site}sort/H100/og.png"
        assert find("sort", "CPU") is None and find("gemm", "CPU") is None
        server.shutdown()
    assert find("gemm", "H100") is None and finder("file:///")("sort", "H100") is None


def test_errors_about_a_webhook_never_contain_its_token() -> None:
    webhook = DiscordChannel.at(f"https://discord.com/api/webhooks/123/{TOKEN}", "DISCORD_WEBHOOK", HOME)
    assert TOKEN not in repr(webhook)
    assert webhook._brief(OSError(f"no route to /api/webhooks/123/{TOKEN}")) == "no route to /api/webhooks/123/…"
