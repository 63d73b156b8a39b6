"""The judge: everything between a submission and its judgement.

    judge.judge(board, submission, mode)                 the frame: walls up, game played, judgement written
      │  sandbox.Sandbox                                 the walls; inside them a warm parent (zygote)
      │  sandbox.seat(entry)                             a fresh player behind inner walls (walls, seccomp)
      │  devices                                         what differs between a CPU and a GPU; inside: the player's part
    arena.Arena                                          what all sides share: reference, seeds (fresh, or of a replay)
    game.Game                                            the rules
      ├─ build       one player imports the submission and calls it once per shape; caches are sealed
      │              before that, what is no Python: a player compiles it (compile, library), and that is sealed
      ├─ tests       referee.Table deals inputs, opens the window, takes the output, asks the checker
      ├─ benchmarks  clock plays submission and anchor in mirrored order, fresh players each
      ├─ profiles    one call of each benchmark under torch's profiler; on a GPU one more under its vendor's (vendors)
      └─ duel        the same, against the champion; `judge.duel` plays any two files so
         → judgement.Judgement                           one JSON file; never edited

A task that brings its own program takes another way: script.Script builds and runs it in a player's place (program),
and reads what it says, line by line, as hostile text (popcorn).

Only bytes cross from player to referee: `protocol` says which.  `harness` imports nothing of `scripts`; the
half that needs no torch (task, submission, verdict, timing, judgement, stats, errors) is what `scripts` may import.
"""

__version__ = "0.1.0"
