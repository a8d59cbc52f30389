"""One file a chip: composes costs into stage times; only these know a particular machine."""
