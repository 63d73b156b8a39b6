"""The layout of news on Discord: one embed each, terse, coloured by kind, with podium and the board's picture.  Pure.

    New record                                        the kind
    alice takes first place: Vector addition, H100    links to the board
    412.3 µs ±0.4 %, speedup 1.03× over bob           time, speedup, previous champion
    Won the duel: speedup 1.03×, …                    the deciding duel
    🥇 alice      🥈 bob       🥉 carol               a field each
    [picture]
    Kernel Cup                                        competition and time

discord-webhook makes an embed's fields; those without a value are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from discord_webhook import DiscordEmbed  # type: ignore[import-untyped]

from scripts.announce.limits import TITLE, fit
from scripts.announce.news import Final, News, NewsKind, NewsResult, PodiumPlace, TaskNews
from scripts.announce.words import clip, escape, moment
from scripts.common.text import format_gap, format_interval, format_us, plain
from scripts.pages.parts.words import count, gain, lost

Payload = dict[str, Any]

_KICKERS = {
    NewsKind.FIRST_ENTRY: ("First entry", 0x57C785),
    NewsKind.RECORD: ("New record", 0xF2B63C),
    NewsKind.TOP_THREE: ("Top three", 0x8B9DF7),
    NewsKind.NEW_TASK: ("New task", 0x3BA5DB),
    NewsKind.NEW_BOARD: ("New board", 0x3BA5DB),
    NewsKind.DEADLINE: ("Last call", 0xF0743E),
    NewsKind.CLOSED: ("Final standings", 0xB07CE8),
    NewsKind.EDITION: ("New edition", 0x2FB8AC),
}
_WITHDRAWN = 0x80848E
_MEDALS = ("🥇", "🥈", "🥉")
_ORDINALS = ("first", "second", "third")


@dataclass(frozen=True, kw_only=True)
class EmbedContext:
    """Facts that all announcements share.  `site` is the site's address, with a slash at the end.

    `find_picture` returns the address of a board's picture, or None.
    """

    competition: str
    site: str
    find_picture: Callable[[str, str], str | None] = lambda _task, _gpu: None

    def board(self, task: str, gpu: str) -> str:
        return f"{self.site}{task}/{gpu}/"

    def submission(self, result: NewsResult) -> str:
        return f"{self.board(result.task, result.gpu)}{result.who.login}/{result.who.digest[:12]}/"


def payload_of(news: News, context: EmbedContext) -> Payload:
    """The body of the request that posts or edits a message."""
    match news:
        case NewsResult():
            return _message(_result(news, context))
        case TaskNews():
            return _message(_notice(news, context))
        case Final():
            return _message(_final(news, context))
    raise TypeError(f"{type(news).__name__} is no news")


def withdrawal_of(title: str, task: str, gpu: str | None, at: datetime, context: EmbedContext) -> Payload:
    """The new text of a message whose news is no longer true.

    Args:
        title: the message's title, as posted.
    """
    why = (
        "The board's results have changed, so this is no longer true."
        if gpu
        else "The task, its deadline or its machines have changed, so this is no longer true."
    )
    page = context.board(task, gpu) if gpu else f"{context.site}#{task}"
    struck = f"~~{clip(title, TITLE - 4)}~~"
    return _message(_embed("Withdrawn", _WITHDRAWN, struck, why, page, at, context))


def _message(embed: DiscordEmbed) -> Payload:
    # No mention pings anybody, even if one slipped through `escape`.
    return {"embeds": [fit(_without_none(vars(embed)))], "allowed_mentions": {"parse": []}}


def _result(news: NewsResult, context: EmbedContext) -> DiscordEmbed:
    board = f"{escape(news.title, 120)}, {escape(news.gpu)}"
    lines = [_time_and_gain(news)]
    if news.by_duel:
        lines.append(f"Won the duel: {news.by_duel}.")
    if news.kind is NewsKind.TOP_THREE:
        lines.append(f"Before: {', '.join(map(escape, news.former))}.")
    if news.caveat:
        lines.append(f"*{news.caveat}*")
    lines.append(f"[See the code]({context.submission(news)})")
    page = context.board(news.task, news.gpu)
    embed = _news_embed(news, f"{_headline(news)}: {board}", "\n".join(lines), page, context)
    if len(news.podium) > 1:
        for place in news.podium:
            embed.add_embed_field(name=f"{_MEDALS[place.rank - 1]} {escape(place.login)}", value=_time_of(place))
    _show_board(embed, news, news.gpu, context)
    return embed


def _headline(news: NewsResult) -> str:
    who = escape(news.who.login)
    if news.kind is NewsKind.FIRST_ENTRY:
        return f"{who} makes the first entry"
    if news.kind is NewsKind.RECORD and news.over.lower() == news.who.login.lower():
        return f"{who} improves the record"
    if news.kind is NewsKind.RECORD:
        return f"{who} takes first place"
    return f"{who} is {_ORDINALS[news.who.rank - 1]}"


def _time_and_gain(news: NewsResult) -> str:
    time = f"**{format_interval(news.who.score_us)}**"
    if news.kind is NewsKind.RECORD and news.over:
        if news.gain is None:
            return f"{time}; the file of {escape(news.over)} failed in the duel"
        own = news.over.lower() == news.who.login.lower()
        return f"{time}, speedup {gain(news.gain)} over {'their own record' if own else escape(news.over)}"
    if news.kind is NewsKind.TOP_THREE and news.who.note:
        return f"{time}; {escape(news.who.note)}"
    if news.kind is NewsKind.TOP_THREE and news.who.rank > 1:
        slower = lost(1 + news.who.gap)
        word = "than" if slower.endswith("er") else "over" if slower.startswith("speedup") else "as"
        return f"{time}, {slower} {word} {escape(news.podium[0].login)}"
    return time


def _time_of(place: PodiumPlace) -> str:
    time = format_us(place.score_us.value)
    if place.rank == 1:
        return time
    if place.duel_status:
        return f"{time} · {place.duel_status}"
    return f"{time} · {format_gap(place.gap) if place.gap >= 0 else 'tied'}"


def _notice(news: TaskNews, context: EmbedContext) -> DiscordEmbed:
    title, gpus = escape(news.title, 200), ", ".join(map(escape, news.gpus))
    page = context.board(news.task, news.gpus[0]) if news.gpus else context.site
    if news.kind is NewsKind.EDITION:
        words = (
            f"New, empty standings on {gpus}: the reference, cases, limits, anchor or way of timing changed. "
            "Earlier rows stay, under their edition."
        )
        return _news_embed(news, f"{title} has changed", words, page, context)
    if news.kind is NewsKind.DEADLINE and news.deadline:
        words = f"{moment(news.deadline)}, {moment(news.deadline, 'R')}. Entries until then are judged and ranked."
        embed = _news_embed(news, f"{title} is about to close", words, page, context)
    else:
        named = f"{title}, now also on {gpus}" if news.kind is NewsKind.NEW_BOARD else title
        embed = _news_embed(news, named, escape(news.blurb, 400), page, context)
    embed.add_embed_field(name="Boards", value=gpus)
    if news.kind is not NewsKind.DEADLINE and news.deadline:
        embed.add_embed_field(name="Closes", value=moment(news.deadline))
    embed.add_embed_field(name="Take part", value=f"[How it works]({context.site}guides/participants/)")
    return embed


def _final(news: Final, context: EmbedContext) -> DiscordEmbed:
    page = context.board(news.task, news.boards[0].gpu) if news.boards else context.site
    entries = sum(board.entries for board in news.boards)
    words = f"Closed {moment(news.at, 'f')} with {count(entries, 'entry', 'entries')}."
    embed = _news_embed(news, f"{escape(news.title, 200)} has closed", words, page, context)
    for board in news.boards:
        rows = [f"{_MEDALS[place.rank - 1]} **{escape(place.login)}** {_time_of(place)}" for place in board.podium]
        none = "All times are provisional." if board.entries else "There were no entries."
        embed.add_embed_field(name=escape(board.gpu), value="\n".join(rows) or none)
    if first := next((board for board in news.boards if board.podium), None):
        _show_board(embed, news, first.gpu, context)
    return embed


def _news_embed(news: News, title: str, words: str, page: str, context: EmbedContext) -> DiscordEmbed:
    return _embed(*_KICKERS[news.kind], title, words, page, news.at, context)


def _embed(
    kicker: str, colour: int, title: str, words: str, page: str, at: datetime, context: EmbedContext
) -> DiscordEmbed:
    embed = DiscordEmbed(title=title, description=words, url=page, color=colour, timestamp=at, fields=[])
    embed.set_author(kicker)
    # A footer has no Markdown, so an escape would be visible.
    embed.set_footer(" ".join(plain(context.competition).split()))
    return embed


def _show_board(embed: DiscordEmbed, news: News, gpu: str, context: EmbedContext) -> None:
    if picture := context.find_picture(news.task, gpu):
        # Discord caches pictures by address: the query keeps this moment's picture until a correction changes it.
        embed.set_image(url=f"{picture}?of={news.content_digest[:12]}")


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list) else value
