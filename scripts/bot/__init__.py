"""The pull request is the interface: events in, judgings started, comments, checks and merges out.

    intake     an event     ─► gather ─► admission, offers, commands ─► decision ─► requests, a comment
    resolve    a request    ─► recheck ─► the bundle that a judge's machine gets
    refuse     a refusal    ─► the request's end, a comment, a check
    deliver    an artifact  ─► report (times, rivals), check_report ─► a judgement, a comment, a check, a merge
    reconcile  the ledger   ─► plan ─► steps, each done by one of the above

`ci` is what the workflows call.  What decides is pure; `gather`, `intake`, `resolve`, `refuse`, `deliver`, `merging`
and `reconcile` read and write.
"""
