"""Announcements on Discord, reconciled with the ledger instead of sent once per event.

ledger, tasks, now ──▶ news          everything to announce, each under a stable key; made by `results` and
                        │            `milestones`, collected for the whole competition by `gather`
ledger: announced/ ────▶ plan        messages that a channel still lacks, and messages to correct
                        ▼
                     announce        intent, commit, post, outcome, commit; edits
                        │
              embeds ◀──┴──▶ webhook
              layout                 HTTP
              words, limits, picture
"""
