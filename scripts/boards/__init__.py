"""Boards for people and scripts, wherever they stand: in a ledger, or on a published site.

source   a ledger and its tasks ─┐                   tools    `board`, `mine`, `history`, `compare`
web      a site's JSON ──────────┴─▶ facts ─▶ tables          and their `--json`
"""
