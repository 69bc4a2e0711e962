"""What several rooms of tests share: toy trees, releases, trees with upstream's changes taken out, driven trees."""
