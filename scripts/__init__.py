"""The platform: what talks to GitHub, Discord and people.  It never needs torch and never runs a participant's code.

A command that judges on this machine calls `harness.judge`, which uses the sandbox.  ARCHITECTURE.md says what each
folder holds, and which of them may import which.
"""
