"""The ledger: facts in small files, added and never changed.

facts      one fact: written atomically, read as hostile text
request, origin, description, moderation, announced     kinds of facts; judgements: `harness.records.judgement`
ledger     a folder of facts       names    selects files by name
branch     the ledger's branch on GitHub, through git
"""
