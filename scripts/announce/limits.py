"""Cut a message to Discord's limits, least important parts first.  Pure.

Discord refuses a whole message for one character too many.  The limits are from its documentation:
https://discord.com/developers/docs/resources/message#embed-object-embed-limits

    text too long        cut between words, with `…`
    too many fields      the last ones are dropped, and a line says how many
    message too long     the longest description is cut, then fields are dropped from the end
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from scripts.announce.words import clip, length

Embed = dict[str, Any]

EMBEDS = 10
FIELDS = 25
TITLE = 256
DESCRIPTION = 4096
NAME = 256
VALUE = 1024
FOOTER = 2048
AUTHOR = 256
TOTAL = 6000
"""All titles, descriptions, names, values, footers and authors of a message together."""


def fit(embeds: Sequence[Mapping[str, Any]]) -> list[Embed]:
    """Copies of a message's embeds, cut to the limits."""
    fitting = [_fit(deepcopy(dict(embed))) for embed in embeds[:EMBEDS]]
    while (excess := sum(map(size, fitting)) - TOTAL) > 0:
        _shorten(fitting, excess)
    return fitting


def size(embed: Mapping[str, Any]) -> int:
    """An embed's share of `TOTAL`."""
    texts = [embed.get("title"), embed.get("description"), (embed.get("footer") or {}).get("text")]
    texts.append((embed.get("author") or {}).get("name"))
    texts += [field[part] for field in embed.get("fields") or () for part in ("name", "value")]
    return sum(length(text) for text in texts if text)


def _fit(embed: Embed) -> Embed:
    for name, limit in (("title", TITLE), ("description", DESCRIPTION)):
        if embed.get(name):
            embed[name] = clip(embed[name], limit)
    for name, part, limit in (("footer", "text", FOOTER), ("author", "name", AUTHOR)):
        if embed.get(name):
            embed[name][part] = clip(embed[name][part], limit)
    fields = embed.get("fields") or []
    embed["fields"] = [_fit_field(field) for field in fields[:FIELDS]]
    if len(fields) > FIELDS:
        left_out = len(fields) - FIELDS + 1  # The last field makes room for the count.
        embed["fields"][-1] = {"name": f"… and {left_out} more", "value": "See the site.", "inline": False}
    return embed


def _fit_field(field: Mapping[str, Any]) -> dict[str, Any]:
    # Discord also refuses empty names and values.
    return {
        **field,
        "name": clip(field["name"], NAME) or "\u200b",
        "value": clip(field["value"], VALUE) or "\u200b",
    }


def _shorten(embeds: list[Embed], excess: int) -> None:
    """Cut the end of the longest description, or else the last field, or else the last embed."""
    longest = max(embeds, key=lambda one: length(one.get("description") or ""))
    described = length(longest.get("description") or "")
    if described > 400:
        longest["description"] = clip(longest["description"], max(400, described - excess))
    elif crowded := [embed for embed in embeds if embed["fields"]]:
        crowded[-1]["fields"].pop()
    else:
        embeds.pop()
