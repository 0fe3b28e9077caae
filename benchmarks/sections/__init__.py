"""One file per section of the suite: ``run(options)`` measures, ``table(result)`` writes Markdown."""
