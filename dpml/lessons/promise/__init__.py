"""The definition, three mechanisms, what is promised and what is not, a first audit."""
