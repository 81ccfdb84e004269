"""The simplest things a careful user would try first, behind the same fit and predict."""
