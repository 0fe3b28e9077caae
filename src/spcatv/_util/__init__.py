"""Small tools that depend on no other part of the package."""
