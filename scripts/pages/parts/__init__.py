"""What several pages use: charts, words, results, templates."""
