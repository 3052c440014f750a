"""The studies: one file each. The three of the paper, and small ones beside them."""

SMALL: dict[str, tuple[str, str]] = {}
"""Title and one paragraph of each small study, by name."""
