"""Announcements on Discord: reconciled with the ledger, not fired.

ledger, tasks, now ──▶ news          what ought to have been told, each under a key that stays the same; from `results`
                        │            and `milestones`, for a whole competition by `gather`
ledger: announced/ ────▶ plan        what a channel has yet to hear, and what it was told that is true no more
                        ▼
                     announce        intent, commit, post, outcome, commit; edits
                        │
              embeds ◀──┴──▶ webhook
              how it looks           the wire
              words, limits, picture
"""
