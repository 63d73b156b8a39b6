"""What `pullrank task check` tries: wrong answers, all examples."""
