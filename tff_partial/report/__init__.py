"""Runs and recipes as one page, or as Markdown: `python -m tff_partial.report results/`.

`sections` finds what is shown, `runs` and `recipes` read it, `tables` and `curves` are what is
shown of it, `page` and `markdown` write it, `commands` tells how to repeat it.
"""
