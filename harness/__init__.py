"""The judge: everything between a submission and its judgement.  It never talks to a network.

    judge.judge(board, submission, mode)       one judging, from the sandbox's start to the written judgement
      sandbox.sandbox.Sandbox                  bubblewrap, and in it a warm parent that has imported torch
      rules.context.Context                    shared by all players of a judging: reference, seeds, device
      rules.game.Game                          the rules
        build       a player imports the submission and calls it once per shape; then its caches are sealed
        tests       referee.Referee makes the inputs, opens the window, takes the output, asks the checker
        benchmarks  referee.sampling plays submission and anchor in mirrored order, a fresh player for each run
        duel        the same, against the champion; rules.game.Match does it with any two files
      records.judgement.Judgement              one JSON file, with a checksum

A task that brings its own program goes another way: rules.script builds and runs it in a player's place and reads its
output, line by line, as hostile text.

ARCHITECTURE.md says what each folder holds, and which of them may import which.
"""

__version__ = "0.1.0"
