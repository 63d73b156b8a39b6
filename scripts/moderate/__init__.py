"""Which judgements or which author a maintainer's decision is about."""
