"""The bot: GitHub events in; judgings, comments, checks and merges out.

    intake      an event     ─► gather ─► decide (pure) ─► requests in the ledger, a comment, started judgings
    evaluate    a request    ─► admission again ─► the bundle for the judge's machine
    report      an artifact  ─► a judgement in the ledger, a comment, a check, a merge
    reconcile   the ledger   ─► plan (pure) ─► whatever the others left undone
    check       a pull request that changes tasks ─► findings

`ci` holds the commands that the workflows call; `workflow` is what they share.
"""
