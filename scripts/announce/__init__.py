"""Announcements on Discord, reconciled with the ledger instead of sent once per event.

ledger, tasks, now ──▶ news          everything to announce, each under a stable key; made by `board_news`
                        │            and `milestones`, collected for the whole competition by `all_news`
ledger: announced/ ────▶ posts_due   messages that a channel still lacks, and messages to correct
                        ▼
                     announce        intent, commit, post, outcome, commit; edits
                        │
              embeds ◀──┴──▶ discord
              layout                 HTTP
              words, limits, picture
"""
