"""Boards for people and scripts, read from a ledger or a published site.

source   a ledger and its tasks ─┐                   for    `board`, `mine`, `history`, `compare`
web      a site's JSON ──────────┴─▶ facts ─▶ tables        and their `--json`
"""
