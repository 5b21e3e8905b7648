// Objects, arrays, closures, text, regular expressions, big integers and generators.
class Point {
  constructor(x, y) { this.x = x; this.y = y; }
  add(other) { return new Point(this.x + other.x, this.y + other.y); }
}
let sum = new Point(0, 0);
for (let i = 0; i < 20000; i++) sum = sum.add(new Point(i % 7, i * 0.5));
print(sum.x, sum.y);

let state = 7;
const words = Array.from({length: 4000}, () => "w" + ((state = (state * 16807) % 2147483647) % 700).toString(16));
const counts = new Map();
for (const word of words) counts.set(word, (counts.get(word) || 0) + 1);
print([...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, 5).join(" "));
const text = words.join(" ");
print(text.replace(/w([0-9a-f])([0-9a-f]*)/g, (_, a, b) => b + a).length, (text.match(/\b(\w)\w*\1\b/g) || []).length);

function* primes(limit) {
  const sieve = new Uint8Array(limit + 1);
  for (let i = 2; i <= limit; i++) {
    if (sieve[i]) continue;
    yield i;
    for (let k = i * i; k <= limit; k += i) sieve[k] = 1;
  }
}
let total = 0n;
for (const prime of primes(20000)) total += BigInt(prime) ** 3n;
print(total);
const tree = JSON.parse(JSON.stringify({list: words.slice(0, 500), nested: {a: [1, 2.5, null, true, "\u00e9"]}}));
print(JSON.stringify(tree).length, Object.keys(tree.nested).length, new Date(0).toISOString());
