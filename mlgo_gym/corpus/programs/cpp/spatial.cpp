// Spatial indexes over points and boxes: quadtree, kd-tree and a bounding-volume hierarchy, behind shared query helpers.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace geo {

template <int D> struct Point {
    double c[D];
    double operator[](int i) const { return c[i]; }
    double &operator[](int i) { return c[i]; }
    template <class F> Point zip(const Point &o, F f) const {
        Point p;
        for (int i = 0; i < D; ++i) p[i] = f(c[i], o[i]);
        return p;
    }
    Point operator-(const Point &o) const { return zip(o, [](double a, double b) { return a - b; }); }
    Point operator+(const Point &o) const { return zip(o, [](double a, double b) { return a + b; }); }
    double dot(const Point &o) const {
        double s = 0;
        for (int i = 0; i < D; ++i) s += c[i] * o[i];
        return s;
    }
    double distance2(const Point &o) const {
        Point d = *this - o;
        return d.dot(d);
    }
};

inline double lower(double a, double b) { return a < b ? a : b; }
inline double upper(double a, double b) { return a > b ? a : b; }
template <class T> void exchange(T &a, T &b) { T t = a; a = b; b = t; }

template <int D> class Box {
    Point<D> lo_, hi_;

public:
    Box() {
        for (int i = 0; i < D; ++i) {
            lo_[i] = HUGE_VAL;
            hi_[i] = -HUGE_VAL;
        }
    }
    Box(const Point<D> &lo, const Point<D> &hi) : lo_(lo), hi_(hi) {}
    static Box around(const Point<D> &p, double r) {
        return Box(p.zip(p, [r](double a, double) { return a - r; }), p.zip(p, [r](double a, double) { return a + r; }));
    }
    const Point<D> &lo() const { return lo_; }
    const Point<D> &hi() const { return hi_; }
    double side(int i) const { return hi_[i] - lo_[i]; }
    Point<D> center() const { return lo_.zip(hi_, [](double a, double b) { return (a + b) / 2; }); }
    int longest() const {
        int best = 0;
        for (int i = 1; i < D; ++i)
            if (side(i) > side(best)) best = i;
        return best;
    }
    void include(const Point<D> &p) {
        lo_ = lo_.zip(p, lower);
        hi_ = hi_.zip(p, upper);
    }
    void include(const Box &b) { include(b.lo_); include(b.hi_); }
    bool contains(const Point<D> &p) const { return overlaps(Box(p, p)); }
    bool overlaps(const Box &b) const {
        for (int i = 0; i < D; ++i)
            if (b.hi_[i] < lo_[i] || b.lo_[i] > hi_[i]) return false;
        return true;
    }
    double distance2(const Point<D> &p) const {
        return lo_.zip(hi_.zip(p, lower), upper).distance2(p);
    }
    // Slab test; returns the entry parameter or a negative value for a miss.
    double hit(const Point<D> &from, const Point<D> &inverse) const {
        double near = 0, far = HUGE_VAL;
        for (int i = 0; i < D; ++i) {
            double a = (lo_[i] - from[i]) * inverse[i], b = (hi_[i] - from[i]) * inverse[i];
            near = upper(near, lower(a, b));
            far = lower(far, upper(a, b));
        }
        return near <= far ? near : -1;
    }
    Box lower_half(int axis) const {
        Box b(*this);
        b.hi_[axis] = center()[axis];
        return b;
    }
    Box upper_half(int axis) const {
        Box b(*this);
        b.lo_[axis] = center()[axis];
        return b;
    }
};

template <class T> class Buffer {
    T *p_ = nullptr;
    int n_ = 0, cap_ = 0;

public:
    Buffer() = default;
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    ~Buffer() { free(p_); }
    int add(const T &v) {
        if (n_ == cap_) {
            cap_ = cap_ ? cap_ * 2 : 16;
            p_ = static_cast<T *>(realloc(static_cast<void *>(p_), static_cast<size_t>(cap_) * sizeof(T)));
            if (!p_) abort();
        }
        p_[n_] = v;
        return n_++;
    }
    int size() const { return n_; }
    T &operator[](int i) const { return p_[i]; }
    T *begin() const { return p_; }
    T *end() const { return p_ + n_; }
};

