"""The sections of the suite, one a file: ``run(options)`` measures, ``table(result)`` says it in Markdown."""
