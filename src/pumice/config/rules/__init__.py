"""The linter's rules, one function each; ``pumice.config.lint`` holds the table of them."""
