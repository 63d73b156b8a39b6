"""`pullrank setup`: a repository's settings on GitHub, looked at and set; `plan` says what each must be."""
