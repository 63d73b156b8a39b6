"""Try to forge the time of a call on a GPU (`probe`), as the player of a referee with sealed memory (`player`)."""
