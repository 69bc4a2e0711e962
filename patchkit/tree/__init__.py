"""Everything that patchkit knows of an sglang tree is read here."""
