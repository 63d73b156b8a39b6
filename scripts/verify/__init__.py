"""`pullrank verify FILE_OR_URL`: the same file on the same inputs, on this machine.

judgement ─▶ tools     its task, which must be of the same edition here; its file, which must have the same digest
             harness   plays it on the judgement's seeds
          ─▶ compare   what is the same, what is not, how the machines differ
"""
