"""Cut the embed of a message to Discord's limits, least important parts first.  Pure.

Discord refuses a whole message for one character too many.  The limits are from its documentation:
https://discord.com/developers/docs/resources/message#embed-object-embed-limits

    text too long        cut between words, with `…`
    too many fields      the last ones are dropped, and a line says how many
    message too long     the description is cut, then fields are dropped from the end
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from scripts.announce.words import clip, length

Embed = dict[str, Any]

FIELDS = 25
TITLE = 256
DESCRIPTION = 4096
NAME = 256
VALUE = 1024
FOOTER = 2048
AUTHOR = 256
SHORTEST_DESCRIPTION = 400
TOTAL = 6000
"""Title, description, footer, author, and the names and values of all fields together."""


def fit(embed: Mapping[str, Any]) -> Embed:
    """A copy of a message's only embed, cut to the limits."""
    fitting = _fit(deepcopy(dict(embed)))
    while (excess := size(fitting) - TOTAL) > 0:
        described = length(fitting.get("description") or "")
        if described > SHORTEST_DESCRIPTION:
            limit = max(SHORTEST_DESCRIPTION, described - excess)
            fitting["description"] = clip(fitting["description"], limit)
        else:
            fitting["fields"].pop()  # All other texts together stay far below the limit.
    return fitting


def size(embed: Mapping[str, Any]) -> int:
    """What counts towards `TOTAL`, in UTF-16 units."""
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
    # Discord also refuses empty names and values.
    embed["fields"] = [
        {**field, "name": clip(field["name"], NAME) or "\u200b", "value": clip(field["value"], VALUE) or "\u200b"}
        for field in fields[:FIELDS]
    ]
    if len(fields) > FIELDS:
        left_out = len(fields) - FIELDS + 1  # The last field makes room for the count.
        embed["fields"][-1] = {"name": f"… and {left_out} more", "value": "See the site.", "inline": False}
    return embed
