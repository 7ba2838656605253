"""One file an algorithm; `tff_partial.registry` lists them."""
