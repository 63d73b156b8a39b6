"""Parts that several pages share: charts, words, results, templates."""
