"""Announcements on Discord: reconciled with the ledger, not fired.

ledger, tasks, now ─▶ news        what ought to have been told, each under a key that stays the same
                        │         (results, milestones: one module for each half)
announced/ in the ledger┤
                        ▼
                      announce    intent ─▶ post ─▶ outcome; edits where a result was corrected
                        │
              embeds ◀──┴──▶ webhook
              words, limits       how it looks, harmlessly and within Discord's limits; and the wire there
"""
