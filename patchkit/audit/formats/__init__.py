"""The formats in which an audit answers, each a pure function of the report."""
