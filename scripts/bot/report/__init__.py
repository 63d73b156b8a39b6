"""`pullrank ci report`: from an artifact to ledger, comment and merge."""
