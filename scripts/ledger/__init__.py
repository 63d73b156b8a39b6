"""The ledger: facts that are added and never changed, one small file each.

facts      a file, written whole or not at all, read as hostile text
request, moderation, announced      what such a file says; judgements are `harness.records.judgement`'s
ledger     the folder of them       names    which of them somebody needs
branch     the same on GitHub, by git
"""
