"""The pull request is the interface: events in, judgings started, comments, checks and merges out.

    intake     an event     ─► gather ─► admission, offers, commands ─► decision ─► requests, a comment
    resolve    a request    ─► the bundle that a judge's machine gets
    deliver    an artifact  ─► report, check_report ─► a judgement in the ledger, a comment, a check, a merge
    reconcile  the ledger   ─► plan ─► steps, each done by one of the above

`ci` is what the workflows call.  What decides is pure; `gather`, `intake`, `resolve`, `deliver`, `merging` and
`reconcile` read and write.
"""
