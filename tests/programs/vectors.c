/* Structures by value: WebAssembly passes them in memory, and inlined calls copy them until the caller is simplified. */
typedef struct { double x, y; } vector;
static inline vector add(vector a, vector b) { vector v = {a.x + b.x, a.y + b.y}; return v; }
static inline vector times(vector a, double s) { vector v = {a.x * s, a.y * s}; return v; }
static inline double dot(vector a, vector b) { return a.x * b.x + a.y * b.y; }
static inline vector between(vector a, vector b, double t) { return add(times(a, 1 - t), times(b, t)); }
vector middle(vector a, vector b, vector c) {
  return add(times(between(a, b, 0.5), dot(b, c)), times(between(b, c, 0.5), dot(a, b)));
}
vector lower(vector a, vector b, vector c) {
  return dot(a, b) < dot(b, c) ? add(a, between(b, c, dot(a, c))) : add(c, between(a, b, dot(a, c)));
}
