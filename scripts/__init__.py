"""What talks to GitHub, Discord and people; the half of PullRank that needs no torch.

    ledger/     what was asked for and judged ─┐    bot/     what a pull request is told, and what follows
    standings   judgements → rows, records     ├─►  pages/   the site
    text        other people's words, safely  ─┤    boards/  who stands where, on a terminal
    github/     what GitHub says and is asked ─┘    submit/, moderate/, tasks/  and the other commands of `cli`

One module is one command, or one workflow step.  Nothing here runs a participant's code; a command that judges
on this machine calls `harness.judge`, which does so behind its walls.
"""