// Partial sort so that element k is in its sorted place.
template <class T, class Key> void select_nth(T *a, int n, int k, Key key) {
    int lo = 0, hi = n - 1;
    while (lo < hi) {
        double pivot = key(a[(lo + hi) / 2]);
        int i = lo, j = hi;
        while (i <= j) {
            while (key(a[i]) < pivot) ++i;
            while (pivot < key(a[j])) --j;
            if (i <= j) exchange(a[i++], a[j--]);
        }
        if (k <= j) hi = j;
        else if (k >= i) lo = i;
        else return;
    }
}

// Keeps the k nearest candidates in a sorted array.
class Nearest {
    struct Entry { double d2; int id; };
    static constexpr int kMax = 16;
    Entry best_[kMax];
    int size_ = 0, want_;

public:
    explicit Nearest(int k) : want_(k < kMax ? k : kMax) {}
    bool full() const { return size_ == want_; }
    double bound() const { return full() ? best_[size_ - 1].d2 : HUGE_VAL; }
    int size() const { return size_; }
    int id(int i) const { return best_[i].id; }
    double distance(int i) const { return sqrt(best_[i].d2); }
    void offer(int id, double d2) {
        if (d2 >= bound()) return;
        if (full()) --size_;
        int i = size_++;
        for (; i > 0 && best_[i - 1].d2 > d2; --i) best_[i] = best_[i - 1];
        best_[i] = Entry{d2, id};
    }
};

template <int D> class KdTree {
    struct Item { Point<D> p; int id; };
    Buffer<Item> items_;

    void arrange(int lo, int hi, int axis) {
        if (hi - lo < 2) return;
        int mid = (lo + hi) / 2;
        select_nth(items_.begin() + lo, hi - lo, mid - lo, [axis](const Item &i) { return i.p[axis]; });
        arrange(lo, mid, next(axis));
        arrange(mid + 1, hi, next(axis));
    }
    static int next(int axis) { return (axis + 1) % D; }
    void search(int lo, int hi, int axis, const Point<D> &at, Nearest &out) const {
        if (lo >= hi) return;
        int mid = (lo + hi) / 2;
        const Item &item = items_[mid];
        out.offer(item.id, item.p.distance2(at));
        double gap = at[axis] - item.p[axis];
        auto descend = [&](bool left) { left ? search(lo, mid, next(axis), at, out) : search(mid + 1, hi, next(axis), at, out); };
        descend(gap < 0);
        if (gap * gap < out.bound()) descend(gap >= 0);
    }
    template <class F> void range(int lo, int hi, int axis, const Box<D> &b, F &f) const {
        if (lo >= hi) return;
        int mid = (lo + hi) / 2;
        const Item &item = items_[mid];
        if (b.contains(item.p)) f(item.id);
        if (b.lo()[axis] <= item.p[axis]) range(lo, mid, next(axis), b, f);
        if (b.hi()[axis] >= item.p[axis]) range(mid + 1, hi, next(axis), b, f);
    }

public:
    void add(const Point<D> &p) { items_.add(Item{p, items_.size()}); }
    void build() { arrange(0, items_.size(), 0); }
    void nearest(const Point<D> &at, Nearest &out) const { search(0, items_.size(), 0, at, out); }
    template <class F> void query(const Box<D> &b, F f) const { range(0, items_.size(), 0, b, f); }
};

class QuadTree {
    static constexpr int kLeaf = 4, kDepth = 12;
    struct Node {
        Box<2> box;
        int child = -1; // first of four
        int count = 0;
        int ids[kLeaf] = {};
        explicit Node(const Box<2> &b) : box(b) {}
    };
    Buffer<Node> nodes_;
    Buffer<Point<2>> points_;

