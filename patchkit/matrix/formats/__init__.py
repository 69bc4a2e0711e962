"""The matrix for people, spreadsheets, scripts and browsers: one file a format."""
