"""Runs and recipes as one page, or as Markdown: `python -m tff_partial.report results/`.

`runs` and `recipes` read folders, `tables` and `curves` make of them what is shown, `page` and
`markdown` write it, `commands` says how to repeat it.
"""
