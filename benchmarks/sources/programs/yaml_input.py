"""Prints a YAML document with scalars, flows, blocks, anchors and quoted text."""

for i in range(400):
    print(f"entry{i}: &e{i}\n  name: \"text {i} \\t \\u00e9\"\n  list: [1, 2.5, {i}, 'single ''{i}''', plain text]")
    print(f"  map: {{a: {i}, b: [x, y], c: *e{i - 1}}}" if i else "  map: {a: 0}")
    print("  block: |\n    first line\n    second line\n  folded: >\n    some\n    words\n")
