"""The bot: events of GitHub in; judgings, comments, checks and merges out.

    intake      an event     ─► gather ─► decide (pure) ─► requests in the ledger, a comment, started judgings
    evaluate    a request    ─► admission once more ─► the bundle that a judge's machine gets
    report      an artifact  ─► a judgement in the ledger, a comment, a check, a merge
    reconcile   the ledger   ─► plan (pure) ─► whatever one of the above has left undone
    check       a pull request that changes tasks ─► findings

`ci` holds the commands that the workflows call; `workflow` is what all of them share.
"""