    int quadrant(const Node &n, const Point<2> &p) const {
        Point<2> c = n.box.center();
        return (p[0] >= c[0] ? 1 : 0) + (p[1] >= c[1] ? 2 : 0);
    }
    void split(int at) {
        Box<2> west = nodes_[at].box.lower_half(0), east = nodes_[at].box.upper_half(0);
        int first = nodes_.add(Node(west.lower_half(1)));
        nodes_.add(Node(east.lower_half(1)));
        nodes_.add(Node(west.upper_half(1)));
        nodes_.add(Node(east.upper_half(1)));
        nodes_[at].child = first;
        Node old = nodes_[at];
        for (int i = 0; i < kLeaf; ++i) place(first + quadrant(old, points_[old.ids[i]]), old.ids[i], kDepth);
    }
    bool place(int at, int id, int depth) {
        Node &n = nodes_[at];
        if (n.child < 0 && n.count < kLeaf) {
            n.ids[n.count++] = id;
            return true;
        }
        if (depth >= kDepth) return false;
        if (n.child < 0) split(at);
        bool ok = place(nodes_[at].child + quadrant(nodes_[at], points_[id]), id, depth + 1);
        nodes_[at].count += ok;
        return ok;
    }
    template <class F> void walk(int at, const Box<2> &b, F &f) const {
        const Node &n = nodes_[at];
        if (!n.count || !n.box.overlaps(b)) return;
        for (int i = 0; i < 4 && n.child >= 0; ++i) walk(n.child + i, b, f);
        for (int i = 0; i < n.count && n.child < 0; ++i)
            if (b.contains(points_[n.ids[i]])) f(n.ids[i]);
    }
    int height(int at) const {
        double deepest = 0;
        for (int i = 0; i < 4 && nodes_[at].child >= 0; ++i) deepest = upper(deepest, height(nodes_[at].child + i));
        return static_cast<int>(deepest) + 1;
    }

public:
    explicit QuadTree(const Box<2> &b) { nodes_.add(Node(b)); }
    bool insert(const Point<2> &p) { return nodes_[0].box.contains(p) && place(0, points_.add(p), 0); }
    int size() const { return nodes_[0].count; }
    int depth() const { return height(0); }
    template <class F> void query(const Box<2> &b, F f) const { walk(0, b, f); }
};

template <int D> class Bvh {
    struct Node {
        Box<D> box;
        int left = -1, right = -1, id = -1;
        bool leaf() const { return id >= 0; }
    };
    struct Prim { Box<D> box; int id; };
    Buffer<Prim> prims_;
    Buffer<Node> nodes_;

    int build(int lo, int hi) {
        Node n;
        for (int i = lo; i < hi; ++i) n.box.include(prims_[i].box);
        if (hi - lo == 1) {
            n.id = prims_[lo].id;
            return nodes_.add(n);
        }
        int mid = (lo + hi) / 2, axis = n.box.longest();
        select_nth(prims_.begin() + lo, hi - lo, mid - lo, [axis](const Prim &p) { return p.box.center()[axis]; });
        n.left = build(lo, mid);
        n.right = build(mid, hi);
        return nodes_.add(n);
    }
    template <class F> void walk(int at, const Box<D> &b, F &f) const {
        const Node &n = nodes_[at];
        if (!n.box.overlaps(b)) return;
        if (n.leaf()) return f(n.id);
        walk(n.left, b, f);
        walk(n.right, b, f);
    }
    void cast(int at, const Point<D> &from, const Point<D> &inv, int &best, double &t) const {
        const Node &n = nodes_[at];
        double d = n.box.hit(from, inv);
        if (d < 0 || d >= t) return;
        if (n.leaf()) {
            t = d;
            best = n.id;
            return;
        }
        cast(n.left, from, inv, best, t);
        cast(n.right, from, inv, best, t);
    }
    void approach(int at, const Point<D> &p, Nearest &out) const {
        const Node &n = nodes_[at];
        double d = n.box.distance2(p);
        if (d >= out.bound()) return;
        if (n.leaf()) return out.offer(n.id, d);
        bool swap = nodes_[n.right].box.distance2(p) < nodes_[n.left].box.distance2(p);
        approach(swap ? n.right : n.left, p, out);
        approach(swap ? n.left : n.right, p, out);
    }

public:
    void add(const Box<D> &b) { prims_.add(Prim{b, prims_.size()}); }
    void build() { build(0, prims_.size()); }
    int root() const { return nodes_.size() - 1; }
    template <class F> void query(const Box<D> &b, F f) const { walk(root(), b, f); }
    void nearest(const Point<D> &p, Nearest &out) const { approach(root(), p, out); }
    int raycast(const Point<D> &from, const Point<D> &dir, double &t) const {
        Point<D> inv;
        for (int i = 0; i < D; ++i) inv[i] = 1 / (dir[i] != 0 ? dir[i] : 1e-12);
        int best = -1;
        t = HUGE_VAL;
        cast(root(), from, inv, best, t);
        return best;
    }
};

