"""The pure parts that compactors share: views, pairing, anchors, placeholders, truncation."""
