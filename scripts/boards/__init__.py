"""Boards for people and scripts, read from a ledger or a published site.

source   a ledger and its tasks ─┐                         for    `board`, `mine`, `history`, `compare`
web      a site's JSON ──────────┴─▶ board_facts ─▶ tables        and their `--json`

judgement_tables  a judgement on a terminal, for `test`, `benchmark`, `profile`, `rank`, `duel` and `submit`
"""
