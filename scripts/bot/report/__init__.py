"""`pullrank ci report`: from an artifact to the ledger, the comment and the merge."""
