"""What maintainers decide about results and authors, as facts of the ledger: `decide` checks, `tools` commands."""
