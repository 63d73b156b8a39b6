"""A repository's settings on GitHub, read and set; `plan` says what each must be."""
