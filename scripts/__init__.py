"""What talks to GitHub, Discord and people; the half of PullRank that needs no torch.

    ledger      judgements on disk            ─┐
    standings   judgements → rows, records     ├─►  report   what a pull request is told
    text        other people's words, safely  ─┘    publish  the site

One file is one command is one workflow step.  Nothing here runs a participant's code; a command that judges
on this machine calls `harness.judge`, which does so behind its walls.
"""