template <class Index, int D> int count_in(const Index &index, const Box<D> &b) {
    int n = 0;
    index.query(b, [&n](int) { ++n; });
    return n;
}

class Random {
    uint64_t s_;

public:
    explicit Random(uint64_t seed) : s_(seed) {}
    double unit() {
        s_ = s_ * 6364136223846793005ull + 1442695040888963407ull;
        return static_cast<double>(s_ >> 11) / 9007199254740992.0;
    }
    template <int D> Point<D> point(double scale) {
        Point<D> p;
        for (int i = 0; i < D; ++i) p[i] = unit() * scale;
        return p;
    }
};

template <int D> int brute_nearest(const Buffer<Point<D>> &pts, const Point<D> &at) {
    int best = 0;
    for (int i = 1; i < pts.size(); ++i)
        if (pts[i].distance2(at) < pts[best].distance2(at)) best = i;
    return best;
}

// Compares every index with brute force; returns the number of disagreements.
template <int D> int cross_check(uint64_t seed, int n, int rounds) {
    Random rnd(seed);
    Buffer<Point<D>> pts;
    KdTree<D> kd;
    Bvh<D> bvh;
    for (int i = 0; i < n; ++i) {
        Point<D> p = rnd.point<D>(100);
        pts.add(p);
        kd.add(p);
        bvh.add(Box<D>(p, p));
    }
    kd.build();
    bvh.build();
    int bad = 0;
    for (int r = 0; r < rounds; ++r) {
        Point<D> at = rnd.point<D>(120);
        Nearest a(3), b(3);
        kd.nearest(at, a);
        bvh.nearest(at, b);
        bad += a.id(0) != brute_nearest(pts, at) || a.id(0) != b.id(0) || a.id(2) != b.id(2);
        Box<D> box = Box<D>::around(at, 20);
        int want = 0;
        for (const Point<D> &p : pts) want += box.contains(p);
        bad += count_in(kd, box) != want || count_in(bvh, box) != want;
    }
    return bad;
}

int quadtree_mismatches(int n) {
    Random rnd(99);
    Box<2> world(Point<2>{{0, 0}}, Point<2>{{64, 64}});
    QuadTree tree(world);
    KdTree<2> kd;
    for (int i = 0; i < n; ++i) {
        Point<2> p = rnd.point<2>(64);
        if (tree.insert(p)) kd.add(p);
    }
    kd.build();
    int bad = tree.size() != n || tree.depth() < 3;
    for (int i = 0; i < 30; ++i) {
        Box<2> b = Box<2>::around(rnd.point<2>(64), 9);
        bad += count_in(tree, b) != count_in(kd, b);
    }
    return bad;
}

} // namespace geo

extern "C" int spatial_selftest() {
    using namespace geo;
    if (cross_check<2>(1, 300, 40) || cross_check<3>(2, 300, 40)) return 1;
    if (quadtree_mismatches(200)) return 2;
    QuadTree same(Box<2>(Point<2>{{0, 0}}, Point<2>{{1, 1}}));
    int kept = 0;
    for (int i = 0; i < 10; ++i) kept += same.insert(Point<2>{{0.3, 0.3}});
    if (kept != 4 || same.size() != 4 || same.insert(Point<2>{{2, 0}})) return 3;
    Bvh<3> boxes;
    for (int i = 0; i < 20; ++i) boxes.add(Box<3>::around(Point<3>{{i * 4.0, 0, i % 2 * 1.5}}, 1));
    boxes.build();
    double t = 0;
    if (boxes.raycast(Point<3>{{-10, 0, 0.8}}, Point<3>{{1, 0, 0}}, t) != 0 || fabs(t - 9) > 1e-9) return 4;
    if (boxes.raycast(Point<3>{{-10, 0, 2}}, Point<3>{{1, 0, 0}}, t) != 1 || fabs(t - 13) > 1e-9) return 5;
    if (boxes.raycast(Point<3>{{-10, 5, 0}}, Point<3>{{1, 0, 0}}, t) != -1) return 6;
    return 0;
}
